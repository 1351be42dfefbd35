"""The embedded store's file: shared commits, foreign and locked files, and a disk without room."""

import asyncio
import resource
import sqlite3
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from magnetar.metadata.embedded import record_file
from magnetar.metadata.embedded.embedded_store import EmbeddedStore
from magnetar.metadata.embedded.file_format import RowChange
from magnetar.metadata.embedded.record_file import RecordFile
from magnetar.metadata.embedded.record_rows import RECORDS
from magnetar.metadata.embedded.stored_metadata import PAGE_BYTES, read_stored
from magnetar.metadata.embedded.tree_store import BATCH_WRITES_MAX
from magnetar.metadata.errors import (
    NodeExistsError,
    StoreClosedError,
    StoreFileError,
    StoreForeignError,
    StoreLockedError,
    StoreWriteError,
)

ROOT = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metadata.sqlite"


async def test_writes_of_one_turn_share_a_commit(path: Path) -> None:
    store = await EmbeddedStore.open(path)
    await asyncio.gather(*(store.create(f"/{number}") for number in range(BATCH_WRITES_MAX)))
    assert store.commits == 1
    puts = (store.put(f"/{number}", b"x") for number in range(BATCH_WRITES_MAX - 1))
    await asyncio.gather(*puts, store.create("/last"))
    assert store.commits == 2
    await store.close()


