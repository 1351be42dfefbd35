"""The index's writes are durable when its calls return, and no call claims that after a sync has failed."""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from magnetar.storage.bookie import durable_file
from magnetar.storage.bookie.bookie_errors import IndexFailure
from magnetar.storage.bookie.entry_index import EntryIndex
from magnetar.storage.bookie.index_runs import IndexRun

RECORD_BYTES = 100_000
"""So large that a few records fill one of RocksDB's buffers, after which it begins another log file."""


class Synced:
    """By name of a file: how many bytes were synced last."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}
        self.error: OSError | None = None

    def sync(self, descriptor: int) -> None:
        if self.error is not None:
            raise self.error
        self.sizes[Path(os.readlink(f"/proc/self/fd/{descriptor}")).name] = os.fstat(descriptor).st_size


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Synced:
    synced = Synced()
    monkeypatch.setattr(durable_file, "_sync_data", synced.sync)
    return synced


@pytest.fixture
def index(tmp_path: Path) -> Iterator[EntryIndex]:
    index = EntryIndex(str(tmp_path))
    yield index
    index.close()


def put_states(index: EntryIndex, ledgers: range, size: int = 10) -> None:
    index.apply([], [(ledger_id, bytes(size)) for ledger_id in ledgers], lambda _: [])


def no_ids(_: IndexRun) -> list[int]:
    raise AssertionError("no run is cut")


def test_all_of_the_log_is_synced_after_each_call_also_when_rocksdb_begins_another_file(
    index: EntryIndex, synced: Synced, tmp_path: Path
) -> None:
    run = IndexRun(0, 9, 1, 32, 1000, True)
    names = set()
    for ledger_id in range(50):
        put_states(index, range(ledger_id, ledger_id + 1), RECORD_BYTES)
        index.apply([(ledger_id, [(run, range(10))])], [], no_ids)
        index.move_blocks([(ledger_id, run, run._replace(log_id=2))])
        index.delete_ledgers([ledger_id])
        for path in tmp_path.glob("*.log"):
            names.add(path.name)
            with suppress(FileNotFoundError):  # RocksDB deletes old files when it likes.
                size = path.stat().st_size
                assert synced.sizes[path.name] == size
    assert len(names) > 1


def test_after_a_failed_sync_no_call_succeeds_until_the_index_is_opened_anew(index: EntryIndex, synced: Synced) -> None:
    synced.error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(IndexFailure, match="No space left on device"):
        put_states(index, range(3))
    synced.error = None
    with pytest.raises(IndexFailure, match="No space left on device"):
        index.move_blocks([])
    with pytest.raises(IndexFailure, match="No space left on device"):
        index.delete_ledgers([1])
    index.reopen()
    put_states(index, range(3))
    index.delete_ledgers([1])


def test_many_records_are_written_in_portions(
    index: EntryIndex, synced: Synced, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = index.sequence
    portions: list[int] = []
    write = EntryIndex._write

    def counted(index: EntryIndex, batch: object) -> None:
        portions.append(-index.sequence)
        write(index, batch)
        portions[-1] += index.sequence

    monkeypatch.setattr(EntryIndex, "_write", counted)
    put_states(index, range(2_300))
    assert sum(portions) == index.sequence - before == 2_300
    assert max(portions) <= 500
