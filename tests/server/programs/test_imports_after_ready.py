"""Nothing is imported on the event loop once the server is ready, because an import would stop every client.

Imports on a thread are allowed: aiohttp with all routes as soon as the ports listen, fastavro when the first topic
policy is read. The ready line waits for neither.
"""

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import pytest

from compat_tests.harness import wait_until
from magnetar.server.admin.routes import ROUTES
from magnetar.server.protocol.handlers.command_table import TABLE
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from pulsar_proto.wire.commands import send_frame
from tests.server.admin.any_calls import BODIES, ONE_EVENT, STREAM
from tests.server.fakes import command
from tests.server.programs.cluster.cluster_scene import Supervisor
from tests.server.programs.import_watch import AT_READY, ON_LOOP, ON_THREADS
from tests.server.web.web_scene import SECONDS_MAX
from tests.server.wire_client import Client

ROOT = Path(__file__).resolve().parents[3]
EXCHANGES = ROOT / "tests" / "vectors" / "rest_exchanges.json"
KEY = "k" * 40
PACKAGE = "org.apache.pulsar.broker.authentication.AuthenticationProvider"
SECURED = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationProviders": f"{PACKAGE}Token",
    "superUserRoles": "admin",
    "tokenSecretKey": f"data:,{KEY}",
    "webServiceRequestLogEnabled": "true",
}
TOKEN = jwt.encode({"sub": "admin"}, KEY, algorithm="HS256")

ROUTES_MODULE = "magnetar.server.admin.routes"
NOT_FOR_THE_START = {"aiohttp", "cryptography", "email", "fastavro", "http", "jwt"}
"""Libraries that together take longer to import than all else that a start does, and that its first receipt does not
need."""

SHUTDOWN = "shutdown"
"""Paths with this word end the server, so they are not called."""

pytestmark = pytest.mark.process


