"""Who may open a socket: the same roles that may produce and consume on the client port, by header, query or TLS."""

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from compat_tests.certificates import Authority
from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from tests.server.security.scene import KEY, PROVIDER, token
from tests.server.websocket.websocket_scene import TOPIC, Socket, Sockets, sockets

SECURITY = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationProviders": PROVIDER,
    "tokenSecretKey": f"data:,{KEY}",
    "superUserRoles": "root",
}

PRODUCER, CONSUMER, READER = f"producer/{TOPIC}", f"consumer/{TOPIC}/s", f"reader/{TOPIC}"
MESSAGE = {"payload": "eA=="}


def bearer(role: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token(role).decode()}"}


@asynccontextmanager
async def guarded(folder: Path, **settings: str) -> AsyncIterator[Sockets]:
    """A server on which alice may produce and bob consume, in public/default."""
    async with sockets(folder, **SECURITY, **settings) as scene:
        await grant(scene, "alice", "produce")
        await grant(scene, "bob", "consume")
        yield scene


async def grant(scene: Sockets, role: str, *actions: str) -> None:
    url = f"{scene.web.server.web_url}/admin/v2/namespaces/public/default/permissions/{role}"
    async with scene.web.session.post(
        url, data=json.dumps(actions), headers={**bearer("root"), "Content-Type": "application/json"}
    ) as answer:
        assert answer.status == 204, await answer.text()


async def test_who_proves_nothing_is_refused_before_anything_is_looked_at(tmp_path: Path) -> None:
    async with guarded(tmp_path) as scene:
        for path in (PRODUCER, CONSUMER, READER, "nope", "producer/persistent/x", f"{PRODUCER}?hashingScheme=Nope"):
            assert (await scene.refused(path))[0] == 401
        wrong = {"Authorization": "Bearer x.y.z"}
        assert await scene.refused(PRODUCER, wrong) == (401, "Failed to authenticate")
        assert (await scene.refused(f"{PRODUCER}?token=x.y.z"))[0] == 401


async def test_a_refused_socket_creates_no_topic(tmp_path: Path) -> None:
    async with guarded(tmp_path, allowAutoTopicCreationType="partitioned") as scene:
        for path in (PRODUCER, CONSUMER, READER, f"consumer/{TOPIC}-2/s?subscriptionType=Shared"):
            assert (await scene.refused(path, bearer("eve")))[0] == 403
        url = f"{scene.web.server.web_url}/admin/v2/persistent/public/default"
        for made in ("", "/partitioned"):
            async with scene.web.session.get(url + made, headers=bearer("root")) as answer:
                assert await answer.json() == []


async def test_roles_may_open_what_they_may_do_on_the_client_port(tmp_path: Path) -> None:
    async with guarded(tmp_path) as scene:
        for path in (PRODUCER, CONSUMER, READER):
            status, reason = await scene.refused(path, bearer("eve"))
            assert (status, "uthorized" in reason) == (403, True), reason
        assert (await scene.refused(CONSUMER, bearer("alice")))[0] == 403
        assert (await scene.refused(READER, bearer("alice")))[0] == 403
        assert (await scene.refused(PRODUCER, bearer("bob")))[0] == 403
        assert (await scene.refused("producer/persistent/nobody/ns/t", bearer("alice")))[0] == 404
        async with scene.open(PRODUCER, bearer("alice")) as producing, scene.open(CONSUMER, bearer("bob")) as consuming:
            assert (await producing.ask(MESSAGE))["result"] == "ok"
            assert (await consuming.heard())["payload"] == "eA=="
        async with scene.open(PRODUCER, bearer("root")), scene.open(READER, bearer("root")):
            pass


async def test_a_token_may_stand_in_the_query(tmp_path: Path) -> None:
    async with guarded(tmp_path) as scene:
        text = token("alice").decode()
        for given in (text, f"Bearer%20{text}"):
            async with scene.open(f"{PRODUCER}?token={given}") as socket:
                assert (await socket.ask(MESSAGE))["result"] == "ok"
        assert (await scene.refused(f"{PRODUCER}?token={text}", bearer("eve")))[0] == 403  # the header comes first


async def test_a_permission_that_is_withdrawn_ends_the_socket(tmp_path: Path) -> None:
    async with guarded(tmp_path) as scene, scene.open(PRODUCER, bearer("alice")) as socket:
        assert (await socket.ask(MESSAGE))["result"] == "ok"
        await grant(scene, "alice", "consume")
        code, reason = await socket.end()
        assert (code, "the producer was closed" in reason) == (1008, True)


async def test_a_permission_to_consume_that_is_withdrawn_ends_the_socket(tmp_path: Path) -> None:
    async with guarded(tmp_path) as scene, scene.open(CONSUMER, bearer("bob")) as socket:
        await grant(scene, "bob", "produce")
        code, reason = await socket.end()
        assert (code, "cannot be consumed any more" in reason) == (1011, True)


async def test_sockets_come_over_tls_too(tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    folder.mkdir()
    authority = Authority(folder)
    issued = authority.issue("localhost")
    overrides = {"tlsCertificateFilePath": str(issued.certificate), "tlsKeyFilePath": str(issued.key)}
    options = StandaloneOptions(tmp_path / "data", broker_port=0, web_port=0, web_port_tls=0, overrides=overrides)
    server = Standalone(options)
    await server.start()
    try:
        trust = ssl.create_default_context(cafile=authority.path)
        async with aiohttp.ClientSession() as session:
            url = f"{server.urls.web_tls}/ws/v2/{PRODUCER}".replace("127.0.0.1", "localhost")
            async with session.ws_connect(url, ssl=trust) as inner:
                assert (await Socket(inner).ask(MESSAGE))["result"] == "ok"
    finally:
        await server.stop()
