"""A real server that gets more than its bookie takes at once slows its clients down and refuses none."""

import asyncio
import threading
from pathlib import Path

import pulsar
import pytest
from pulsar.asyncio import Client, Producer

from compat_tests.harness import Server
from tests.server.official_client import client_of

pytestmark = pytest.mark.process

WAIT_SECONDS = 120.0
PRODUCERS, MESSAGES, MESSAGE_BYTES = 12, 3, 5 << 20
TOPICS = 300


class Answers:
    """Counts the answers to asynchronous calls. `ok` blocks until all have come."""

    def __init__(self, expected: int) -> None:
        self._left = expected
        self._failed: list[pulsar.Result] = []
        self._lock = threading.Lock()
        self._done = threading.Event()

    def __call__(self, result: pulsar.Result, _: object) -> None:
        with self._lock:
            self._left -= 1
            if result != pulsar.Result.Ok:
                self._failed.append(result)
            if not self._left:
                self._done.set()

    def ok(self) -> bool:
        assert self._done.wait(WAIT_SECONDS), f"{self._left} answers are missing"
        assert not self._failed
        return True


def test_large_messages_of_many_producers_are_all_taken(tmp_path: Path) -> None:
    """Each group is larger than what is left of the bookie's bound on waiting adds, and no add may wait there for
    long."""
    small = {"dbStorage_writeCacheMaxSizeMb": "8", "dbStorage_maxThrottleTimeMs": "20"}
    with Server(tmp_path, settings=small) as server, client_of(server) as client:
        producers = [client.create_producer(f"large-{n}", send_timeout_millis=0) for n in range(PRODUCERS)]
        answers = Answers(PRODUCERS * MESSAGES)
        for _ in range(MESSAGES):
            for producer in producers:
                producer.send_async(bytes(MESSAGE_BYTES - 1000), answers)
        assert answers.ok()
        for producer in producers:
            producer.close()
        assert "replacing bookies" not in server.log_text()
        server.assert_no_errors()


async def test_all_topics_are_loaded_when_all_clients_come_back_at_once(tmp_path: Path) -> None:
    """The bookie lets only a few reads wait, so as to need fewer topics for the same effect."""
    data = tmp_path / "data"
    before = Server(tmp_path / "before", data_dir=data)
    after = Server(tmp_path / "after", data_dir=data, settings={"maxPendingReadRequestsPerThread": "4"})
    async with before:
        producers = await connect_all(before)
        async with asyncio.timeout(WAIT_SECONDS):
            await asyncio.gather(*(producer.send(b"message") for producer in producers))
        before.kill()
    async with after:
        assert len(await connect_all(after)) == TOPICS
        after.assert_no_errors()
        assert "TooManyRequests" not in after.log_text()


async def connect_all(server: Server) -> list[Producer]:
    client = Client(server.broker_url)
    async with asyncio.timeout(WAIT_SECONDS):
        return await asyncio.gather(*(client.create_producer(f"storm-{number}") for number in range(TOPICS)))
