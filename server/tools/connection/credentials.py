"""With what a tool logs in: a token, a name with a password, a client certificate, or a token of an OAuth 2.0 issuer.

The parameters have the formats of Java's classes in org.apache.pulsar.client.impl.auth: AuthenticationToken takes
`token:…`, `file:…` or `{"token": "…"}`; AuthenticationBasic takes `{"userId": "…", "password": "…"}`, or
`name:password` as the C++ client does; AuthenticationTls takes `tlsCertFile:…,tlsKeyFile:…` or the same as JSON. The
module `oauth2` says what AuthenticationOAuth2 takes.
"""

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from magnetar.server.tools.connection.connection_errors import ConnectionSettingsError

if TYPE_CHECKING:
    from magnetar.server.tools.connection.oauth2 import TokenSource

TOKEN_BYTES_MAX = 64 << 10
"""A token file that is longer is refused, because it holds something else."""

_METHODS = {
    "authenticationtoken": "token",
    "token": "token",
    "authenticationbasic": "basic",
    "basic": "basic",
    "authenticationtls": "tls",
    "tls": "tls",
    "authenticationoauth2": "oauth2",
    "oauth2": "oauth2",
    "authenticationdisabled": "",
    "none": "",
}
_ABSENT = {
    "authenticationsasl": "Kerberos (AuthenticationSasl) is not here",
    "sasl": "Kerberos (AuthenticationSasl) is not here",
    "authenticationathenz": "Athenz (AuthenticationAthenz) is not here",
    "athenz": "Athenz (AuthenticationAthenz) is not here",
}
_OFFERED = (
    "AuthenticationToken, AuthenticationBasic, AuthenticationTls or AuthenticationOAuth2 (token, basic, tls, oauth2)"
)


class Credentials(NamedTuple):
    """What to log in with. `method` is "token", "basic", "tls" or empty; `client_certificate` and `client_key` are PEM
    files, which also go with a token when client.conf names them. With `oauth2`, tokens come from there instead of
    `token`. Nothing here is ever printed."""

    method: str
    token: str
    user: str
    password: str
    client_certificate: str
    client_key: str
    oauth2: "TokenSource | None" = None

    def __repr__(self) -> str:
        return f"Credentials({self.method or 'none'})"

    def current_token(self) -> str:
        """Returns the token of the method "token". Raises ConnectionSettingsError when an issuer gives none."""
        return self.token if self.oauth2 is None else self.oauth2.token()

    def headers(self) -> dict[str, str]:
        """Returns the HTTP headers that log in. Raises ConnectionSettingsError when an issuer gives no token."""
        if self.method == "token":
            return {"Authorization": f"Bearer {self.current_token()}"}
        if self.method == "basic":
            import base64

            pair = f"{self.user}:{self.password}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode('ascii')}"}
        return {}


def credentials_of(settings: Mapping[str, str]) -> Credentials:
    """Returns the credentials that the keys of client.conf describe. As for Java's tools, a plugin without parameters
    counts only for "tls" and none. Raises ConnectionSettingsError."""
    plugin = settings.get("authPlugin", "").strip()
    parameters = settings.get("authParams", "").strip()
    certificate = settings.get("tlsCertificateFilePath", "")
    key = settings.get("tlsKeyFilePath", "")
    if bool(certificate) != bool(key):
        raise ConnectionSettingsError("a client certificate needs both tlsCertificateFilePath and tlsKeyFilePath")
    none = Credentials("", "", "", "", certificate, key)
    method = _method(plugin)
    if not method or (not parameters and method != "tls"):
        return none
    if method == "token":
        return none._replace(method="token", token=_token(parameters))
    if method == "basic":
        user, password = _user_and_password(parameters)
        return none._replace(method="basic", user=user, password=password)
    pairs = _pairs(parameters)
    if method == "oauth2":
        from magnetar.server.tools.connection.oauth2 import TokenSource, oauth2_client

        return none._replace(method="token", oauth2=TokenSource(oauth2_client(pairs)))
    certificate, key = pairs.get("tlsCertFile", certificate), pairs.get("tlsKeyFile", key)
    if not certificate or not key:
        raise ConnectionSettingsError("authParams: authentication by TLS needs tlsCertFile and tlsKeyFile")
    return none._replace(method="tls", client_certificate=_path(certificate), client_key=_path(key))


def _method(plugin: str) -> str:
    if not plugin:
        return ""
    name = plugin.rpartition(".")[2].lower()
    if name not in _METHODS:
        absent = _ABSENT.get(name, f"'{plugin}' is not supported")
        raise ConnectionSettingsError(f"authPlugin: {absent}; use {_OFFERED}")
    return _METHODS[name]


def _token(parameters: str) -> str:
    if parameters.startswith("{"):
        token = _pairs(parameters).get("token", "")
    elif parameters.startswith("file:"):
        token = _read_token(_path(parameters))
    elif parameters.startswith("env:"):
        token = os.environ.get(parameters.removeprefix("env:"), "")
    else:
        token = parameters.removeprefix("token:")
    token = token.strip()
    if not token:
        raise ConnectionSettingsError("authParams: there is no token in it")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConnectionSettingsError("authParams: the token holds characters that no token has")
    return token


def _read_token(path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(TOKEN_BYTES_MAX + 1)
    except OSError as error:
        raise ConnectionSettingsError(f"the token file {path}: {os.strerror(error.errno or 0)}") from None
    if len(content) > TOKEN_BYTES_MAX:
        raise ConnectionSettingsError(f"the token file {path} is longer than {TOKEN_BYTES_MAX} bytes")
    return content.decode("utf-8", "replace")


def _path(text: str) -> str:
    return os.path.expanduser(text.removeprefix("file://").removeprefix("file:"))


def _user_and_password(parameters: str) -> tuple[str, str]:
    if parameters.startswith("{"):
        pairs = _pairs(parameters)
        return pairs.get("userId", ""), pairs.get("password", "")
    user, colon, password = parameters.partition(":")
    if not colon:
        raise ConnectionSettingsError("authParams: basic authentication needs name:password or JSON")
    return user, password


def _pairs(parameters: str) -> dict[str, str]:
    """Returns the pairs of `{"a": "b"}` or `a:b,c:d`. The texts of errors do not repeat the parameters, which may hold
    a secret."""
    if not parameters.startswith("{"):
        parts = (part.partition(":") for part in parameters.split(",") if part.strip())
        return {key.strip(): value.strip() for key, _, value in parts}
    try:
        pairs = json.loads(parameters)
    except ValueError:
        raise ConnectionSettingsError("authParams: the JSON in it cannot be read") from None
    return {str(key): str(value) for key, value in pairs.items()}
