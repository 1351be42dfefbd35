"""Calls of other brokers' admin interface, against HTTP servers that a test scripts."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.config.peer_settings import PeerSettings
from magnetar.server.peers import admin_peer
from magnetar.server.peers.admin_peer import AdminPeer
from magnetar.server.peers.peer_credentials import PLUGINS, Method, PeerCredentials
from magnetar.server.peers.peer_errors import PeerAnswerError, PeerTimeoutError, PeerUnreachableError
from magnetar.server.security.security_errors import SecurityConfigError

Handler = Callable[[web.Request], Awaitable[web.Response]]
TOKEN = next(name for name, method in PLUGINS.items() if method is Method.TOKEN)
BASIC = next(name for name, method in PLUGINS.items() if method is Method.BASIC)
TLS = next(name for name, method in PLUGINS.items() if method is Method.TLS)


class Seen:
    """An HTTP server that remembers its requests and answers as `handler` says."""

    def __init__(self, handler: Handler) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self._handler = handler
        self._server = web.Server(self._serve)
        self._runner = web.ServerRunner(self._server, shutdown_timeout=0.1)
        self.url = ""

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.requests.append((request.method, request.raw_path, headers, await request.read()))
        return await self._handler(request)  # type: ignore[arg-type]

    async def start(self) -> "Seen":
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def stop(self) -> None:
        await self._runner.cleanup()


class Site:
    """A store, servers and peers that a test makes, and that are closed at its end."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self._servers: list[Seen] = []
        self._peers: list[AdminPeer] = []

    async def server(self, handler: Handler) -> Seen:
        self._servers.append(await Seen(handler).start())
        return self._servers[-1]

    async def register(self, broker_id: str, url: str) -> None:
        value = json.dumps({"webServiceUrl": url, "advertisedListeners": {}}).encode()
        await self.store.create(f"/loadbalance/brokers/{broker_id}", value, make_parents=True)

    def peer(self, **settings: object) -> AdminPeer:
        made = PeerSettings(cluster_name="c", **settings)  # type: ignore[arg-type]
        self._peers.append(AdminPeer(self.store, made, PeerCredentials(made)))
        return self._peers[-1]

    async def close(self) -> None:
        for peer in self._peers:
            await peer.close()
        for server in self._servers:
            await server.stop()
        await self.store.close()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    yield made
    await made.close()


async def ok(request: web.Request) -> web.Response:
    return web.Response(text="fine")


def redirect_to(url: Callable[[], str], status: int = 307) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": url()})

    return answer


async def test_a_redirect_is_followed_with_method_body_and_encoded_path(site: Site) -> None:
    second = await site.server(ok)
    first = await site.server(redirect_to(lambda: f"{second.url}/admin/v2/persistent/t/n/a%2Fb?authoritative=true"))
    await site.register("first:8080", first.url)
    peer = site.peer()
    answer = await peer.call("POST", "first:8080", "/admin/v2/persistent/t/n/a%2Fb", {"x": "1 2"}, b'{"k":1}')
    assert (answer.status, answer.body) == (200, b"fine")
    assert first.requests[0][:2] == ("POST", "/admin/v2/persistent/t/n/a%2Fb?x=1+2")
    method, path, headers, body = second.requests[0]
    assert (method, path, body) == ("POST", "/admin/v2/persistent/t/n/a%2Fb?authoritative=true", b'{"k":1}')
    assert headers["content-type"] == "application/json"


async def test_a_refusal_is_an_answer(site: Site) -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=412, text="Can't find owner")

    server = await site.server(refuse)
    answer = await site.peer().call("GET", server.url, "/x")
    assert (answer.status, answer.body) == (412, b"Can't find owner")


async def test_six_redirects_are_an_error(site: Site) -> None:
    urls: list[str] = []
    server = await site.server(redirect_to(lambda: f"{urls[0]}/again"))
    urls.append(server.url)
    with pytest.raises(PeerAnswerError, match="more than 5 redirects"):
        await site.peer().call("GET", server.url, "/")
    assert len(server.requests) == 6


