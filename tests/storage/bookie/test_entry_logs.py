"""Entry logs: writing, reading, recovery of a log whose writer was killed."""

import os
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from magnetar.storage.bookie import entry_log_scan
from magnetar.storage.bookie.bookie_errors import EntryLogDamaged, EntryLogGone
from magnetar.storage.bookie.entry_log_format import FILE_HEADER_SIZE, Block, encode_footer
from magnetar.storage.bookie.entry_log_scan import LogLayout, blocks_between, layout_of
from magnetar.storage.bookie.entry_log_writer import EntryLogWriter
from magnetar.storage.bookie.entry_logs import EntryLogs
from magnetar.storage.bookie.index_runs import IndexRun
from tests.storage.bookie.faults import NO_SPACE, Faults
from tests.storage.bookie.helpers import entries_of, files_of, flip_byte


class Store:
    def __init__(self, folder: Path, *, limit: int = 1 << 20, block: int = 4096, open_limit: int = 8) -> None:
        self.folder = folder
        self.faults = Faults()
        self.logs = EntryLogs([str(folder)], open_limit)
        self.writer = EntryLogWriter(self.logs, log_size_limit=limit, block_bytes=block, open_file=self.faults.open)

    def append(self, ledger_id: int, ids: Sequence[int], size: int = 100) -> list[IndexRun]:
        return [run for run, _ in self.writer.append(1, ledger_id, ids, entries_of(ledger_id, ids, size))]

    def read(self, run: IndexRun) -> list[bytes]:
        block = self.logs.read_block(run.log_id, run.offset, run.length)
        return block.entries(0, block.header.entry_count)


def test_blocks_are_readable_after_finish(tmp_path: Path) -> None:
    store = Store(tmp_path)
    runs = store.append(1, range(100)) + store.append(2, [1, 3, 5])
    store.writer.finish()
    assert [entry for run in runs[:-1] for entry in store.read(run)] == entries_of(1, range(100), 100)
    assert store.read(runs[-1]) == entries_of(2, [1, 3, 5], 100)
    assert [run.dense for run in runs] == [True] * (len(runs) - 1) + [False]
    assert len(runs) > 3


