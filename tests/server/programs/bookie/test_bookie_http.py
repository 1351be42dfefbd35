"""The bookie's HTTP port answers what a probe, a scraper and an operator ask."""

import asyncio
import errno
import gzip
import os
import re
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from magnetar.metadata import paths
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.programs.bookie.bookie_http import BookieHttp
from magnetar.server.programs.bookie.bookie_metrics import server_status
from magnetar.server.programs.bookie.registration_rules import Wanted
from magnetar.server.web import responses
from magnetar.storage.bookie import durable_file
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.wire_server import BookieWireServer
from magnetar.storage.repair.auto_recovery import AutoRecovery
from pulsar_proto.wire.bookie_wire import BookieError
from tests.storage.bookie.helpers import Ledgers, add, open_bookie


class Running:
    """Stands for the app that the HTTP port asks."""

    def __init__(self, bookie: Bookie, folder: Path) -> None:
        self.bookie = bookie
        self.wire = BookieWireServer(bookie, disk_space=self.disk_space)
        self.store = MemoryStore()
        self.ledger_directories: tuple[str, ...] = ("/no/such/directory", str(folder))
        self.recovery: AutoRecovery | None = None
        self.registered_as: Wanted | None = Wanted.WRITABLE

    def disk_space(self) -> tuple[int, int]:
        return 1000, 400


class Scene:
    def __init__(self, running: Running, session: aiohttp.ClientSession, ledgers: Ledgers, port: int) -> None:
        self.running = running
        self.port = port
        self.ledgers = ledgers
        self._session = session

    async def text(self, path: str, status: int = 200, method: str = "GET") -> str:
        async with self._session.request(method, path) as answer:
            assert answer.status == status
            return await answer.text()

    async def json(self, path: str) -> Any:
        async with self._session.get(path) as answer:
            assert answer.status == 200
            return await answer.json()

    async def metric(self, name: str, **labels: str) -> float:
        """Returns the only sample of that name with these labels."""
        (sample,) = [
            sample.value
            for family in text_string_to_metric_families(await self.text("/metrics"))
            for sample in family.samples
            # The parser puts a suffix to the names of counters that have none.
            if sample.name in (name, f"{name}_total") and labels.items() <= sample.labels.items()
        ]
        return float(sample)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    ledgers = Ledgers()
    running = Running(await open_bookie(tmp_path, ledgers), tmp_path)
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    http = BookieHttp(running)
    await http.start(sock=sock)
    port = sock.getsockname()[1]
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        yield Scene(running, session, ledgers, port)
    await http.close()
    await running.bookie.close()