async def test_more_writes_than_a_commit_takes_are_made_in_their_order_by_several(path: Path) -> None:
    store = await EmbeddedStore.open(path)
    made: list[tuple[int, int]] = []

    async def write(number: int) -> None:
        await store.create(f"/{number}")
        made.append((number, store.commits))

    await asyncio.gather(*(write(number) for number in range(3 * BATCH_WRITES_MAX + 1)))
    assert made == [(number, 1 + number // BATCH_WRITES_MAX) for number in range(3 * BATCH_WRITES_MAX + 1)]
    await store.close()


async def test_writes_that_come_during_a_commit_share_the_next_one(path: Path) -> None:
    store = await EmbeddedStore.open(path)

    async def write(number: int) -> None:
        await store.create(f"/{number}")
        await store.put(f"/{number}", b"x")

    await asyncio.gather(*(write(number) for number in range(BATCH_WRITES_MAX)))
    assert store.commits == 2
    await store.close()


async def test_reads_and_refused_writes_make_no_commit(path: Path) -> None:
    store = await EmbeddedStore.open(path)
    await store.create("/a")
    await store.get("/a")
    with pytest.raises(NodeExistsError):
        await store.create("/a")
    await store.multi([])
    assert store.commits == 1
    await store.close()


async def test_deleting_ephemeral_records_makes_no_commit(path: Path) -> None:
    store = await EmbeddedStore.open(path)
    await store.create("/p/e", ephemeral=True, make_parents=True)
    commits = store.commits
    await store.put("/p/e", b"x")
    await store.delete("/p/e")
    assert store.commits == commits
    await store.close()


async def test_nothing_is_visible_before_it_is_durable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await EmbeddedStore.open(path)
    await store.create("/a", b"old")
    write, entered, go_on = RecordFile.write, threading.Event(), threading.Event()

    def slow_write(file: RecordFile, change: RowChange) -> None:
        entered.set()
        assert go_on.wait(60)
        write(file, change)

    monkeypatch.setattr(RecordFile, "write", slow_write)
    events: list[object] = []
    store.watch("/", events.append, recursive=True)
    writes = [asyncio.ensure_future(store.put("/a", b"new")), asyncio.ensure_future(store.create("/b"))]
    await asyncio.to_thread(entered.wait, 60)
    record = await store.get("/a")
    assert record is not None
    assert (record.value, record.stat.version) == (b"old", 0)
    assert await store.children("/") == ["a"]
    assert not events
    assert not any(write.done() for write in writes)
    go_on.set()
    await asyncio.gather(*writes)
    assert await store.children("/") == ["a", "b"]
    assert len(events) == 3
    await store.close()


async def test_ephemeral_records_are_gone_after_close_and_their_parents_stay(path: Path) -> None:
    store = await EmbeddedStore.open(path)
    await store.create("/brokers/one", b"v", ephemeral=True, make_parents=True)
    await store.close()
    store = await EmbeddedStore.open(path)
    assert await store.children("/brokers") == []
    stat = await store.exists("/brokers")
    assert stat is not None
    assert stat.child_count == 0
    await store.close()


async def test_the_log_is_copied_into_the_file_when_it_has_grown(path: Path) -> None:
    store = await EmbeddedStore.open(path)
    for number in range(600):
        await store.create(f"/{number}", bytes(400))
    assert Path(f"{path}-wal").stat().st_size < 3 * record_file.LOG_PAGES_MAX * PAGE_BYTES
    assert path.stat().st_size > 400 * 400
    await store.close()


async def test_the_log_is_fsynced_at_each_commit(path: Path) -> None:
    file = RecordFile.open(read_stored(str(path), None, None, RECORDS))
    settings = {
        name: file._connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("synchronous", "journal_mode", "locking_mode", "wal_autocheckpoint", "page_size")
    }
    file.close()
    assert settings == {
        "synchronous": 2,
        "journal_mode": "wal",
        "locking_mode": "exclusive",
        "wal_autocheckpoint": 0,
        "page_size": PAGE_BYTES,
    }


async def test_a_clean_close_leaves_one_file(path: Path) -> None:
    store = await EmbeddedStore.open(path)
    await store.create("/a")
    await store.close()
    assert list(path.parent.iterdir()) == [path]


async def test_threads_end_with_the_store(path: Path) -> None:
    before = set(threading.enumerate())
    store = await EmbeddedStore.open(path)
    await store.create("/a")
    started = set(threading.enumerate()) - before
    await store.close()
    for thread in started:
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize("content", [b"", b"hello", b"x" * 10_000, b"SQLite format 3\0" + bytes(84)])
async def test_a_file_that_is_no_store_is_refused_and_kept(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreForeignError, match=str(path)):
        await EmbeddedStore.open(path)
    assert path.read_bytes() == content


async def test_somebody_elses_database_is_refused_and_kept(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE record (path)")
    connection.close()
    content = path.read_bytes()
    with pytest.raises(StoreForeignError, match=str(path)):
        await EmbeddedStore.open(path)
    assert path.read_bytes() == content


async def test_a_store_of_a_later_layout_is_refused(path: Path) -> None:
    await (await EmbeddedStore.open(path)).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 3")
    connection.close()
    with pytest.raises(StoreForeignError, match="layout version 3"):
        await EmbeddedStore.open(path)


async def test_a_missing_folder_and_a_folder_as_file_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing" / "metadata.sqlite", tmp_path):
        with pytest.raises(StoreFileError, match=str(path)):
            await EmbeddedStore.open(path)


async def test_a_second_store_on_the_file_is_refused_and_the_first_goes_on(path: Path) -> None:
    first = await EmbeddedStore.open(path)
    for _ in range(2):
        with pytest.raises(StoreLockedError, match=str(path)):
            await EmbeddedStore.open(path)
    await first.create("/a")
    with pytest.raises(StoreLockedError):
        await EmbeddedStore.open(path)
    await first.close()
    await (await EmbeddedStore.open(path)).close()


@pytest.fixture
def other_process(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a process that has the file open and writes to it."""
    command = [sys.executable, "-m", "tests.metadata.embedded.crash_writer", str(path), "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
        child.kill()


@pytest.mark.process
async def test_a_file_in_use_by_another_process_is_refused(path: Path, other_process: subprocess.Popen[bytes]) -> None:
    with pytest.raises(StoreLockedError, match=str(path)):
        await EmbeddedStore.open(path)
    assert other_process.stdout is not None
    other_process.stdout.readline()
    assert other_process.poll() is None


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """Lets no file of this process grow beyond `size` bytes, which is like a disk without room."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_without_room_writes_fail_reads_go_on_and_writes_recover(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="magnetar.metadata.embedded.embedded_store")
    store = await EmbeddedStore.open(path)
    await store.create("/a", b"kept")
    events: list[object] = []
    store.watch("/", events.append, recursive=True)
    with files_end_at(Path(f"{path}-wal").stat().st_size):
        for _ in range(3):
            results = await asyncio.gather(
                store.put("/a", b"lost"), store.create("/b"), store.create("/a"), return_exceptions=True
            )
            assert [type(result) for result in results] == [StoreWriteError] * 3
            assert str(path) in str(results[0])
        record = await store.get("/a")
        assert record is not None
        assert (record.value, record.stat.version) == (b"kept", 0)
        assert await store.exists("/b") is None
        assert not events
    assert (await store.put("/a", b"later")).version == 1
    await store.create("/b")
    await store.close()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    store = await EmbeddedStore.open(path)
    assert await store.children("/") == ["a", "b"]
    await store.close()


async def test_without_room_for_a_new_file_none_is_left(path: Path) -> None:
    with files_end_at(4096), pytest.raises(StoreFileError, match=str(path)):
        await EmbeddedStore.open(path)
    assert list(path.parent.iterdir()) == []
    await (await EmbeddedStore.open(path)).close()


async def test_a_full_database_is_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await EmbeddedStore.open(path)
    await store.create("/a", b"kept")
    write = RecordFile.write

    def write_within(pages: int, file: RecordFile, change: RowChange) -> None:
        file._connection.execute(f"PRAGMA max_page_count = {pages}")
        write(file, change)

    monkeypatch.setattr(RecordFile, "write", lambda file, change: write_within(4, file, change))
    with pytest.raises(StoreWriteError, match="SQLITE_FULL"):
        await store.create("/b", bytes(100_000))
    monkeypatch.setattr(RecordFile, "write", lambda file, change: write_within(1000, file, change))
    await store.create("/b", bytes(100_000))
    await store.close()


async def test_after_another_fault_nothing_more_is_promised(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = await EmbeddedStore.open(path)
    await store.create("/a", b"kept")

    def broken_write(file: RecordFile, change: RowChange) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(RecordFile, "write", broken_write)
        with pytest.raises(StoreClosedError, match="disk I/O error"):
            await store.put("/a", b"lost")
    with pytest.raises(StoreClosedError, match="until a restart"):
        await store.put("/a", b"lost")
    record = await store.get("/a")
    assert record is not None
    assert record.value == b"kept"
    await store.close()
    store = await EmbeddedStore.open(path)
    assert (await store.put("/a", b"new")).version == 1
    await store.close()


async def test_a_start_has_the_file_in_its_memory_once_besides_the_records(path: Path) -> None:
    store = await EmbeddedStore.open(path)
    await asyncio.gather(*(store.create(f"/{number}", bytes(20_000)) for number in range(400)))
    await store.close()
    tracemalloc.start()  # which does not see SQLite's own memory
    try:
        stored = read_stored(str(path), None, None, RECORDS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert stored.totals.records == 401
    assert peak < 1.5 * path.stat().st_size