def test_no_log_is_made_before_there_is_something_to_write(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.writer.finish()
    store.writer.close_log()
    assert os.listdir(tmp_path) == []


def test_logs_are_closed_at_the_limit_and_know_their_ledgers(tmp_path: Path) -> None:
    store = Store(tmp_path, limit=10_000)
    runs = [run for ledger in range(8) for run in store.append(ledger, range(30))]
    store.writer.finish()
    assert len({run.log_id for run in runs}) > 2
    store.writer.close_log()
    for log_id in store.logs.ids():
        expected: dict[int, int] = {}
        for ledger in range(8):
            length = sum(
                run.length
                for run in runs[ledger * len(runs) // 8 : (ledger + 1) * len(runs) // 8]
                if run.log_id == log_id
            )
            if length:
                expected[ledger] = length
        assert layout_of(store.logs, log_id).ledgers == expected


def test_a_log_that_was_never_closed_is_understood_by_its_blocks(tmp_path: Path) -> None:
    store = Store(tmp_path)
    runs = store.append(1, range(50)) + store.append(9, range(7))
    store.writer.finish()
    with open(store.logs.path(1), "ab") as file:
        file.write(b"MGEB torn")
    expected = {1: sum(run.length for run in runs[:-1]), 9: runs[-1].length}
    assert layout_of(EntryLogs([str(tmp_path)], 8), 1) == LogLayout(expected, runs[-1].offset + runs[-1].length)


@pytest.mark.parametrize("position", [0, 4, 16, 40, 300])
def test_damage_in_a_log_that_was_never_closed_does_not_hide_what_is_behind_it(tmp_path: Path, position: int) -> None:
    store = Store(tmp_path)
    runs = store.append(1, range(200))
    store.writer.finish()
    flip_byte(tmp_path / "00000001.log", runs[2].offset + position)
    with pytest.raises(EntryLogDamaged) as caught:
        layout_of(EntryLogs([str(tmp_path)], 8), 1)
    assert caught.value.offset == runs[2].offset


def test_a_log_of_another_format_is_not_judged(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append(1, range(10))
    store.writer.close_log()
    flip_byte(tmp_path / "00000001.log", 7)
    with pytest.raises(EntryLogDamaged, match="at offset 0"):
        layout_of(store.logs, 1)


def test_a_log_of_which_only_the_name_exists_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "00000001.log").touch()
    assert layout_of(EntryLogs([str(tmp_path)], 8), 1) == LogLayout({}, 0)


def test_after_abort_the_file_ends_where_it_ended_before(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first = store.append(1, range(50))
    store.writer.finish()
    size = os.path.getsize(store.logs.path(1))
    store.append(1, range(50, 5000))
    store.faults.write_error = NO_SPACE
    with pytest.raises(OSError, match="No space"):
        store.writer.finish()
    store.writer.abort()
    assert os.path.getsize(store.logs.path(1)) == size
    store.faults.write_error = None
    again = store.append(1, range(50, 60))
    store.writer.finish()
    assert again[0].offset == size
    assert store.read(first[0]) == entries_of(1, range(first[0].last + 1), 100)
    assert store.read(again[0]) == entries_of(1, range(50, 60), 100)


def test_large_flushes_are_written_in_portions_of_about_a_megabyte(tmp_path: Path) -> None:
    store = Store(tmp_path, limit=1 << 30, block=64 << 10)
    store.append(1, range(6000), size=1000)
    store.writer.finish()
    sizes = [sum(map(len, buffers)) for buffers in store.faults.buffers]
    assert max(sizes) < (1 << 20) + (80 << 10)
    assert len(sizes) <= 8


def test_a_new_log_goes_where_most_room_is_and_ids_are_never_repeated(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append(1, range(5))
    store.writer.close_log()
    assert [path.name for path in files_of(tmp_path, ".log")] == ["00000001.log"]
    assert EntryLogs([str(tmp_path)], 8).new_log()[0] == 2


def test_damage_is_named_with_file_and_offset(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = store.append(1, range(10))[0]
    store.writer.finish()
    flip_byte(tmp_path / "00000001.log", run.offset + 200)
    with pytest.raises(EntryLogDamaged) as caught:
        store.read(run)
    assert (caught.value.file, caught.value.offset) == (str(tmp_path / "00000001.log"), run.offset)
    os.truncate(tmp_path / "00000001.log", run.offset + 100)
    with pytest.raises(EntryLogDamaged, match="the file ends after 100 of"):
        store.read(run)


def test_a_damaged_footer_is_not_believed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = store.append(1, range(10))[0]
    store.writer.close_log()
    flip_byte(tmp_path / "00000001.log", os.path.getsize(tmp_path / "00000001.log") - 20)
    assert layout_of(store.logs, 1) == LogLayout({1: run.length}, run.offset + run.length), "the blocks say it"


def test_a_message_that_looks_like_a_footer_does_not_hide_what_the_log_holds(tmp_path: Path) -> None:
    """The process was killed, and the log's last bytes come from a client that knows the format."""
    expected: dict[int, int] = {}
    size = 0
    for attempt in ("to learn the offset", "to use it"):
        folder = tmp_path / attempt
        folder.mkdir()
        store = Store(folder)
        forged = encode_footer({}, size - len(encode_footer({}, 0, 0)) if size else 0, 0)
        (run,) = store.append(1, range(10))
        message = entries_of(9, [0], 100)[0] + forged
        ((last, _),) = store.writer.append(1, 9, [0], [message])
        store.writer.finish()
        size = os.path.getsize(folder / "00000001.log")
        expected = {1: run.length, 9: last.length}
    assert layout_of(EntryLogs([str(folder)], 8), 1) == LogLayout(expected, size)


def test_a_torn_log_full_of_what_looks_like_blocks_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    run = store.append(1, range(10))[0]
    store.writer.finish()
    beginnings = 300
    with open(tmp_path / "00000001.log", "ab") as file:
        file.write(b"torn")
        for left in range(beginnings, 0, -1):
            file.write(struct.pack(">4sIQqqIII", b"MGEB", 0, 1, 9, 0, 0, 0, 44 * (left - 1)))
    assert layout_of(EntryLogs([str(tmp_path)], 8), 1) == LogLayout({1: run.length}, run.offset + run.length)
    reads = 0
    read_block = EntryLogs.read_block

    def counted(logs: EntryLogs, log_id: int, offset: int, length: int) -> Block:
        nonlocal reads
        reads += 1
        return read_block(logs, log_id, offset, length)

    monkeypatch.setattr(EntryLogs, "read_block", counted)
    monkeypatch.setattr(entry_log_scan, "SUSPECTS_BYTES_MAX", 20 * 44 * beginnings)
    with pytest.raises(EntryLogDamaged):
        layout_of(EntryLogs([str(tmp_path)], 8), 1)
    assert reads < 30


def test_a_deleted_log_is_gone_for_new_readers_only(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = store.append(1, range(10))[0]
    store.writer.close_log()
    size = os.path.getsize(tmp_path / "00000001.log")
    reading = store.logs._opened(1)
    assert store.logs.delete(1) == size
    assert len(os.pread(reading.fd, run.length, run.offset)) == run.length
    with pytest.raises(EntryLogGone):
        store.read(run)


def test_open_files_are_bounded(tmp_path: Path) -> None:
    store = Store(tmp_path, limit=100, open_limit=3)
    runs = [store.append(1, range(number, number + 1))[0] for number in range(10)]
    store.writer.close_log()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        for number, run in enumerate(runs):
            assert store.read(run) == entries_of(1, [number], 100)
    assert len(os.listdir("/proc/self/fd")) <= before + 3
    store.logs.close()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_blocks_are_read_in_portions(tmp_path: Path) -> None:
    store = Store(tmp_path, block=1000)
    runs = store.append(1, range(100))
    store.writer.close_log()
    end = layout_of(store.logs, 1).end
    found, offset = [], FILE_HEADER_SIZE
    while offset < end:
        blocks, offset = blocks_between(store.logs, 1, offset, end, 3000)
        assert 1 <= len(blocks) <= 5
        found += [(position, block.header.first_entry_id) for position, block in blocks]
    assert found == [(run.offset, run.first) for run in runs]


@pytest.mark.parametrize("position", [0, 16, 40])
def test_a_damaged_header_does_not_end_the_log(tmp_path: Path, position: int) -> None:
    store = Store(tmp_path, block=1000)
    runs = store.append(1, range(100))
    store.writer.close_log()
    flip_byte(tmp_path / "00000001.log", runs[3].offset + position)
    with pytest.raises(EntryLogDamaged) as caught:
        blocks_between(store.logs, 1, FILE_HEADER_SIZE, layout_of(store.logs, 1).end, 1 << 20)
    assert caught.value.offset == runs[3].offset


def test_a_copied_block_is_the_same_in_its_new_place(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = store.append(1, [3, 4, 9])[0]
    store.writer.close_log()
    copy = store.writer.copy(store.logs.read_block(run.log_id, run.offset, run.length))
    store.writer.finish()
    assert copy == IndexRun(3, 9, 2, FILE_HEADER_SIZE, run.length, False)
    assert store.logs.read(2, copy.offset, copy.length) == store.logs.read(1, run.offset, run.length)


def test_the_kernel_is_asked_to_read_no_more_of_a_log_than_the_bookie_wants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path)
    run = store.append(1, range(10))[0]
    store.writer.finish()
    advised: list[tuple[str, tuple[int, ...]]] = []
    monkeypatch.setattr(
        os, "posix_fadvise", lambda fd, *advice: advised.append((os.readlink(f"/proc/self/fd/{fd}"), advice))
    )
    store.read(run)
    assert advised == [(store.logs.path(run.log_id), (0, 0, os.POSIX_FADV_RANDOM))]
