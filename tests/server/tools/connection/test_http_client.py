"""The HTTP client against servers in threads: what it sends, which redirects it follows, what it says of failures."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.certificates import Authority
from magnetar.server.tools.connection.connection_errors import AdminCallError, ConnectionSettingsError
from magnetar.server.tools.connection.http_client import AdminHttp, path_of, web_addresses
from magnetar.server.tools.connection.redirect_rules import redirect_target
from magnetar.server.tools.connection.settings import load_settings


class Seen(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Site:
    """A server in a thread. `respond` gets a call and returns (status, headers, body)."""

    def __init__(self, respond: Callable[[Seen], tuple[int, dict[str, str], bytes]]) -> None:
        self.seen: list[Seen] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                headers = {name.lower(): value for name, value in self.headers.items()}
                call = Seen(self.command, self.path, headers, self.rfile.read(length))
                site.seen.append(call)
                status, more, body = respond(call)
                self.send_response(status)
                for name, value in more.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


Start = Callable[[Callable[[Seen], tuple[int, dict[str, str], bytes]]], Site]


@pytest.fixture
def start() -> Iterator[Start]:
    sites: list[Site] = []

    def make(respond: Callable[[Seen], tuple[int, dict[str, str], bytes]]) -> Site:
        sites.append(Site(respond))
        return sites[-1]

    yield make
    for site in sites:
        site.close()


def client(url: str, folder: Path, **flags: str) -> AdminHttp:
    return AdminHttp(load_settings({"webServiceUrl": url, **flags}, {"XDG_CONFIG_HOME": str(folder)}))


def test_a_call_sends_query_body_and_token(start: Start, tmp_path: Path) -> None:
    site = start(lambda _: (200, {}, b'{"a": 1}'))
    http = client(site.url + "/", tmp_path, authPlugin="token", authParams="token:t")
    assert http.post(path_of("admin", "a b", "c/d"), [("k", "v w")], {"x": True}).json() == {"a": 1}
    (seen,) = site.seen
    assert (seen.method, seen.path, seen.body) == ("POST", "/admin/a%20b/c%2Fd?k=v%20w", b'{"x": true}')
    assert seen.headers["authorization"] == "Bearer t"
    assert seen.headers["content-type"] == "application/json"


def test_a_refusal_has_the_server_s_reason(start: Start, tmp_path: Path) -> None:
    answers = {"/a": b'{"reason": "No such tenant"}', "/b": b"<html>", "/c": b'{"reason": null}'}
    site = start(lambda call: (404, {}, answers[call.path]))
    http = client(site.url, tmp_path)
    for path, reason in (("/a", "No such tenant"), ("/b", "HTTP 404 Not Found"), ("/c", "HTTP 404 Not Found")):
        with pytest.raises(AdminCallError) as caught:
            http.get(path)
        assert (caught.value.status, caught.value.reason) == (404, reason)


def test_a_redirect_to_another_broker_is_followed_with_method_body_and_credentials(
    start: Start, tmp_path: Path
) -> None:
    owner = start(lambda _: (204, {}, b""))
    site = start(lambda call: (307, {"Location": owner.url + call.path}, b""))
    http = client(site.url, tmp_path, authPlugin="basic", authParams="u:p")
    assert http.put("/x", body=[1]).status == 204
    assert owner.seen[0].method == "PUT"
    assert owner.seen[0].body == b"[1]"
    assert owner.seen[0].headers["authorization"] == "Basic dTpw"


def test_brokers_that_redirect_for_ever_are_given_up(start: Start, tmp_path: Path) -> None:
    site = start(lambda call: (307, {"Location": call.path}, b""))
    with pytest.raises(AdminCallError, match="more than 5 redirects"):
        client(site.url, tmp_path).get("/x")
    assert len(site.seen) == 6


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("http://h/x", "from https to http"),
        ("ftp://h/x", "no HTTP address"),
        ("https://u:p@h/x", "no HTTP address"),
        ("https://h:port/x", "no HTTP address"),
    ],
)
def test_a_redirect_that_would_show_credentials_or_leads_nowhere_is_refused(target: str, complaint: str) -> None:
    with pytest.raises(AdminCallError, match=complaint):
        redirect_target("https://a:8443/x", 307, target, 0)
    assert redirect_target("http://a/x", 307, "https://b/x", 0) == "https://b/x"
    assert redirect_target("http://a/x", 200, "https://b/x", 0) is None


def test_the_next_address_is_tried_when_nobody_listens_at_the_first(start: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dead = listener.getsockname()[1]
    site = start(lambda _: (200, {}, b"ok"))
    port = site.server.server_port
    for dead_ones in (1, 2):
        url = f"http://{f'127.0.0.1:{dead},' * dead_ones}127.0.0.1:{port},127.0.0.1:{dead}"
        assert client(url, tmp_path).get("/x").text() == "ok"
    with pytest.raises(AdminCallError, match=f"cannot connect to http://127.0.0.1:{dead}: Connection refused"):
        client(f"http://127.0.0.1:{dead}", tmp_path).get("/x")


def test_a_server_that_never_answers_is_given_up_after_the_request_timeout(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        pytest.raises(AdminCallError, match="did not answer in time"),
    ):
        client(f"http://127.0.0.1:{listener.getsockname()[1]}", tmp_path, requestTimeout="1").get("/x")


@pytest.mark.parametrize("text", ["", "h:8080", "ftp://h", "http://", "http://h:port", "http://u:p@h", "http://a,"])
def test_an_address_that_is_none_is_named(text: str) -> None:
    with pytest.raises(AdminCallError, match="is not a web address"):
        web_addresses(text)


def test_a_server_s_certificate_must_be_trusted(start: Start, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate = authority.issue("server")
    site = start(lambda _: (200, {}, b"ok"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    site.server.socket = context.wrap_socket(site.server.socket, server_side=True)
    url = site.url.replace("http://", "https://")
    with pytest.raises(AdminCallError, match=r"(?i)certificate.verify.failed"):
        client(url, tmp_path).get("/x")
    assert client(url, tmp_path, tlsTrustCertsFilePath=str(authority.path)).get("/x").text() == "ok"
    assert client(url, tmp_path, tlsAllowInsecureConnection="true").get("/x").text() == "ok"
    with pytest.raises(ConnectionSettingsError, match="tlsTrustCertsFilePath: /no/such"):
        client(url, tmp_path, tlsTrustCertsFilePath="/no/such").get("/x")
