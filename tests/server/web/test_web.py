"""The web port of a whole server: it answers as Pulsar 4.0.7 does, and answers also when something fails."""

import asyncio
import json
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from compat_tests.certificates import Authority
from magnetar.server.programs.broker_parts import admin_routes
from magnetar.server.programs.standalone import Standalone
from magnetar.server.web import http_app as web_app
from magnetar.server.web import http_listener as listener_module
from magnetar.server.web.calls import Call, Route
from magnetar.server.web.http_listener import WebListener
from magnetar.server.web.needs import EVERYBODY
from magnetar.server.web.places import Place
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.fakes import command, make_broker
from tests.server.web.web_scene import TOPIC, running
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]
VECTORS = json.loads((ROOT / "tests" / "vectors" / "rest_reads.json").read_text())


def subscribe_earliest(topic: str, subscription: str) -> pb.BaseCommand:
    values = {"topic": topic, "subscription": subscription, "subType": 1, "initialPosition": 1}
    return command("SUBSCRIBE", "subscribe", consumer_id=1, request_id=2, **values)


def here(text: str, server: Standalone) -> str:
    """Returns a path or body of the captures with this server's namespace and ports in it."""
    text = text.replace("v1/n1", "public/default").replace("v1/nope", "public/nope")
    text = text.replace("pulsar://127.0.0.1:6775", server.broker_url)
    return text.replace("127.0.0.1:8197", server.web_url.removeprefix("http://"))