async def test_a_token_is_shown_to_registered_brokers_only(site: Site) -> None:
    stranger = await site.server(ok)
    broker = await site.server(redirect_to(lambda: f"{stranger.url}/stolen"))
    await site.register("b:8080", broker.url)
    peer = site.peer(
        broker_client_authentication_plugin=TOKEN, broker_client_authentication_parameters="token:secret.token"
    )
    assert (await peer.call("GET", "b:8080", "/")).status == 200
    assert broker.requests[0][2]["authorization"] == "Bearer secret.token"
    assert broker.requests[0][2]["x-pulsar-auth-method-name"] == "token"
    assert "authorization" not in stranger.requests[0][2]
    assert "secret" not in repr(stranger.requests[0])
    await site.register("stranger:8080", stranger.url)
    assert (await peer.call("GET", "b:8080", "/")).status == 200
    assert stranger.requests[1][2]["authorization"] == "Bearer secret.token"


async def test_the_clusters_own_addresses_get_credentials(site: Site) -> None:
    server = await site.server(ok)
    host = server.url.removeprefix("http://")
    value = json.dumps({"serviceUrl": f"http://other:80,{host}", "brokerServiceUrl": "pulsar://x:6650"}).encode()
    await site.store.create("/admin/clusters/c", value, make_parents=True)
    peer = site.peer(
        broker_client_authentication_plugin=BASIC,
        broker_client_authentication_parameters='{"userId":"admin","password":"pass:word"}',
    )
    await peer.call("GET", server.url, "/")
    sent = server.requests[0][2]["authorization"]
    assert base64.b64decode(sent.removeprefix("Basic ")) == b"admin:pass:word"


async def test_a_broker_that_left_is_unknown_at_once(site: Site) -> None:
    server = await site.server(ok)
    await site.register("b:8080", server.url)
    peer = site.peer()
    await peer.call("GET", "b:8080", "/")
    await site.store.delete("/loadbalance/brokers/b:8080")
    with pytest.raises(PeerUnreachableError, match="b:8080 is not registered"):
        await peer.call("GET", "b:8080", "/")


async def test_the_deadline_holds_for_the_whole_call(site: Site) -> None:
    async def never(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    slow = await site.server(never)
    first = await site.server(redirect_to(lambda: slow.url))
    with pytest.raises(PeerTimeoutError, match="did not answer within"):
        await site.peer().call("GET", first.url, "/", deadline_seconds=0.2)
    assert len(slow.requests) == 1


async def test_a_refused_connection_is_told(site: Site) -> None:
    server = await site.server(ok)
    await server.stop()
    with pytest.raises(PeerUnreachableError, match="does not answer"):
        await site.peer().call("GET", server.url, "/")


async def test_an_answer_without_end_is_cut_off(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_peer, "ANSWER_BYTES_MAX", 1000)

    async def long(request: web.Request) -> web.Response:
        return web.Response(body=b"x" * 1001)

    server = await site.server(long)
    with pytest.raises(PeerAnswerError, match="more than 1000 bytes"):
        await site.peer().call("GET", server.url, "/")


async def test_a_tokens_file_is_read_for_every_call(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    server = await site.server(ok)
    await site.register("b:1", server.url)
    peer = site.peer(
        broker_client_authentication_plugin="token", broker_client_authentication_parameters=f"file://{file}"
    )
    await peer.call("GET", "b:1", "/")
    file.write_text("two\n")
    await peer.call("GET", "b:1", "/")
    assert [each[2]["authorization"] for each in server.requests] == ["Bearer one", "Bearer two"]


@pytest.mark.parametrize(
    ("plugin", "parameters"),
    [
        ("com.example.Auth", ""),
        (TOKEN, ""),
        (TOKEN, "token: "),
        (BASIC, "admin:password"),
        (BASIC, '{"userId":"admin"}'),
        (TLS, "tlsCertFile:/only"),
    ],
)
def test_credentials_that_make_no_sense_are_refused_at_the_start(plugin: str, parameters: str) -> None:
    settings = PeerSettings(
        broker_client_authentication_plugin=plugin, broker_client_authentication_parameters=parameters
    )
    with pytest.raises(SecurityConfigError) as refused:
        PeerCredentials(settings)
    assert not parameters or parameters not in str(refused.value)