async def test_a_probe_hears_why_a_bookie_whose_sync_failed_is_not_ready(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(durable_file, "_sync_data", fail)
    assert await add(scene.running.bookie, 1, [0]) != 0
    reason = await scene.text("/api/v1/bookie/is_ready", status=503)
    assert "Input/output error" in reason
    assert ".journal" in reason
    assert (await scene.json("/api/v1/bookie/state"))["running"] is False


async def test_a_probe_hears_whether_it_lives_and_is_in_the_cluster(scene: Scene) -> None:
    assert await scene.text("/heartbeat") == "OK\n"
    await scene.text("/api/v1/bookie/is_ready")
    scene.running.registered_as = None
    await scene.text("/api/v1/bookie/is_ready", status=503)
    scene.running.registered_as = Wanted.READ_ONLY
    await scene.running.bookie.close()
    await scene.text("/api/v1/bookie/is_ready", status=503)
    assert (await scene.json("/api/v1/bookie/state"))["shuttingDown"] is True


async def test_state_and_room(scene: Scene) -> None:
    assert await scene.json("/api/v1/bookie/state") == {
        "running": True,
        "readOnly": False,
        "shuttingDown": False,
        "availableForHighPriorityWrites": True,
    }
    assert await scene.json("/api/v1/bookie/info") == {"freeSpace": 400, "totalSpace": 1000}


async def test_the_bookies_of_the_cluster_are_listed(scene: Scene) -> None:
    for path in (paths.bookie_path("b1"), paths.bookie_path("b2", read_only=True)):
        await scene.running.store.create(path, make_parents=True)
    assert await scene.json("/api/v1/bookie/list_bookies?type=rw") == {"b1": None}
    assert await scene.json("/api/v1/bookie/list_bookies?type=ro") == {"b2": None}
    assert "type=rw" in await scene.text("/api/v1/bookie/list_bookies", status=400)


async def test_figures_follow_what_happens(scene: Scene) -> None:
    assert await scene.metric("bookie_SERVER_STATUS") == 1
    before = await scene.metric("bookkeeper_server_ADD_ENTRY_count", success="true")
    await add(scene.running.bookie, 1, range(7))
    assert await scene.metric("bookkeeper_server_ADD_ENTRY_count", success="true") == before + 7
    assert await scene.metric("bookie_ledgers_count") == 1
    assert await scene.metric("bookie_entries_count") == 7
    assert await scene.metric("bookie_journal_JOURNAL_ADD_ENTRY_count", success="true", journalIndex="0") == 7
    assert await scene.metric("bookie_journal_JOURNAL_SYNC", success="true", quantile="0.99") > 0
    await scene.running.bookie.read_entry(1, 3)
    assert await scene.metric("bookkeeper_server_READ_ENTRY_count", success="true") == 1
    assert await scene.metric("bookie_READ_BYTES") > 0
    with pytest.raises(BookieError):
        await scene.running.bookie.read_entry(1, 99)
    assert await scene.metric("bookkeeper_server_READ_ENTRY_count", success="false") == 1


async def test_entries_on_disk_are_estimated_after_a_checkpoint(scene: Scene) -> None:
    await add(scene.running.bookie, 1, range(50))
    await scene.running.bookie.checkpoint()
    assert await scene.metric("bookie_entries_count") == 50
    assert await scene.metric("bookie_write_cache_size") == 0


async def test_each_directory_has_a_metric_with_its_path_in_its_name(scene: Scene) -> None:
    folder = scene.running.ledger_directories[1]
    name = "bookie_ledger_dir_" + re.sub(r"\W", "_", folder, flags=re.ASCII) + "_usage"
    assert 0 <= await scene.metric(name) <= 100


async def test_the_metrics_are_compressed_for_callers_that_take_gzip(scene: Scene) -> None:
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        url = f"http://127.0.0.1:{scene.port}/metrics"
        async with session.get(url, headers={"Accept-Encoding": "gzip"}) as answer:
            assert answer.headers["Content-Encoding"] == "gzip"
            assert b"bookie_SERVER_STATUS 1" in gzip.decompress(await answer.read())
        async with session.get(url, headers={"Accept-Encoding": "identity"}) as answer:
            assert b"bookie_SERVER_STATUS 1" in await answer.read()


async def test_garbage_is_collected_when_asked_for(scene: Scene) -> None:
    await add(scene.running.bookie, 1, range(7))
    scene.ledgers.ids.discard(1)
    deleted = asyncio.Event()
    scene.running.bookie.on_ledgers_deleted(lambda _: deleted.set())
    assert (await scene.json("/api/v1/bookie/gc"))["is_in_force_gc"] == "false"
    assert "Triggered" in await scene.text("/api/v1/bookie/gc", method="PUT")
    await asyncio.wait_for(deleted.wait(), 60)
    assert await scene.metric("bookie_ledgers_count") == 0


def test_a_bookie_out_of_the_cluster_has_a_status_of_its_own() -> None:
    assert [server_status(each) for each in (Wanted.WRITABLE, Wanted.READ_ONLY, None)] == [1, 0, -1]


async def test_what_is_no_request_is_refused_at_once_and_leaves_nothing_of_itself_in_the_log(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    for sent in (
        b"GET /heartbeat HTTP/1.1\r\nAuthorization Bearer s3cret\r\n\r\n",
        b"GET /?token=s3cret HTTP/7.1\r\n\r\n",
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", scene.port)
        writer.write(sent)
        assert (await reader.read()).startswith(b"HTTP/1.0 400")
        writer.close()
    assert "answered 400" in caplog.text
    assert "s3cret" not in caplog.text
    await scene.text("/nosuch", status=404)
    await scene.text("/heartbeat", status=405, method="POST")


async def test_a_page_that_fails_is_told_with_its_stack_in_the_log_alone(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> Any:
        raise ZeroDivisionError

    scene.running.disk_space = fail  # type: ignore[method-assign]
    assert "ZeroDivisionError" not in await scene.text("/api/v1/bookie/info", status=500)
    assert "ZeroDivisionError" in caplog.text


async def test_a_client_that_reads_no_answer_is_cut_off(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection would occupy its place until then, and enough of them would shut others out."""
    monkeypatch.setattr(responses, "ANSWER_SECONDS_MAX", 0.05)
    _, writer = await asyncio.open_connection("127.0.0.1", scene.port, limit=1)
    path = "/" + "x" * 7_000
    writer.write(f"GET {path} HTTP/1.1\r\nHost: bookie\r\n\r\n".encode() * 2_000)
    with suppress(ConnectionError):
        async with asyncio.timeout(30):
            await writer.wait_closed()
