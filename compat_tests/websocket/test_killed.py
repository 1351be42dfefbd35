"""A server is killed while sockets publish and consume: nothing that it acknowledged is lost."""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Callable

import aiohttp
import pytest

from compat_tests.conftest import ServerFactory
from compat_tests.harness import POLL_SECONDS, WAIT_SECONDS, Server

TOPIC = "persistent/public/default/killed"
MESSAGES = 3_000
KILLED_AT = 800
"""The server is killed when so many messages were consumed."""
IN_FLIGHT = 200

pytestmark = pytest.mark.process


def url(server: Server, path: str) -> str:
    return f"{server.web_url.replace('http', 'ws', 1)}/ws/v2/{path}"


async def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 - what the server sends comes through several tasks
            await asyncio.sleep(POLL_SECONDS)


class Ledger:
    """What was acknowledged, both ways."""

    def __init__(self) -> None:
        self.published: set[int] = set()
        self.consumed: list[int] = []


async def publish(server: Server, session: aiohttp.ClientSession, ledger: Ledger, numbers: list[int]) -> None:
    async with session.ws_connect(url(server, f"producer/{TOPIC}")) as socket:
        places = asyncio.Semaphore(IN_FLIGHT)

        async def receive() -> None:
            async for message in socket:
                answer = message.json()
                assert answer["result"] == "ok", answer
                ledger.published.add(int(answer["context"]))
                places.release()

        receiving = asyncio.create_task(receive())
        for number in numbers:
            await asyncio.wait(
                [receiving, taking := asyncio.create_task(places.acquire())], return_when="FIRST_COMPLETED"
            )
            if receiving.done():
                taking.cancel()
                return
            await socket.send_json({"payload": b64encode(b"%d" % number).decode(), "context": str(number)})
        await until(lambda: ledger.published.issuperset(numbers) or receiving.done())
        receiving.cancel()


async def consume(server: Server, session: aiohttp.ClientSession, ledger: Ledger, until: asyncio.Event) -> None:
    path = f"consumer/{TOPIC}/sub?subscriptionInitialPosition=Earliest&receiverQueueSize=100"
    async with session.ws_connect(url(server, path)) as socket:
        async for message in socket:
            got = message.json()
            ledger.consumed.append(int(b64decode(got["payload"])))
            await socket.send_json({"messageId": got["messageId"]})
            if len(ledger.consumed) >= KILLED_AT:
                until.set()


async def test_what_was_acknowledged_is_there_after_a_kill(make_server: ServerFactory) -> None:
    server = make_server()
    server.start()
    ledger = Ledger()
    async with aiohttp.ClientSession() as session:
        reached = asyncio.Event()
        working = asyncio.gather(
            consume(server, session, ledger, reached),
            publish(server, session, ledger, list(range(MESSAGES))),
            return_exceptions=True,
        )
        async with asyncio.timeout(WAIT_SECONDS):
            await reached.wait()
            server.kill()
            for fault in await working:
                assert fault is None or isinstance(fault, ConnectionError | aiohttp.ClientError), fault
    before = set(ledger.consumed)
    assert len(ledger.published) >= KILLED_AT / 2
    server.start()
    async with aiohttp.ClientSession() as session:
        ledger.consumed.clear()
        consuming = asyncio.create_task(consume(server, session, ledger, asyncio.Event()))
        await publish(server, session, ledger, list(range(MESSAGES, MESSAGES + 10)))
        await until(lambda: before.union(ledger.consumed) >= ledger.published)
        consuming.cancel()
