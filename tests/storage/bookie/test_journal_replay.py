"""Replay from the mark: a torn end is cut off, damage before the end stops the start."""

import logging
import os
from pathlib import Path

import pytest

from magnetar.storage.bookie.bookie_errors import JournalDamaged, JournalMissing, MarkDamaged
from magnetar.storage.bookie.journal_format import FILE_HEADER_SIZE, JournalPosition, Salt, encode_batch
from magnetar.storage.bookie.journal_replay import JournalReplay, journal_path, list_journals
from tests.storage.bookie.helpers import entries_of, entry_of, flip_byte
from tests.storage.bookie.journal_scene import group, journal_in


class Written:
    """A journal of twenty batches with one entry each. `ends` are the positions behind them."""

    def __init__(self, folder: Path, max_file: int = 1 << 20) -> None:
        self.folder = folder
        self.ends: list[JournalPosition] = [JournalPosition(1, FILE_HEADER_SIZE, 1)]
        with journal_in(folder, max_file=max_file) as opened:
            for number in range(20):
                self.ends.append(opened.commit(group(number, 1, size=1000)).position)

    def path(self, journal_id: int = 1) -> Path:
        return Path(journal_path(str(self.folder), journal_id))

    def replay(self, mark: JournalPosition | None = None, skip_damage: bool = False) -> "Replayed":
        return Replayed(self.folder, mark, skip_damage)

    def goes_on_behind_all(self, replayed: "Replayed") -> bool:
        """Returns whether the journal continues in a new file, with numbers greater than all that were ever written."""
        end, last = replayed.end, self.ends[20]
        return end.offset == 0 and end.journal_id > last.journal_id and end.sequence > last.sequence


class Replayed:
    def __init__(self, folder: Path, mark: JournalPosition | None, skip_damage: bool) -> None:
        self.entries: list[bytes] = []
        replay = JournalReplay(str(folder), mark, lambda controls, found, _: self.entries.extend(found), skip_damage)
        replay.run()
        replay.finish()
        self.end = replay.end
        self.skipped = replay.skipped


def expected(*ids: int) -> list[bytes]:
    return entries_of(1, ids, 1000)


def test_replay_begins_at_the_mark(tmp_path: Path) -> None:
    written = Written(tmp_path)
    replayed = written.replay(written.ends[15])
    assert replayed.entries == expected(*range(15, 20))
    assert replayed.end == written.ends[20]


def test_replay_crosses_files(tmp_path: Path) -> None:
    written = Written(tmp_path, max_file=3000)
    assert len(list_journals(str(tmp_path))) > 3
    assert written.replay().entries == expected(*range(20))
    assert written.replay(written.ends[4]).entries == expected(*range(4, 20))


@pytest.mark.parametrize("cut", [1, 43, 44, 45, 500, 1079])
def test_a_torn_tail_is_cut_with_one_warning_that_names_file_and_offset(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, cut: int
) -> None:
    written = Written(tmp_path)
    os.truncate(written.path(), written.ends[19].offset + cut)
    with caplog.at_level(logging.INFO):
        replayed = written.replay()
    assert replayed.entries == expected(*range(19))
    assert replayed.end == written.ends[19]
    assert written.path().stat().st_size == written.ends[19].offset
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    assert str(written.path()) in warnings[0].getMessage()
    assert f"offset {written.ends[19].offset}" in warnings[0].getMessage()


def test_a_tail_whose_pages_never_reached_the_disk_is_cut(tmp_path: Path) -> None:
    written = Written(tmp_path)
    with open(written.path(), "r+b") as file:
        file.seek(written.ends[19].offset)
        file.write(bytes(written.ends[20].offset - written.ends[19].offset))
    assert written.replay().entries == expected(*range(19))


@pytest.mark.parametrize("position", [0, 4, 8, 30, 43, 44, 500])
def test_damage_with_batches_behind_it_stops_the_start_and_changes_nothing(tmp_path: Path, position: int) -> None:
    written = Written(tmp_path)
    flip_byte(written.path(), written.ends[10].offset + position)
    before = written.path().read_bytes()
    with pytest.raises(JournalDamaged) as caught:
        written.replay()
    assert (caught.value.file, caught.value.offset) == (str(written.path()), written.ends[10].offset)
    assert "skipDamagedJournal" in str(caught.value)
    assert written.path().read_bytes() == before


