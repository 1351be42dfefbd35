"""Replay of a journal file that is written over: bytes of its former use are never taken for its own, whatever a power
loss leaves.

The former use is as dangerous as it can be: batches of the same sizes in the same places, entries with the same ids,
and (in half of the examples) even the same salt.
"""

import logging
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.storage.bookie.bookie_errors import JournalDamaged
from magnetar.storage.bookie.file_inspection import SeenBatch, read_journals
from magnetar.storage.bookie.journal_format import (
    FILE_HEADER_SIZE,
    PAGE_SIZE,
    BatchKind,
    JournalPosition,
    encode_batch,
    file_header,
    padding,
    salt_of_bits,
)
from magnetar.storage.bookie.journal_replay import JournalReplay, journal_path
from tests.rounds import rounds
from tests.storage.bookie.faults import Faults
from tests.storage.bookie.helpers import entry_of
from tests.storage.bookie.journal_scene import Opened, group

SECTOR = 512
FORMER_ID, LIVE_ID = 3, 9
FORMER_SEQUENCE, LIVE_SEQUENCE = 100, 900
SALT = 0xABCDEF01234567
MARK = JournalPosition(LIVE_ID, FILE_HEADER_SIZE, LIVE_SEQUENCE)

sizes_of_batches = st.lists(st.sampled_from([1, 100, 450, 1500, 3953, 4096, 9000]), min_size=1, max_size=12)


def batch(journal_id: int, sequence: int, size: int, salt_bits: int, tag: bytes) -> bytes:
    entry = entry_of(1, size, (tag * size)[:size])
    return b"".join(encode_batch(journal_id, sequence, salt_of_bits(salt_bits), [], [entry], [len(entry)]))


def former_file(sizes: Sequence[int], salt_bits: int) -> bytearray:
    """Makes a file of batches that ends with "continued", as a file does that is kept for later use."""
    data = bytearray(file_header(FORMER_ID, FORMER_SEQUENCE, salt_bits))
    for number, size in enumerate(sizes):
        data += batch(FORMER_ID, FORMER_SEQUENCE + number, size, salt_bits, b"former")
    sequence = FORMER_SEQUENCE + len(sizes)
    data += b"".join(encode_batch(FORMER_ID, sequence, salt_of_bits(salt_bits), [], [], [], BatchKind.CONTINUED))
    return data


@dataclass
class WrittenOver:
    """A file that was written over. `before` lacks the last batch, `after` has it; `ends` are the offsets behind the
    header and behind each batch."""

    former: bytearray
    before: bytearray
    after: bytearray
    ends: list[int]
    entries: list[bytes]


def written_over(former: bytearray, sizes: Sequence[int]) -> WrittenOver:
    """Writes as the journal does: while former bytes follow, each batch is filled up with zeros to the end of its
    page."""
    limit = len(former) + padding(len(former))
    before = after = bytearray(former)

    def put(data: bytearray, what: bytes, offset: int) -> bytearray:
        end = offset + len(what)
        what += bytes(padding(end)) if end < limit else b""
        return data[:offset] + what + data[offset + len(what) :]

    after = put(after, file_header(LIVE_ID, LIVE_SEQUENCE, SALT), 0)
    ends, entries = [FILE_HEADER_SIZE], []
    for number, size in enumerate(sizes):
        before = after
        what = batch(LIVE_ID, LIVE_SEQUENCE + number, size, SALT, b"live")
        after = put(after, what, ends[-1])
        ends.append(ends[-1] + len(what))
        entries.append(entry_of(1, size, (b"live" * size)[:size]))
    return WrittenOver(former, before, after, ends, entries)


