"""Logging in by OAuth 2.0's client credentials (RFC 6749, section 4.4): an issuer gives a token for a client's id and
secret, and the token is what servers see.

The parameters are those of Java's org.apache.pulsar.client.impl.auth.oauth2.AuthenticationOAuth2: `issuerUrl`,
`privateKey` (the URL of a key file), and optionally `audience`, `scope` and `trustCertsFilePath`. Secrets and tokens
stand in no error's text.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_to_bytes, urlencode, urlsplit

from magnetar.server.tools.connection.connection_errors import ConnectionSettingsError

if TYPE_CHECKING:
    import ssl
    from urllib.request import OpenerDirector

CLIENT_CREDENTIALS = "client_credentials"
WELL_KNOWN = "/.well-known/openid-configuration"
KEY_FILE_BYTES_MAX = 64 << 10
ANSWER_BYTES_MAX = 1 << 20
ISSUER_SECONDS = 30
"""How long the issuer may be silent during each of the two calls (Java's
TokenClient.DEFAULT_READ_TIMEOUT_IN_SECONDS)."""
LIFE_SECONDS_MAX = 10 * 365 * 86_400
"""A longer life of a token is taken for none."""
REASON_CHARACTERS_MAX = 500
USED_SHARE = 0.9
"""A token is used for this share of its life, so that it does not expire on its way (AuthenticationOAuth2's
EXPIRY_ADJUSTMENT)."""


class OAuth2Client(NamedTuple):
    """Who asks which issuer for tokens. `audience`, `scope` and `trust_certs` may be empty."""

    issuer_url: str
    client_id: str
    client_secret: str
    audience: str
    scope: str
    trust_certs: str

    def __repr__(self) -> str:
        return f"OAuth2Client({self.client_id} at {self.issuer_url})"


def oauth2_client(parameters: Mapping[str, str]) -> OAuth2Client:
    """Returns what the parameters of AuthenticationOAuth2 describe; reads the key file. Raises
    ConnectionSettingsError."""
    kind = parameters.get("type") or CLIENT_CREDENTIALS
    if kind != CLIENT_CREDENTIALS:
        raise ConnectionSettingsError(f"authParams: type is '{kind}'; only {CLIENT_CREDENTIALS} is here")
    for name in ("issuerUrl", "privateKey"):
        if not parameters.get(name):
            raise ConnectionSettingsError(f"authParams: OAuth 2.0 needs {name}")
    issuer_url = parameters["issuerUrl"].rstrip("/")
    _check_url(issuer_url, "authParams: issuerUrl")
    key = _key_file(parameters["privateKey"])
    return OAuth2Client(
        issuer_url,
        key["client_id"],
        key["client_secret"],
        parameters.get("audience", ""),
        parameters.get("scope", ""),
        parameters.get("trustCertsFilePath", ""),
    )


class TokenSource:
    """Gives the token of one client, and asks the issuer for another one when the token is about to expire."""

    def __init__(self, client: OAuth2Client, now_s: Callable[[], float] = time.monotonic) -> None:
        self.client = client
        self._now_s = now_s
        self._token = ""
        self._until_s = float("-inf")

    def token(self) -> str:
        """Returns a token that is valid. Raises ConnectionSettingsError when the issuer gives none."""
        now_s = self._now_s()
        if now_s >= self._until_s:
            self._token, seconds = _new_token(self.client)
            self._until_s = now_s + USED_SHARE * seconds
        return self._token


def _key_file(url: str) -> dict[str, str]:
    """Returns the pairs of a key file, which is named by a path or a file: URL, or stands in a data: URL."""
    if url.startswith("data:"):
        content = _data_of(url)
    else:
        if url.lstrip().startswith("{"):
            raise ConnectionSettingsError("privateKey: that is a key and not a key file's URL; see data: URLs")
        path = os.path.expanduser(url.removeprefix("file://").removeprefix("file:"))
        try:
            with open(path, "rb") as file:
                content = file.read(KEY_FILE_BYTES_MAX)
        except OSError as error:
            raise ConnectionSettingsError(f"privateKey: {path}: {os.strerror(error.errno or 0)}") from None
    try:
        pairs = json.loads(content)
    except ValueError:
        pairs = None
    if not isinstance(pairs, dict) or not all(
        isinstance(pairs.get(name), str) for name in ("client_id", "client_secret")
    ):
        raise ConnectionSettingsError("privateKey: that is not JSON with a client_id and a client_secret")
    return pairs


def _data_of(url: str) -> bytes:
    kind, comma, data = url.removeprefix("data:").partition(",")
    media_type, *marks = kind.split(";")
    if not comma or media_type != "application/json":
        raise ConnectionSettingsError("privateKey: a data: URL has to begin with data:application/json;base64,")
    content = unquote_to_bytes(data)
    if "base64" not in marks:
        return content
    import base64

    try:
        return base64.b64decode(content, validate=True)
    except ValueError:
        raise ConnectionSettingsError("privateKey: the data: URL does not hold base64") from None


def _new_token(client: OAuth2Client) -> tuple[str, float]:
    """Returns a token and for how many seconds it is valid."""
    metadata_url = client.issuer_url + WELL_KNOWN
    endpoint = _ask(client, metadata_url).get("token_endpoint")
    if not isinstance(endpoint, str):
        raise ConnectionSettingsError(f"{metadata_url} names no token_endpoint")
    _check_url(endpoint, f"{metadata_url}: token_endpoint")
    if urlsplit(client.issuer_url).scheme == "https" != urlsplit(endpoint).scheme:
        raise ConnectionSettingsError(f"{metadata_url}: token_endpoint is not https: the secret would be seen")
    asked = {
        "grant_type": CLIENT_CREDENTIALS,
        "client_id": client.client_id,
        "client_secret": client.client_secret,
        "audience": client.audience,
        "scope": client.scope,
    }
    told = _ask(client, endpoint, urlencode({key: value for key, value in asked.items() if value}).encode())
    token = told.get("access_token")
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token:
        raise ConnectionSettingsError(f"{endpoint} answered without an access_token")
    seconds = told.get("expires_in")
    if not isinstance(seconds, int | float) or not 0 <= seconds <= LIFE_SECONDS_MAX:
        seconds = 0  # The token is used once.
    return token, float(seconds)


def _ask(client: OAuth2Client, url: str, form: bytes | None = None) -> dict[str, Any]:
    """GETs, or POSTs a form to, an address of the issuer, and returns the answer's members."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request

    from magnetar.server.tools.connection.server_trust import trusting_context

    request = Request(url, form, {"Accept": "application/json", "User-Agent": "magnetar-admin"})
    try:
        opener = _opener(trusting_context(client.trust_certs))
        with opener.open(request, timeout=ISSUER_SECONDS) as answer:
            told = json.loads(answer.read(ANSWER_BYTES_MAX))
    except HTTPError as error:
        with error:
            raise ConnectionSettingsError(
                f"{url} refused: {_refusal(error.read(ANSWER_BYTES_MAX), error.code)}"
            ) from None
    except (OSError, HTTPException) as error:
        raise ConnectionSettingsError(f"{url} cannot be asked for a token: {error}") from None
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise ConnectionSettingsError(f"{url} did not answer with JSON")
    return told