def test_four_kilobytes_of_zeros_in_the_middle_stop_the_start(tmp_path: Path) -> None:
    written = Written(tmp_path)
    with open(written.path(), "r+b") as file:
        file.seek(written.ends[5].offset + 100)
        file.write(bytes(4096))
    with pytest.raises(JournalDamaged) as caught:
        written.replay()
    assert caught.value.offset == written.ends[5].offset


def test_a_batch_that_is_missing_in_the_middle_stops_the_start(tmp_path: Path) -> None:
    written = Written(tmp_path)
    data = written.path().read_bytes()
    written.path().write_bytes(data[: written.ends[5].offset] + data[written.ends[6].offset :])
    with pytest.raises(JournalDamaged) as caught:
        written.replay()
    assert caught.value.offset == written.ends[5].offset


def test_a_torn_file_with_batches_in_the_next_one_stops_the_start(tmp_path: Path) -> None:
    written = Written(tmp_path, max_file=3000)
    os.truncate(written.path(2), written.path(2).stat().st_size - 60)
    with pytest.raises(JournalDamaged) as caught:
        written.replay()
    assert caught.value.file == str(written.path(2))


def test_a_damaged_file_header_stops_the_start(tmp_path: Path) -> None:
    written = Written(tmp_path, max_file=3000)
    flip_byte(written.path(2), 9)
    with pytest.raises(JournalDamaged) as caught:
        written.replay()
    assert (caught.value.file, caught.value.offset) == (str(written.path(2)), 0)


def test_a_journal_cut_below_the_mark_stops_the_start(tmp_path: Path) -> None:
    written = Written(tmp_path)
    os.truncate(written.path(), written.ends[9].offset)
    with pytest.raises(JournalDamaged) as caught:
        written.replay(written.ends[10])
    assert caught.value.offset == written.ends[9].offset


def test_the_file_that_the_mark_names_must_exist(tmp_path: Path) -> None:
    written = Written(tmp_path, max_file=3000)
    mark = written.ends[4]
    written.path(mark.journal_id).unlink()
    with pytest.raises(JournalMissing) as caught:
        written.replay(mark)
    assert caught.value.file == str(written.path(mark.journal_id))


@pytest.mark.parametrize("position", [2, -1])
def test_a_missing_journal_behind_the_mark_stops_the_start(tmp_path: Path, position: int) -> None:
    written = Written(tmp_path, max_file=3000)
    gone = list_journals(str(tmp_path))[position]
    written.path(gone).unlink()
    with pytest.raises(JournalMissing) as caught:
        written.replay(written.ends[1])
    assert caught.value.file == str(written.path(gone))


def test_journals_without_a_mark_must_begin_with_the_first(tmp_path: Path) -> None:
    written = Written(tmp_path, max_file=3000)
    written.path(1).unlink()
    with pytest.raises(MarkDamaged):
        written.replay()


def test_a_file_that_was_only_just_begun_is_removed_again(tmp_path: Path) -> None:
    written = Written(tmp_path)
    last = written.ends[20]
    with journal_in(tmp_path, start=JournalPosition(2, 0, last.sequence + 1)):
        pass
    replayed = written.replay()
    assert replayed.entries == expected(*range(20))
    assert replayed.end == last
    assert list_journals(str(tmp_path)) == [1]


def test_told_to_skip_damage_it_keeps_all_that_is_whole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written = Written(tmp_path, max_file=9000)
    flip_byte(written.path(1), written.ends[3].offset + 70)
    flip_byte(written.path(2), written.ends[10].offset + 70)
    with caplog.at_level(logging.ERROR):
        replayed = written.replay(skip_damage=True)
    assert replayed.entries == expected(*(number for number in range(20) if number not in (3, 10)))
    assert replayed.skipped
    assert written.goes_on_behind_all(replayed)
    assert str(written.path(1)) in caplog.text