def torn(whole: WrittenOver, kept: Sequence[bool]) -> bytearray:
    """Returns the file as a power loss during the last batch leaves it: some sectors of the batch are on the disk, the
    others hold their former bytes."""
    data = bytearray(whole.before)
    for start in range(0, len(whole.after), SECTOR):
        if kept[start // SECTOR % len(kept)]:
            if len(data) < start:
                data += bytes(start - len(data))
            data[start : start + SECTOR] = whole.after[start : start + SECTOR]
    return data


class Replayed:
    def __init__(self, folder: Path, mark: JournalPosition = MARK) -> None:
        self.entries: list[bytes] = []
        replay = JournalReplay(str(folder), mark, lambda controls, found, _: self.entries.extend(found))
        replay.run()
        replay.finish()
        self.end = replay.end


def path_in(folder: Path) -> Path:
    return Path(journal_path(str(folder), LIVE_ID))


@settings(max_examples=rounds(120), deadline=None)
@given(sizes_of_batches, sizes_of_batches, st.booleans(), st.lists(st.booleans(), min_size=1, max_size=40))
def test_whatever_sectors_of_the_last_batch_are_there_all_before_it_is_replayed_and_nothing_else(
    former: list[int], live: list[int], same_salt: bool, kept: list[bool]
) -> None:
    whole = written_over(former_file(former, SALT if same_salt else 77), live)
    data = torn(whole, kept)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path_in(folder).write_bytes(data)
        replayed = Replayed(folder)
        complete = data[whole.ends[-2] : whole.ends[-1]] == whole.after[whole.ends[-2] : whole.ends[-1]]
        count = len(live) if complete else len(live) - 1
        assert replayed.entries == whole.entries[:count]
        assert replayed.end == (LIVE_ID, whole.ends[count], LIVE_SEQUENCE + count)
        assert path_in(folder).stat().st_size == whole.ends[count]
        # The journal continues there, and the next start finds both batches.
        opened = Opened(folder, Faults(), replayed.end, 1 << 30, 1 << 20)
        end = opened.commit(group(0, 2)).position
        opened.journal.close()
        again = Replayed(folder)
        assert (len(again.entries), again.end) == (count + 2, end)


@settings(max_examples=rounds(80), deadline=None)
@given(sizes_of_batches, sizes_of_batches.filter(lambda sizes: len(sizes) > 1), st.booleans(), st.data())
def test_damage_with_a_batch_behind_it_is_told_from_the_end(
    former: list[int], live: list[int], same_salt: bool, data: st.DataObject
) -> None:
    """The damage is a flipped byte, or sectors with their former bytes, as after a write that the disk lost."""
    whole = written_over(former_file(former, SALT if same_salt else 77), live)
    number = data.draw(st.integers(0, len(live) - 2))
    start, end = whole.ends[number], whole.ends[number + 1]
    damaged = bytearray(whole.after)
    if data.draw(st.booleans()):
        damaged[data.draw(st.integers(start, end - 1))] ^= 0x5A
    else:
        lost = whole.former[start:end]
        damaged[start : start + len(lost)] = lost
        if damaged == whole.after:
            return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path_in(folder).write_bytes(damaged)
        if damaged[start:end] == whole.after[start:end]:
            return
        with pytest.raises(JournalDamaged) as caught:
            Replayed(folder)
        assert (caught.value.file, caught.value.offset) == (str(path_in(folder)), start)
        assert path_in(folder).read_bytes() == damaged


def killed(folder: Path, live: Sequence[int] = (100, 100, 100)) -> WrittenOver:
    whole = written_over(former_file([450] * 40, 77), live)
    path_in(folder).write_bytes(whole.after)
    return whole


def test_the_end_after_a_kill_is_found_without_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = killed(tmp_path)
    with caplog.at_level(logging.INFO):
        assert Replayed(tmp_path).entries == whole.entries
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert "of its former use at offset" in record.getMessage()


def test_an_unfinished_batch_is_a_warning_there_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = killed(tmp_path)
    torn_batch = batch(LIVE_ID, LIVE_SEQUENCE + 3, 4000, SALT, b"live")[:1000]
    with open(path_in(tmp_path), "r+b") as file:
        file.seek(whole.ends[-1])
        file.write(torn_batch)
    with caplog.at_level(logging.INFO):
        assert Replayed(tmp_path).entries == whole.entries
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert f"offset {whole.ends[-1]}" in record.getMessage()


def test_a_mark_at_the_end_of_the_live_part_is_reached(tmp_path: Path) -> None:
    whole = killed(tmp_path)
    mark = JournalPosition(LIVE_ID, whole.ends[-1], LIVE_SEQUENCE + 3)
    replayed = Replayed(tmp_path, mark)
    assert (replayed.entries, replayed.end) == ([], mark)


@pytest.mark.parametrize(("ends_at", "sequence"), [(2, 3), (3, 2), (3, 4)])
def test_a_live_part_that_ends_before_the_mark_stops_the_start(tmp_path: Path, ends_at: int, sequence: int) -> None:
    """A disk that lost syncs could leave this; a file that grows would be too short then."""
    whole = killed(tmp_path, [100] * ends_at)
    offset = whole.ends[1] * 3 - 2 * FILE_HEADER_SIZE
    mark = JournalPosition(LIVE_ID, offset, LIVE_SEQUENCE + sequence)
    before = path_in(tmp_path).read_bytes()
    with pytest.raises(JournalDamaged, match="no batch ends at the mark") as caught:
        Replayed(tmp_path, mark)
    assert caught.value.offset == offset
    assert path_in(tmp_path).read_bytes() == before


def test_a_file_that_has_its_name_and_its_header_only_is_removed(tmp_path: Path) -> None:
    """The power was lost after the new file got its name and before the old file's record says that the journal
    continues there."""
    whole = killed(tmp_path)
    following = Path(journal_path(str(tmp_path), LIVE_ID + 1))
    header = file_header(LIVE_ID + 1, LIVE_SEQUENCE + 4, SALT)
    following.write_bytes(header + former_file([450] * 40, SALT)[len(header) :])
    replayed = Replayed(tmp_path)
    assert replayed.entries == whole.entries
    assert replayed.end.journal_id == LIVE_ID
    assert not following.exists()


def test_a_file_that_goes_on_in_one_without_a_batch_yet(tmp_path: Path) -> None:
    whole = killed(tmp_path)
    record = b"".join(encode_batch(LIVE_ID, LIVE_SEQUENCE + 3, salt_of_bits(SALT), [], [], [], BatchKind.CONTINUED))
    with open(path_in(tmp_path), "r+b") as file:
        file.seek(whole.ends[-1])
        file.write(record)
    following = Path(journal_path(str(tmp_path), LIVE_ID + 1))
    header = file_header(LIVE_ID + 1, LIVE_SEQUENCE + 4, SALT)
    following.write_bytes(header + former_file([450] * 40, SALT)[len(header) :])
    replayed = Replayed(tmp_path)
    assert replayed.entries == whole.entries
    assert replayed.end == (LIVE_ID + 1, FILE_HEADER_SIZE, LIVE_SEQUENCE + 4)
    assert following.stat().st_size == FILE_HEADER_SIZE
    seen = list(read_journals([str(path_in(tmp_path)), str(following)]))
    assert all(isinstance(found, SeenBatch) for found in seen)


def test_the_tools_see_no_damage_behind_the_live_part(tmp_path: Path) -> None:
    whole = killed(tmp_path)
    seen = list(read_journals([str(path_in(tmp_path))]))
    assert [found.entries for found in seen if isinstance(found, SeenBatch)] == [[entry] for entry in whole.entries]
    assert len(seen) == len(whole.entries)


def test_a_journal_that_is_written_over_while_the_tools_read_it_is_no_damage(tmp_path: Path) -> None:
    killed(tmp_path)
    reading = read_journals([str(path_in(tmp_path))])
    assert isinstance(next(reading), SeenBatch)
    spare = tmp_path / "0000000000000009.spare"
    path_in(tmp_path).rename(spare)
    with open(spare, "r+b") as file:
        file.write(b"x" * 3 * PAGE_SIZE)
    assert list(reading) == []