def _opener(context: "ssl.SSLContext") -> "OpenerDirector":
    """Returns what opens addresses. A redirect is followed only from one address of a scheme to another one: whoever
    answers in the place of http could name a token_endpoint of their own. A form is never sent on."""
    from urllib.request import HTTPRedirectHandler, HTTPSHandler, Request, build_opener

    class Redirects(HTTPRedirectHandler):
        def redirect_request(
            self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
        ) -> Request | None:
            if req.data is not None or urlsplit(newurl).scheme != req.type:
                return None
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    return build_opener(Redirects, HTTPSHandler(context=context))


def _refusal(body: bytes, status: int) -> str:
    """Returns the members `error` and `error_description` of RFC 6749, section 5.2, or the status. They are shown on a
    terminal, so they have no characters that a terminal obeys."""
    try:
        told = json.loads(body)
        parts = [str(told[name]) for name in ("error", "error_description") if told.get(name)]
    except (ValueError, RecursionError, AttributeError):
        parts = []
    text = ": ".join(parts)[:REASON_CHARACTERS_MAX]
    return "".join(each if each.isprintable() else " " for each in text) or f"HTTP {status}"


def _check_url(url: str, what: str) -> None:
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        sound = False
    if not sound:
        raise ConnectionSettingsError(f"{what} is not a web address")
