"""The journal thread: many groups in one sync, change of files, a full disk, a failed sync."""

import logging
import os
from pathlib import Path

import pytest

from magnetar.storage.bookie.journal_format import ControlRecord, ledger_key_record
from magnetar.storage.bookie.journal_replay import JournalReplay, journal_path, list_journals
from tests.storage.bookie.faults import IO_ERROR, NO_SPACE, Faults
from tests.storage.bookie.helpers import entries_of
from tests.storage.bookie.journal_scene import group, journal_in, replayed


def test_committed_groups_are_in_the_file_in_order(tmp_path: Path) -> None:
    with journal_in(tmp_path) as opened:
        assert opened.commit(group(0, 3)).error is None
        result = opened.commit(group(3, 1))
    entries, end = replayed(tmp_path)
    assert entries == entries_of(1, range(4), 20)
    assert end == result.position


def test_what_arrives_during_a_sync_shares_the_next_one(tmp_path: Path) -> None:
    faults = Faults()
    with journal_in(tmp_path, faults) as opened:
        faults.gate.clear()
        opened.journal.submit(group(0, 1, tag="first"))
        while faults.writes < 1:  # the thread is busy with its first batch
            os.sched_yield()
        for number in range(1, 50):
            opened.journal.submit(group(number, 1, tag=number))
        before = faults.syncs
        faults.gate.set()
        assert [one[4] for one in opened.next().groups] == ["first"]
        assert [one[4] for one in opened.next().groups] == list(range(1, 50))
        assert faults.syncs - before == 2
    assert replayed(tmp_path)[0] == entries_of(1, range(50), 20)


def test_a_batch_is_bounded(tmp_path: Path) -> None:
    faults = Faults()
    with journal_in(tmp_path, faults, max_batch=10_000) as opened:
        faults.gate.clear()
        for number in range(12):
            opened.journal.submit(group(number, 1, size=3000))
        faults.gate.set()
        sizes: list[int] = []
        while sum(sizes) < 12:
            sizes.append(len(opened.next().groups))
        assert max(sizes) <= 4


def test_control_records_of_all_groups_are_replayed(tmp_path: Path) -> None:
    faults = Faults()
    with journal_in(tmp_path, faults) as opened:
        faults.gate.clear()
        for ledger in range(3):
            opened.journal.submit(([], [], 0, (ledger_key_record(ledger, b"key"),), None))
        faults.gate.set()
        answered = 0
        while answered < 3:
            answered += len(opened.next().groups)
    found: list[ControlRecord] = []
    JournalReplay(str(tmp_path), None, lambda controls, entries, _: found.extend(controls)).run()
    assert [control.ledger_id for control in found] == [0, 1, 2]


def test_a_full_file_is_left_for_the_next_one(tmp_path: Path) -> None:
    with journal_in(tmp_path, max_file=5000) as opened:
        positions = [opened.commit(group(number, 1, size=1000)).position for number in range(20)]
    assert list_journals(str(tmp_path)) == [1, 2, 3, 4]
    assert positions == sorted(positions)
    assert positions[-1].journal_id == 4
    entries, end = replayed(tmp_path)
    assert entries == entries_of(1, range(20), 1000)
    assert end == positions[-1]


def test_a_reopened_journal_goes_on_in_the_same_file(tmp_path: Path) -> None:
    with journal_in(tmp_path) as opened:
        end = opened.commit(group(0, 2)).position
    with journal_in(tmp_path, start=end) as opened:
        opened.commit(group(2, 2))
    assert list_journals(str(tmp_path)) == [1]
    assert replayed(tmp_path)[0] == entries_of(1, range(4), 20)


def test_a_batch_without_room_is_cut_off_and_the_next_one_stands_in_its_place(tmp_path: Path) -> None:
    faults = Faults()
    with journal_in(tmp_path, faults) as opened:
        good = opened.commit(group(0, 2)).position
        faults.write_error = NO_SPACE
        result = opened.commit(group(2, 5, size=500))
        assert result.error is not None
        assert not result.fatal
        assert result.position == good
        assert os.path.getsize(journal_path(str(tmp_path), 1)) == good.offset
        faults.write_error = None
        assert opened.commit(group(7, 1)).error is None
    assert replayed(tmp_path)[0] == entries_of(1, [0, 1, 7], 20)


def test_when_the_cut_fails_too_the_journal_is_dead(tmp_path: Path) -> None:
    faults = Faults()
    with journal_in(tmp_path, faults) as opened:
        opened.commit(group(0, 2))
        faults.sync_error = NO_SPACE
        assert opened.commit(group(2, 1)).fatal


def test_after_a_failed_sync_nothing_is_accepted_any_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    faults = Faults()
    with journal_in(tmp_path, faults) as opened:
        opened.commit(group(0, 1))
        faults.sync_error = IO_ERROR
        with caplog.at_level(logging.ERROR):
            assert opened.commit(group(1, 1)).fatal
        faults.sync_error = None
        writes = faults.writes
        result = opened.commit(group(2, 1))
        assert result.fatal
        assert result.error is not None
        assert faults.writes == writes
    assert "nothing is stored any more" in caplog.text


def test_after_a_fault_of_ours_nothing_is_accepted_any_more(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with journal_in(tmp_path) as opened:
        broken = (["no bytes"], [8], 8, (), None)
        result = opened.commit(broken)  # type: ignore[arg-type]
        assert (result.fatal, str(result.error)[:14]) == (True, "journal failed")
        assert opened.commit(group(1, 1)).fatal
    assert "a batch could not be written" in caplog.text


def test_a_full_disk_at_the_change_of_files_loses_nothing(tmp_path: Path) -> None:
    faults = Faults()
    with journal_in(tmp_path, faults, max_file=2000) as opened:
        opened.commit(group(0, 1, size=2500))
        faults.write_error = NO_SPACE
        result = opened.commit(group(1, 1))
        assert result.error is not None
        assert not result.fatal
        faults.write_error = None
        assert opened.commit(group(2, 1)).error is None
    assert [len(entry) for entry in replayed(tmp_path)[0]] == [2536, 56]


def test_closing_commits_what_was_submitted(tmp_path: Path) -> None:
    with journal_in(tmp_path) as opened:
        for number in range(30):
            opened.journal.submit(group(number, 1))
    answered = 0
    while answered < 30:
        result = opened.next()
        assert result.error is None
        answered += len(result.groups)
    assert replayed(tmp_path)[0] == entries_of(1, range(30), 20)