def test_told_to_skip_a_missing_file_goes_on_behind_it(tmp_path: Path) -> None:
    written = Written(tmp_path, max_file=3000)
    by_file: dict[int, list[int]] = {end.journal_id: [] for end in written.ends[1:]}
    for number, end in enumerate(written.ends[1:]):
        by_file[end.journal_id].append(number)
    written.path(2).unlink()
    replayed = written.replay(skip_damage=True)
    assert replayed.entries == expected(*(number for number in range(20) if number not in by_file[2]))
    assert written.goes_on_behind_all(replayed)


def test_told_to_skip_all_missing_files_it_begins_a_new_one(tmp_path: Path) -> None:
    written = Written(tmp_path)
    written.path().unlink()
    replayed = written.replay(written.ends[7], skip_damage=True)
    assert replayed.entries == []
    assert replayed.end.journal_id > 1
    assert replayed.end.sequence > written.ends[7].sequence


def test_an_empty_file_is_damage_that_can_be_skipped(tmp_path: Path) -> None:
    written = Written(tmp_path, max_file=3000)
    os.truncate(written.path(2), 0)
    with pytest.raises(JournalDamaged, match="shorter than its header"):
        written.replay()
    assert written.replay(skip_damage=True).entries[-1:] == expected(19)


def test_a_message_that_looks_like_batches_does_not_make_a_torn_tail_damage(tmp_path: Path) -> None:
    forged = b"".join(encode_batch(1, 1 << 40, Salt(0, 0), [], [b"x" * 100], [100]))
    with journal_in(tmp_path) as opened:
        end = opened.commit(group(0, 1)).position
        entry = entry_of(1, 1, forged * 50)
        opened.commit(([entry], [len(entry)], len(entry), (), None))
    os.truncate(journal_path(str(tmp_path), 1), os.path.getsize(journal_path(str(tmp_path), 1)) - 1)
    replayed = Replayed(tmp_path, None, False)
    assert replayed.entries == entries_of(1, [0], 20)
    assert replayed.end == end


def test_told_to_skip_a_damaged_header_it_reads_by_the_copy_and_leaves_the_file(tmp_path: Path) -> None:
    written = Written(tmp_path)
    flip_byte(written.path(), 26)
    replayed = written.replay(skip_damage=True)
    assert replayed.entries == expected(*range(20))
    assert written.goes_on_behind_all(replayed)


def test_told_to_skip_a_file_without_any_header_it_goes_on_behind_it(tmp_path: Path) -> None:
    written = Written(tmp_path)
    for position in (26, 58):
        flip_byte(written.path(), position)
    replayed = written.replay(skip_damage=True)
    assert replayed.entries == []
    assert written.goes_on_behind_all(replayed)


@pytest.mark.parametrize("below", [1, 30, 5000])
def test_told_to_skip_a_file_that_ends_before_the_mark_it_goes_on_behind_the_mark(tmp_path: Path, below: int) -> None:
    written = Written(tmp_path)
    mark = written.ends[20]
    os.truncate(written.path(), mark.offset - below)
    replayed = written.replay(mark, skip_damage=True)
    assert replayed.entries == []
    assert written.goes_on_behind_all(replayed)


def test_told_to_skip_a_missing_mark_and_first_file_it_keeps_the_others(tmp_path: Path) -> None:
    written = Written(tmp_path, max_file=3000)
    of_first = [number for number, end in enumerate(written.ends[1:]) if end.journal_id == 1]
    written.path(1).unlink()
    replayed = written.replay(skip_damage=True)
    assert replayed.entries == expected(*(number for number in range(20) if number not in of_first))
    assert written.goes_on_behind_all(replayed)


def test_what_is_skipped_stays_on_disk_as_it_is(tmp_path: Path) -> None:
    written = Written(tmp_path, max_file=3000)
    flip_byte(written.path(2), 100)
    os.truncate(written.path(3), 90)
    before = [path.read_bytes() for path in sorted(tmp_path.iterdir())]
    written.replay(skip_damage=True)
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == before