def shape(value: Any) -> Any:
    """Returns the names and the types in a JSON value, without the values."""
    if isinstance(value, dict):
        return {name: shape(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shape(each) for each in value[:1]]
    return "number" if type(value) in (int, float) else type(value).__name__


async def test_reads_are_answered_as_apache_answers_them(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        client = await web.publish(10)
        client.say(command("CLOSE_PRODUCER", "close_producer", producer_id=1, request_id=2))
        await client.answer()
        for exchange in VECTORS["exchanges"]:
            path = here(exchange["p"], web.server)
            status, content_type, body = await web.get(path)
            assert status == exchange["s"], path
            if exchange["rt"] != "application/json":
                continue
            assert content_type.startswith("application/json"), path
            expected = here(exchange["rb"], web.server)
            if path.partition("?")[0].endswith(("/stats", "/internalStats")) and status == 200:
                ours, theirs = shape(json.loads(body)), shape(json.loads(expected))
                assert {name: ours.get(name) for name in theirs} == theirs, path
            elif path.endswith("lastMessageId") and status == 200:
                assert json.loads(body) | {"ledgerId": 6} == json.loads(expected)
            elif expected == "ok":
                assert body == expected
            else:
                assert json.loads(body) == json.loads(expected), path


async def test_stats_name_who_is_there_and_leave_out_what_is_not_wanted(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        client = await web.publish(3)
        client.say(subscribe_earliest(TOPIC, "s"))
        assert (await client.answer()).type == pb.BaseCommand.SUCCESS
        stats = await web.json("/admin/v2/persistent/public/default/t1/stats")
        assert stats["msgInCounter"] == 3
        assert [publisher["producerName"] for publisher in stats["publishers"]] == ["p"]
        assert len(stats["subscriptions"]["s"]["consumers"]) == 1
        short = "/admin/v2/persistent/public/default/t1/stats?excludePublishers=true&excludeConsumers=true"
        stats = await web.json(short)
        assert (stats["publishers"], stats["subscriptions"]["s"]["consumers"]) == ([], [])
        assert await web.json("/admin/v2/persistent/public/default/t1/subscriptions") == ["s"]


async def test_a_topic_is_loaded_to_be_looked_at_but_never_created(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        for topic, count in ((TOPIC, 2), ("persistent://public/default/with%2Fslash é", 1)):
            client = await web.publish(count, topic)
            client.say(subscribe_earliest(topic, "s"))
            assert (await client.answer()).type == pb.BaseCommand.SUCCESS
    async with running(tmp_path) as web:
        assert (await web.json("/admin/v2/persistent/public/default/t1/stats"))["storageSize"] > 0
        last = await web.json("/admin/v2/persistent/public/default/t1/lastMessageId")
        assert last["entryId"] == 1
        encoded = "with%252Fslash%20%C3%A9"
        assert (await web.json(f"/admin/v2/persistent/public/default/{encoded}/stats"))["storageSize"] > 0
        listed = [TOPIC, "persistent://public/default/with%2Fslash é"]
        for path in ("namespaces/public/default/topics", "persistent/public/default"):
            assert await web.json(f"/admin/v2/{path}") == listed
        assert (await web.get("/admin/v2/persistent/public/default/nope/stats"))[0] == 404
        assert await web.json("/admin/v2/namespaces/public/default/topics") == listed
        assert await web.json("/admin/v2/namespaces/public/default/topics?mode=NON_PERSISTENT") == []
        assert (await web.get("/admin/v2/namespaces/public/default/topics?mode=BAD"))[0] == 404


REFUSALS = [
    ("/lookup/v2/topic/bad/public/default/t", 404, "nothing at"),
    ("/lookup/v2/topic/persistent/public/default/t?listenerName=nope", 503, "the broker do not have nope listener"),
    ("/admin/v2/persistent/pub%20lic/default/t/stats", 412, "Invalid topic name"),
    ("/admin/v2/namespaces/public%2Fx/default/topics", 412, "Tenant name is not valid"),
    ("/admin/v2/brokers/health?topicVersion=V9", 404, "topicVersion"),
    ("/admin/v2/nosuch", 404, "nothing at /admin/v2/nosuch"),
    ("/nosuch", 404, "nothing at /nosuch"),
]


async def test_refusals_are_json_with_a_reason(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        for path, status, reason in REFUSALS:
            got, content_type, body = await web.get(path)
            assert (got, content_type.partition(";")[0]) == (status, "application/json"), path
            assert reason in json.loads(body)["reason"], path


async def test_methods_and_trailing_slashes(tmp_path: Path) -> None:
    async with running(tmp_path) as web, web.session.post(f"{web.server.web_url}/admin/v2/brokers/health") as response:
        assert (response.status, response.headers["Allow"]) == (405, "GET,OPTIONS")
        assert "reason" in await response.json()
        assert (await web.get("/admin/v2/brokers/health", "HEAD"))[::2] == (200, "")
        assert (await web.get("/status.html"))[::2] == (200, "OK")
        assert await web.get("/admin/v2/brokers/ready/") == (200, "application/json", "ok")


class TestDeadline:
    async def test_a_call_that_hangs_is_answered(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def hang(call: Call) -> None:
            await asyncio.Event().wait()

        async def fail(call: Call) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(web_app, "CALL_SECONDS_MAX", 0.01)
        routes = (
            Route("GET", "/hang", hang, EVERYBODY, Place.ANY_BROKER),
            Route("GET", "/fail", fail, EVERYBODY, Place.ANY_BROKER),
        )
        listener = WebListener(make_broker(), lambda: routes)
        url = f"http://127.0.0.1:{await listener.start('127.0.0.1', 0)}"
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{url}/hang") as response:
                assert (response.status, await response.json()) == (
                    503,
                    {"reason": "The call was not answered in 0.01 s"},
                )
            async with session.get(f"{url}/fail") as response:
                assert response.status == 500
                assert "ZeroDivisionError" not in await response.text()
        await listener.close()


async def test_a_lookup_without_a_permit_is_answered_as_at_apache() -> None:
    """TopicLookupBase.internalLookupTopicAsync answers 503, not 429."""
    broker = make_broker(max_concurrent_lookup_request=1)
    listener = WebListener(broker, admin_routes)
    url = f"http://127.0.0.1:{await listener.start('127.0.0.1', 0)}/lookup/v2/topic/persistent/public/default/t1"
    async with aiohttp.ClientSession() as session:
        with broker.lookup_permit():
            async with session.get(url) as response:
                assert (response.status, "too many pending lookup requests" in await response.text()) == (503, True)
    await listener.close()


class TestLazyLoading:
    async def test_who_shakes_hands_while_it_is_loaded_is_answered(self, tmp_path: Path) -> None:
        authority = Authority(tmp_path)
        certificate = authority.issue("server")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate.certificate, certificate.key)
        trust = ssl.create_default_context(cafile=authority.path)
        trust.check_hostname = False
        listener = WebListener(make_broker(), admin_routes)
        port = await listener.start("127.0.0.1", 0, tls=tls)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)  # is accepted before the next one
        url = f"https://127.0.0.1:{port}/status.html"
        async with aiohttp.ClientSession() as session, session.get(url, ssl=trust) as response:
            assert response.status == 200
        await writer.start_tls(trust)
        writer.write(b"GET /status.html HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await asyncio.wait_for(reader.read(), 60)).startswith(b"HTTP/1.1 200 OK")
        writer.close()
        await listener.close()

    @pytest.mark.process
    def test_a_server_is_made_without_aiohttp(self) -> None:
        code = "import sys, magnetar.server.programs.standalone; sys.exit('aiohttp' in sys.modules)"
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)

    async def test_nothing_is_loaded_before_the_first_client_and_then_on_a_thread(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        threads: list[str] = []
        arrived = asyncio.Event()
        loop = asyncio.get_running_loop()
        go_on = threading.Event()

        def load(*names: str | None) -> Any:
            threads.append(threading.current_thread().name)
            loop.call_soon_threadsafe(arrived.set)
            go_on.wait(60)
            return web_app

        monkeypatch.setattr(listener_module, "import_module", load)
        listener = WebListener(make_broker(), admin_routes)
        port = await listener.start("127.0.0.1", 0)
        assert threads == []
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /status.html HTTP/1.1\r\n")
        await arrived.wait()
        second, second_writer = await asyncio.open_connection("127.0.0.1", port)
        second_writer.write(b"GET /status.html HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        writer.write(b"Host: x\r\nConnection: close\r\n\r\n")
        gone, gone_writer = await asyncio.open_connection("127.0.0.1", port)
        gone_writer.close()
        go_on.set()
        for each in (reader, second):
            answer = await each.read()
            assert answer.startswith(b"HTTP/1.1 200 OK")
            assert answer.endswith(b"OK")
        assert len(threads) == 1
        assert threads[0] != threading.main_thread().name
        assert await gone.read() == b""
        await listener.close()

    async def test_a_client_that_waits_cannot_send_without_end(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        go_on = threading.Event()

        def load(*names: str | None) -> Any:
            go_on.wait(60)
            return web_app

        monkeypatch.setattr(listener_module, "import_module", load)
        listener = WebListener(make_broker(), admin_routes)
        port = await listener.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.transport.set_write_buffer_limits(high=0)
        writer.write(b"GET /status.html HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 2_000_000)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await writer.drain()
        go_on.set()
        assert (await reader.read(12)) == b"HTTP/1.1 431"
        (line,) = [record for record in caplog.records if "httpMaxRequestHeaderSize" in record.getMessage()]
        assert (line.levelname, line.exc_info) == ("WARNING", None)
        writer.close()
        await listener.close()

    async def test_a_web_server_that_cannot_be_loaded_refuses_and_says_why(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def load(*names: str | None) -> Any:
            raise ImportError("no aiohttp here")

        monkeypatch.setattr(listener_module, "import_module", load)
        listener = WebListener(make_broker(), admin_routes)
        port = await listener.start("127.0.0.1", 0)
        reader, _ = await asyncio.open_connection("127.0.0.1", port)
        assert await reader.read() == b""
        assert "no aiohttp here" in caplog.text
        await listener.close()

    async def test_after_a_load_that_failed_nobody_waits_and_the_next_client_is_served(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        request = b"GET /status.html HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        faults = [ImportError("too many open files"), ImportError("too many open files")]
        go_on = threading.Event()

        def load(*names: str | None) -> Any:
            go_on.wait(60)
            if faults:
                raise faults.pop()
            return web_app

        monkeypatch.setattr(listener_module, "import_module", load)
        listener = WebListener(make_broker(), admin_routes)
        port = await listener.start("127.0.0.1", 0)
        for left in (1, 0):
            go_on.clear()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await until(lambda: listener.waiting == 1)
            writer.write(request)
            await writer.drain()
            await asyncio.sleep(0)
            go_on.set()
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
            assert f"Content-Length: {len(body)}\r\n".encode() in head
            assert "cannot be loaded" in json.loads(body)["reason"]
            assert len(faults) == left
            writer.close()
        assert [record.levelname for record in caplog.records if record.exc_info is not None] == ["ERROR"] * 2
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
        writer.close()
        await listener.close()

    async def test_closing_ends_connections_that_wait(self, monkeypatch: pytest.MonkeyPatch) -> None:
        go_on = threading.Event()
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        listener = WebListener(make_broker(), admin_routes)
        port = sock.getsockname()[1]
        assert await listener.start(sock=sock) == port
        monkeypatch.setattr(listener_module, "import_module", lambda *names: go_on.wait(60))
        reader, _ = await asyncio.open_connection("127.0.0.1", port)
        second, _ = await asyncio.open_connection("127.0.0.1", port)
        while_waiting = asyncio.ensure_future(reader.read())
        await until(lambda: listener.waiting == 2)
        await listener.close()
        assert await while_waiting == await second.read() == b""
        go_on.set()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
