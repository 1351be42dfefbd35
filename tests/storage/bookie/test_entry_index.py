"""The RocksDB index of runs, compared with a simple twin, and its behaviour when it is damaged."""

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.storage.bookie.bookie_errors import EntryLogDamaged, IndexDamaged, IndexFailure
from magnetar.storage.bookie.entry_index import EntryIndex
from magnetar.storage.bookie.entry_log_reader import EntryLogReader
from magnetar.storage.bookie.entry_log_writer import EntryLogWriter
from magnetar.storage.bookie.entry_logs import EntryLogs
from magnetar.storage.bookie.index_runs import IndexRun
from magnetar.storage.bookie.ledger_state import BookieLedgerState
from tests.rounds import rounds
from tests.storage.bookie.helpers import entry_of, flip_byte


class Store:
    """An index, an entry log and a reader, filled as checkpoints fill them."""

    def __init__(self, folder: Path, block: int = 2000) -> None:
        (folder / "logs").mkdir(exist_ok=True)
        self.folder = folder
        self.index = EntryIndex(str(folder / "index"))
        self.logs = EntryLogs([str(folder / "logs")], 8)
        self.writer = EntryLogWriter(self.logs, log_size_limit=50_000, block_bytes=block)
        self.reader = EntryLogReader(self.index, self.logs)
        self.flushes = 0

    def flush(self, ledger_id: int, ids: Sequence[int], size: int = 60) -> None:
        self.flushes += 1
        entries = [entry_of(ledger_id, i, b"%d:" % self.flushes + bytes(size)) for i in ids]
        placed = self.writer.append(self.flushes, ledger_id, ids, entries)
        self.writer.finish()
        self.index.apply([(ledger_id, placed)], [], self.reader.ids_of)

    def version(self, ledger_id: int, entry_id: int) -> int | None:
        """Returns the number of the flush that wrote the entry, as it is read now."""
        found = self.reader.read(ledger_id, entry_id, 0)
        return int(found[0][36:].split(b":")[0]) if found else None

    def close(self) -> None:
        self.index.close()
        self.logs.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path)
    yield store
    store.close()