@contextmanager
def watched(folder: Path, settings: dict[str, str]) -> Iterator[tuple[str, int]]:
    """Yields the web port's URL and the broker's port. At the end nothing may have been imported on the loop."""
    options = [f"--set={name}={value}" for name, value in settings.items()]
    ports = ["--data-dir", str(folder / "data"), "--broker-port", "0", "--web-port", "0", "--ready-json", *options]
    command_line = [sys.executable, "-m", "tests.server.programs.import_watch", str(folder), "standalone", *ports]
    with subprocess.Popen(command_line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server:
        assert server.stdout is not None
        try:
            ready = json.loads(server.stdout.readline())
            yield ready["webServiceUrl"], int(ready["brokerServiceUrl"].rpartition(":")[2])
        finally:
            server.send_signal(signal.SIGTERM)
    assert not imported(folder / ON_LOOP)


def imported(report: Path) -> set[str]:
    """Returns the modules in a report of `import_watch`."""
    return set(report.read_text().split()) if report.exists() else set()


def test_the_web_port_is_loaded_on_a_thread_before_any_client_comes(tmp_path: Path) -> None:
    with watched(tmp_path, {}):
        wait_until(lambda: ROUTES_MODULE in imported(tmp_path / ON_THREADS), "the import of the routes")
        at_ready = imported(tmp_path / AT_READY)
        assert not {name.partition(".")[0] for name in at_ready} & NOT_FOR_THE_START
        assert not at_ready & {"importlib.metadata", "magnetar.server.leaks", "magnetar.storage.leaks"}


@pytest.mark.parametrize("settings", [{}, SECURED], ids=["open", "secured"])
async def test_nothing_is_imported_on_the_loop_after_the_ready_line(tmp_path: Path, settings: dict[str, str]) -> None:
    with watched(tmp_path, settings) as (url, port):
        await every_command(port)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            await captured_calls(session, url)
            await every_socket(session, url)
            await every_route(session, url)
        await every_command(port)
        await every_command(port, domain="non-persistent")


async def test_nothing_is_imported_on_the_loop_of_a_cluster_s_brokers_after_their_ready_lines(tmp_path: Path) -> None:
    """Brokers call each other, lead clients on, and move bundles, which a standalone server never does."""
    cluster = Supervisor(tmp_path, "", ("tests.server.programs.import_watch", str(tmp_path)))
    try:
        brokers = cluster.start(brokers=2, bookies=1).ready["brokers"]
        ports = [int(each["brokerServiceUrl"].rpartition(":")[2]) for each in brokers]
        async with aiohttp.ClientSession() as session:
            for each in brokers:
                await captured_calls(session, each["webServiceUrl"])
                await every_route(session, each["webServiceUrl"])
        for port in ports:
            await every_command(port)
        cluster.send(signal.SIGTERM)
        assert cluster.wait() == 0
    finally:
        cluster.close()
    assert imported(tmp_path / AT_READY)
    assert not imported(tmp_path / ON_LOOP)


async def captured_calls(session: aiohttp.ClientSession, url: str) -> None:
    """Makes the captured calls: their bodies are valid, and in their order they change something."""
    for exchange in json.loads(EXCHANGES.read_text())["exchanges"]:
        if "p" not in exchange or SHUTDOWN in exchange["p"]:
            continue
        headers = {"Content-Type": exchange.get("qt") or "application/json"}
        path = exchange["p"].replace("v1/n1", "public/default")
        body = exchange.get("qb")
        async with session.request(exchange["m"], url + path, data=body and body.encode(), headers=headers) as answer:
            await answer.read()


async def every_route(session: aiohttp.ClientSession, url: str) -> None:
    parts = {"tenant": "public", "namespace": "default", "domain": "persistent", "cluster": "standalone"}
    parts |= {"topic": "t", "subscription": "s"}
    for number, route in enumerate(sorted(ROUTES, key=lambda route: route.method == "DELETE")):
        if SHUTDOWN in route.path:
            continue
        path = re.sub(r"\{(\w+)\}", lambda part: parts.get(part[1], "1"), route.path)
        for body in (None, BODIES[number % len(BODIES)]):
            query = ONE_EVENT if path.endswith(STREAM) else ""
            async with session.request(route.method, url + path + query, data=body) as answer:
                await answer.read()


async def every_socket(session: aiohttp.ClientSession, url: str) -> None:
    """Publishes a message over a WebSocket, and gets it by a consumer of each kind and by a reader."""
    sockets = f"{url}/ws/v2/%s/persistent/public/default/sockets%s"
    ends = [sockets % ("consumer", f"/{kind}?subscriptionType={kind}") for kind in SUBSCRIPTION_TYPES]
    ends.append(sockets % ("reader", "?messageId=earliest"))
    async with AsyncExitStack() as open_sockets:
        receivers = [await open_sockets.enter_async_context(session.ws_connect(end)) for end in ends]
        async with session.ws_connect(sockets % ("producer", "")) as producer:
            await producer.send_json({"payload": "eA==", "key": "k"})
            assert (await producer.receive_json(timeout=SECONDS_MAX))["result"] == "ok"
        for receiver in receivers:
            message = await receiver.receive_json(timeout=SECONDS_MAX)
            assert message["payload"] == "eA=="
            await receiver.send_json({"messageId": message["messageId"]})


async def every_command(port: int, domain: str = "persistent") -> None:
    """Sends each command on a connection that has a producer, a subscription and a message to which it can refer. The
    types of the subscriptions take turns."""
    topic = f"{domain}://public/default/t"
    for number, handler in TABLE.items():
        if number in (pb.BaseCommand.CONNECT, pb.BaseCommand.SEND):
            continue
        client = await Client.connect(port, auth_method_name="token", auth_data=TOKEN.encode())
        client.say(sensible("PRODUCER", "producer", topic=topic, producer_name=f"p{number}"))
        kind = number % len(SUBSCRIPTION_TYPES)
        client.say(sensible("SUBSCRIBE", "subscribe", topic=topic, subscription=f"s{kind}", subType=kind))
        payload = build_payload(pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1), b"x")
        client.writer.write(send_frame(pb.CommandSend(producer_id=1, sequence_id=0), payload))
        client.say(sensible("FLOW", "flow"))
        client.say(sensible(KINDS[number], handler.field))
        client.say(command("PING", "ping"))
        await until_pong(client)
        client.writer.close()


SUBSCRIPTION_TYPES = ("Exclusive", "Shared", "Failover", "Key_Shared")

KINDS: dict[int, str] = {number: name for name, number in pb.BaseCommand.Type.items()}

VALUES: dict[str, Any] = {
    **dict.fromkeys(("producer_id", "consumer_id", "request_id", "watcher_id", "tc_id"), 1),
    "topic": "public/default/t",
    "subscription": "s1",
    "namespace": "public/default",
    "topics_pattern": "public/.*",
    "subType": 1,
    "messagePermits": 10,
    "ack_type": 0,
    "mode": 0,
    "message_publish_time": 1,
    "schema": pb.Schema(name="s", schema_data=b'"string"', type=pb.Schema.Avro),
    "message_id": pb.MessageIdData(ledgerId=0, entryId=0),
}


def sensible(kind: str, field: str, **values: object) -> pb.BaseCommand:
    """Makes the command with all of VALUES for which it has a field."""
    for each in getattr(pb.BaseCommand(), field).DESCRIPTOR.fields:
        value = VALUES.get(each.name)
        if value is not None and (each.message_type is None) is not isinstance(value, pb.Schema | pb.MessageIdData):
            values.setdefault(each.name, [value] if each.is_repeated else value)
    return command(kind, field, **values)


async def until_pong(client: Client) -> None:
    """Waits until the command has been handled, or the server has closed the connection because of it."""
    try:
        async with asyncio.timeout(SECONDS_MAX):
            while (await client.answer()).type != pb.BaseCommand.PONG:
                pass
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
