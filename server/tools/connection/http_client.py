"""A blocking HTTP client for the admin REST interface, made of the standard library because aiohttp takes longer to
import than a command may last."""

import contextlib
import json
import time
from collections.abc import Iterable, Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit

from magnetar.server.tools.connection.connection_errors import AdminCallError
from magnetar.server.tools.connection.redirect_rules import redirect_target
from magnetar.server.tools.connection.settings import ConnectionSettings

if TYPE_CHECKING:
    import ssl

    Query = Iterable[tuple[str, str]]

ANSWER_BYTES_MAX = 256 << 20
"""A longer answer is refused. The statistics of a topic with ten thousand consumers are ten megabytes."""
READ_BYTES = 1 << 16
CONNECT_SECONDS = 60.0
"""Java's PulsarAdminImpl.DEFAULT_CONNECT_TIMEOUT_SECONDS."""
JSON_TYPE = "application/json"


class Answer(NamedTuple):
    """An answer with a status below 300. `headers` have lower-case names."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """Returns the body's value; None for an empty body. Raises AdminCallError for a body that is not JSON."""
        if not self.body:
            return None
        try:
            return json.loads(self.body)
        except ValueError:
            raise AdminCallError("the server's answer is not JSON", self.status, self.body) from None

    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


class AdminHttp:
    """Makes calls to one cluster.

    A `path` begins with a slash and is encoded already (`path_of` makes one). A body that is not bytes is sent as JSON.
    Every call raises AdminCallError when the answer's status is 300 or more and when there is no answer. Several
    addresses in the settings (`http://a:8080,b:8080`) are tried in turn.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._bases = web_addresses(settings.web_service_url)
        self._tls: ssl.SSLContext | None = None

    @property
    def uses_tls(self) -> bool:
        return self._bases[0].startswith("https:")

    def get(self, path: str, query: "Query" = ()) -> Answer:
        return self.call("GET", path, query)

    def put(self, path: str, query: "Query" = (), body: Any = None) -> Answer:
        return self.call("PUT", path, query, body)

    def post(self, path: str, query: "Query" = (), body: Any = None) -> Answer:
        return self.call("POST", path, query, body)

    def delete(self, path: str, query: "Query" = (), body: Any = None) -> Answer:
        return self.call("DELETE", path, query, body)

    def call(
        self, method: str, path: str, query: "Query" = (), body: Any = None, content_type: str = JSON_TYPE
    ) -> Answer:
        """Makes one call, with its redirects, within the request timeout."""
        tail = path + _query_text(query)
        content = body if body is None or isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        headers = {"Accept": "*/*", "User-Agent": "magnetar-admin", **self._settings.credentials.headers()}
        if content is not None or method != "GET":
            # Apache's resources refuse every change that is not labelled as JSON (415), even one without a body.
            headers["Content-Type"] = content_type
        deadline = time.monotonic() + self._settings.request_timeout_seconds
        for base in self._bases[:-1]:
            try:
                return self._follow(method, base + tail, headers, content, deadline)
            except _UnreachableError:
                continue
        return self._follow(method, self._bases[-1] + tail, headers, content, deadline)

    @contextlib.contextmanager
    def stream(
        self, path: str, body: bytes | None, *, method: str = "POST", query: "Query" = ()
    ) -> "Iterator[Iterator[bytes]]":
        """Makes a call with a body of bytes and yields the parts of the answer as they come, however many. The request
        timeout is that of a silence. No redirect is followed. Raises AdminCallError, also while the parts are read."""
        parts = urlsplit(self._bases[0])
        where = f"{parts.scheme}://{parts.netloc}"
        headers = {"User-Agent": "magnetar-admin", **self._settings.credentials.headers()}
        headers["Content-Type"] = "application/octet-stream"
        connection = self._connection(
            parts.scheme, parts.hostname or "", parts.port, self._settings.request_timeout_seconds
        )
        with contextlib.closing(connection):
            try:
                connection.request(method, parts.path + path + _query_text(query), body, headers)
                response = connection.getresponse()
                if response.status >= 300:
                    answer = Answer(response.status, {}, response.read(READ_BYTES))
                    raise AdminCallError(f"{where}: {reason_of(answer)}", answer.status, answer.body)
            except TimeoutError:
                raise _no_answer(where) from None
            except (OSError, HTTPException) as error:
                reason = getattr(error, "strerror", None) or error or type(error).__name__
                raise AdminCallError(f"cannot call {where}: {reason}") from None
            yield _parts_of(response, where)

    def _follow(self, method: str, url: str, headers: dict[str, str], body: bytes | None, deadline: float) -> Answer:
        followed = 0
        while True:
            answer = self._exchange(method, url, headers, body, deadline)
            target = redirect_target(url, answer.status, answer.headers.get("location"), followed)
            if target is None:
                break
            url, followed = target, followed + 1
        if answer.status < 300:
            return answer
        raise AdminCallError(reason_of(answer), answer.status, answer.body)

    def _exchange(self, method: str, url: str, headers: dict[str, str], body: bytes | None, deadline: float) -> Answer:
        parts = urlsplit(url)
        where = f"{parts.scheme}://{parts.netloc}"
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        left = deadline - time.monotonic()
        if left <= 0:
            raise _no_answer(where)
        connection = self._connection(parts.scheme, parts.hostname or "", parts.port, min(left, CONNECT_SECONDS))
        try:
            try:
                connection.connect()
            except OSError as error:
                raise _UnreachableError(f"cannot connect to {where}: {error.strerror or error}") from None
            connection.sock.settimeout(left)
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            return _read(response, connection, where, deadline)
        except TimeoutError:
            raise _no_answer(where) from None
        except (OSError, HTTPException, UnicodeError) as error:
            raise AdminCallError(f"{where} broke the connection off: {error or type(error).__name__}") from None
        finally:
            connection.close()

    def _connection(self, scheme: str, host: str, port: int | None, seconds: float) -> HTTPConnection:
        if scheme == "http":
            return HTTPConnection(host, port, timeout=seconds)
        if self._tls is None:
            from magnetar.server.tools.connection.tls_context import tls_context

            self._tls = tls_context(self._settings)
        return HTTPSConnection(host, port, timeout=seconds, context=self._tls)


class _UnreachableError(AdminCallError):
    """No connection was made, so the call had no effect and may be tried elsewhere."""


def _query_text(query: "Query") -> str:
    pairs = "&".join(f"{quote(key, safe='')}={quote(value, safe='')}" for key, value in query)
    return f"?{pairs}" if pairs else ""


def _no_answer(where: str) -> AdminCallError:
    return AdminCallError(f"{where} did not answer in time; the call may have had its effect")


def _parts_of(response: HTTPResponse, where: str) -> "Iterator[bytes]":
    try:
        while part := response.read1(READ_BYTES):
            yield part
    except TimeoutError:
        raise _no_answer(where) from None
    except (OSError, HTTPException) as error:
        raise AdminCallError(f"{where} broke the connection off: {error or type(error).__name__}") from None


def _read(response: HTTPResponse, connection: HTTPConnection, where: str, deadline: float) -> Answer:
    parts = []
    size = 0
    while part := response.read1(READ_BYTES):
        parts.append(part)
        size += len(part)
        if size > ANSWER_BYTES_MAX:
            raise AdminCallError(f"{where} sent more than {ANSWER_BYTES_MAX >> 20} MB", response.status)
        left = deadline - time.monotonic()
        if left <= 0:
            raise _no_answer(where)
        if connection.sock is not None:
            connection.sock.settimeout(left)
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Answer(response.status, headers, b"".join(parts))


def reason_of(answer: Answer) -> str:
    """Returns the reason that a refusal gives, or `HTTP 404 Not Found` when it gives none, as Java's client does
    (BaseResource.getApiException)."""
    try:
        told = json.loads(answer.body)
    except ValueError:
        told = None
    if isinstance(told, dict) and isinstance(told.get("reason"), str):
        return str(told["reason"])
    from http import HTTPStatus

    try:
        phrase = HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP {answer.status} {phrase}".rstrip()


def web_addresses(text: str) -> list[str]:
    """Returns the base URLs of `http://a:8080,b:8080/` as a list without slashes at the end. Raises AdminCallError."""
    scheme, divider, rest = text.partition("://")
    if not divider or scheme not in ("http", "https"):
        raise AdminCallError(f"'{text}' is not a web address such as http://host:8080")
    bases = []
    for place in rest.split(","):
        base = f"{scheme}://{place.strip().rstrip('/')}"
        try:
            parts = urlsplit(base)
            sound = bool(parts.hostname) and parts.username is None and (parts.port is None or parts.port > 0)
        except ValueError:
            sound = False
        if not sound:
            raise AdminCallError(f"'{text}' is not a web address such as http://host:8080")
        bases.append(base)
    return bases


def path_of(*parts: str) -> str:
    """Returns the encoded path of `parts`: `path_of("admin", "v2", "tenants", "a b")` is `/admin/v2/tenants/a%20b`. A
    slash inside a part is encoded, so that a part never becomes two."""
    return "".join("/" + quote(part, safe="") for part in parts)