def test_a_lookup_looks_at_one_run_more_than_it_finds_and_not_at_all_of_the_ledger(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        store.flush(1, [2 * number])
    runs_from, seen = store.index._runs_from, list[IndexRun]()

    def watched(ledger_id: int, entry_id: int) -> Iterator[IndexRun]:
        for run in runs_from(ledger_id, entry_id):
            seen.append(run)
            yield run

    monkeypatch.setattr(store.index, "_runs_from", watched)
    found = store.index.lookup(1, 4, 0)
    assert [run.first for run in found] == [4]
    assert [run.first for run in seen] == [4, 6]


def test_runs_not_entries_are_recorded(store: Store) -> None:
    store.flush(1, range(1000))
    runs = store.index.overlapping(1, 0, 2000)
    assert len(runs) < 70
    assert (runs[0].first, runs[-1].last) == (0, 999)
    assert all(run.dense for run in runs)


def test_one_read_covers_adjacent_blocks(store: Store) -> None:
    store.flush(1, range(300))
    assert store.reader.read(1, 150, 1 << 20) == [entry_of(1, i, b"1:" + bytes(60)) for i in range(150, 300)]
    alone = store.reader.read(1, 150, 0)
    assert 1 <= len(alone) < 25
    assert store.reader.read(1, 300, 0) == []
    assert store.reader.read(2, 0, 0) == []


def test_gaps_stay_gaps(store: Store) -> None:
    store.flush(1, [i for i in range(300) if i % 3 != 1])
    assert store.version(1, 0) == 1
    assert store.version(1, 1) is None
    assert len(store.reader.read(1, 2, 1 << 20)) == 2
    assert len(store.reader.read(1, 299, 1 << 20)) == 1
    store.flush(1, [i for i in range(300) if i % 3 == 1])
    assert [store.version(1, i) for i in range(300)] == [2 if i % 3 == 1 else 1 for i in range(300)]


def test_ids_out_of_order_and_repeated_ids(store: Store) -> None:
    store.flush(1, range(100, 200))
    store.flush(1, range(100))
    store.flush(1, [150])
    expected = [2] * 100 + [1] * 50 + [3] + [1] * 49
    assert [store.version(1, i) for i in range(200)] == expected
    assert store.reader.last_entry_id(1) == 199


def test_ledgers_do_not_meet(store: Store) -> None:
    for ledger in (5, 6, 7):
        store.flush(ledger, range(10 * ledger))
    assert [store.reader.last_entry_id(ledger) for ledger in (4, 5, 6, 7, 8)] == [None, 49, 59, 69, None]
    assert store.reader.read(6, 60, 0) == []


def test_negative_and_huge_ids(store: Store) -> None:
    ids = [1 - (1 << 63), -3, 0, (1 << 63) - 1]
    store.flush(1, ids)
    assert [store.version(1, i) for i in ids] == [1, 1, 1, 1]
    assert store.version(1, -2) is None
    assert store.reader.last_entry_id(1) == (1 << 63) - 1


@settings(max_examples=rounds(25), deadline=None)
@given(flushes=st.lists(st.sets(st.integers(-3, 60), min_size=1), min_size=1, max_size=8))
def test_each_id_reads_as_it_was_last_written(
    tmp_path_factory: pytest.TempPathFactory, flushes: list[set[int]]
) -> None:
    store = Store(tmp_path_factory.mktemp("index"), block=600)
    expected: dict[int, int] = {}
    for number, ids in enumerate(flushes, 1):
        store.flush(1, sorted(ids))
        expected.update(dict.fromkeys(ids, number))
    assert [store.version(1, i) for i in range(-4, 62)] == [expected.get(i) for i in range(-4, 62)]
    assert store.reader.last_entry_id(1) == max(expected)
    store.close()


def test_deleted_ledgers_are_gone(store: Store) -> None:
    for ledger in (5, 6, 7):
        store.flush(ledger, range(10))
    store.index.apply(
        [], [(6, BookieLedgerState(6, b"k").encode()), (7, BookieLedgerState(7, b"k").encode())], store.reader.ids_of
    )
    store.index.delete_ledgers([6])
    assert [store.version(ledger, 3) for ledger in (5, 6, 7)] == [1, None, 3]
    assert [state.ledger_id for state in store.index.ledger_states()] == [7]


def test_a_moved_block_is_read_from_its_new_place(store: Store) -> None:
    store.flush(1, range(10))
    store.flush(1, [4])
    old = store.index.overlapping(1, 0, 3)[0]
    block = IndexRun(0, 9, old.log_id, old.offset, old.length, False)
    assert store.index.points_to(1, block)
    store.writer.close_log()
    copy = store.writer.copy(store.logs.read_block(old.log_id, old.offset, old.length))
    store.writer.finish()
    store.index.move_blocks([(1, block, copy)])
    assert not store.index.points_to(1, block)
    assert {run.log_id for run in store.index.overlapping(1, 0, 9) if run.first != 4} == {copy.log_id}
    assert [store.version(1, i) for i in range(10)] == [1] * 4 + [2] + [1] * 5


def test_an_index_that_points_to_a_wrong_block_is_noticed(store: Store) -> None:
    store.flush(1, range(10))
    store.flush(2, range(10))
    first, second = store.index.overlapping(1, 0, 9)[0], store.index.overlapping(2, 0, 9)[0]
    store.index.move_blocks([(1, first, second)])
    with pytest.raises(EntryLogDamaged, match="the block holds entries 0 to 9 of ledger 2"):
        store.reader.read(1, 0, 0)


def test_a_missing_log_is_named(store: Store) -> None:
    store.flush(1, range(10))
    os.unlink(store.logs.path(1))
    with pytest.raises(EntryLogDamaged, match=r"00000001\.log.*missing"):
        store.reader.read(1, 0, 0)


def test_the_index_survives_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.flush(1, range(100))
    sequence = store.index.sequence
    store.close()
    again = Store(tmp_path)
    assert again.index.sequence >= sequence > 0
    assert again.version(1, 50) == 1
    again.index.reopen()
    assert again.version(1, 50) == 1
    again.close()


def test_a_lost_index_is_noticed_by_its_sequence(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.flush(1, range(100))
    sequence = store.index.sequence
    store.close()
    for path in (tmp_path / "index").iterdir():
        path.unlink()
    again = Store(tmp_path)
    assert again.index.sequence < sequence
    again.close()


@pytest.mark.parametrize("suffix", [".sst", ".log"])
def test_flipped_bits_in_the_index_are_found_and_never_read_as_data(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "live").mkdir()
    store = Store(tmp_path / "live", block=200)
    for start in range(0, 3000, 300):
        store.flush(1, range(start, start + 300))
    if suffix == ".sst":
        store.close()  # which moves the records from RocksDB's log to a table
    shutil.copytree(tmp_path / "live", tmp_path / "copy")
    if suffix == ".log":
        store.close()
    index = tmp_path / "copy" / "index"
    path = max((path for path in index.iterdir() if path.suffix == suffix), key=os.path.getsize)
    flip_byte(path, path.stat().st_size // 3)
    with pytest.raises((IndexDamaged, IndexFailure), match="orruption"):
        read_everything(tmp_path / "copy")


def read_everything(folder: Path) -> None:
    store = Store(folder)
    try:
        for entry_id in range(3000):
            assert store.version(1, entry_id) == 1 + entry_id // 300
    finally:
        store.close()


def test_a_missing_table_file_refuses_the_start_by_name(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.flush(1, range(100))
    store.index._db.flush()
    store.close()
    gone = next(path for path in (tmp_path / "index").iterdir() if path.suffix == ".sst")
    gone.unlink()
    with pytest.raises(IndexDamaged, match=gone.name):
        Store(tmp_path)
