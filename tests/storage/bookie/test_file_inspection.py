"""A tool reads a bookie's files for people: it sees every record and reports every flipped bit, but does not take a
torn end for damage."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from magnetar.storage.bookie.file_check import CheckSummary, FileFinding, LostEntries, check_files
from magnetar.storage.bookie.file_inspection import (
    FileFault,
    SeenBatch,
    SeenBlock,
    entry_log_files,
    journal_files,
    read_entry_log,
    read_journals,
)
from magnetar.storage.bookie.journal_format import LEDGER_KEY
from tests.storage.bookie.helpers import add, entries_of, files_of, flip_byte, open_bookie

LEDGERS = (3, 5)
COUNT = 300


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes the folder of a killed bookie in which every entry is both in entry logs and in journals."""
    folder = tmp_path_factory.mktemp("inspection")

    async def write() -> None:
        bookie = await open_bookie(folder / "live", journal_max_backups=100, journal_max_size_mb=0.1)
        for first in range(0, COUNT, 10):
            for ledger_id in LEDGERS:
                await add(bookie, ledger_id, range(first, first + 10), size=300)
        await bookie.checkpoint()
        shutil.copytree(folder / "live", folder / "killed")
        await bookie.close()

    asyncio.run(write())
    return folder / "killed"


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "bookie")
    return tmp_path / "bookie"


def checked(folder: Path) -> tuple[list[FileFinding], CheckSummary]:
    seen = CheckSummary()
    return list(check_files((str(folder / "journal"),), (str(folder / "ledgers"),), seen)), seen


def journals_of(folder: Path) -> list[str]:
    return journal_files([str(folder / "journal")])[0]


def test_what_was_written_is_seen_whole(folder: Path) -> None:
    entries: dict[int, list[bytes]] = {ledger_id: [] for ledger_id in LEDGERS}
    keys = []
    for found in read_journals(journals_of(folder)):
        assert isinstance(found, SeenBatch)
        keys += [control.ledger_id for control in found.controls if control.kind == LEDGER_KEY]
        for entry in found.entries:
            entries[int.from_bytes(entry[:8], "big")].append(entry)
    assert set(keys) == set(LEDGERS)
    assert entries == {ledger_id: entries_of(ledger_id, range(COUNT), 300) for ledger_id in LEDGERS}
    ids: dict[int, list[int]] = {ledger_id: [] for ledger_id in LEDGERS}
    for path in entry_log_files([str(folder / "ledgers")]).values():
        for block in read_entry_log(path):
            assert isinstance(block, SeenBlock)
            ids[block.block.header.ledger_id] += block.block.ids
    assert ids == {ledger_id: list(range(COUNT)) for ledger_id in LEDGERS}


def test_an_undamaged_bookie_has_no_findings(folder: Path) -> None:
    findings, seen = checked(folder)
    assert findings == []
    assert seen.journals > 1
    assert (seen.ledgers, seen.entry_logs) == (2, 1)
    assert seen.batches
    assert seen.blocks == seen.runs > 2


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.95])
def test_a_flipped_byte_of_an_entry_log_is_found_with_the_entries_it_costs(folder: Path, share: float) -> None:
    log = files_of(folder, ".log")[0]
    offset = int(log.stat().st_size * share)
    flip_byte(log, offset)
    findings, seen = checked(folder)
    (finding,) = findings
    assert finding.fault.file == str(log)
    assert finding.fault.offset <= offset < finding.fault.end
    (lost,) = finding.lost
    assert lost.ledger_id in LEDGERS
    assert 0 <= lost.first <= lost.last < COUNT
    assert seen.blocks == seen.runs - 1, "reading goes on behind it"


@pytest.mark.parametrize("share", [0.01, 0.4, 0.9])
def test_a_flipped_byte_of_a_journal_is_found_and_reading_goes_on(folder: Path, share: float) -> None:
    journal = Path(journals_of(folder)[0])
    offset = 64 + int((journal.stat().st_size - 64) * share)
    flip_byte(journal, offset)
    findings, seen = checked(folder)
    assert findings
    assert all(finding.fault.file.startswith(str(folder / "journal")) for finding in findings)
    assert findings[0].fault.offset <= offset < findings[0].fault.end
    assert not findings[0].fault.unfinished
    assert seen.batches


def test_an_unfinished_write_at_the_very_end_is_no_damage(folder: Path) -> None:
    journal = journals_of(folder)[-1]
    os.truncate(journal, os.path.getsize(journal) - 7)
    findings, seen = checked(folder)
    # The mark is behind the place of the cut, so this was not a write that a crash interrupted.
    assert [finding.fault.what.partition(" the mark")[0] for finding in findings] == ["it ends before"]
    assert [(fault.file, fault.unfinished) for fault in seen.unfinished] == [(journal, True)]


def test_a_missing_entry_log_is_named_with_all_that_was_in_it(folder: Path) -> None:
    log = files_of(folder, ".log")[0]
    log.unlink()
    (finding,) = checked(folder)[0]
    assert finding.fault == FileFault(str(log), 0, 0, "the index names this entry log, and it is missing")
    assert {lost.ledger_id for lost in finding.lost} == set(LEDGERS)
    assert LostEntries(5, 0, finding.lost[0].last).first == 0


def test_missing_cookies_marks_and_journals_are_named(folder: Path) -> None:
    (folder / "journal" / "VERSION").unlink()
    (folder / "ledgers" / "VERSION").write_text("nonsense")
    flip_byte(folder / "ledgers" / "lastMark", 20)
    findings = [finding.fault for finding in checked(folder)[0]]
    assert [Path(fault.file).name for fault in findings] == ["VERSION", "VERSION", "lastMark"]


def test_a_missing_journal_is_named(folder: Path) -> None:
    last = journals_of(folder)[-1]
    os.unlink(last)
    findings = [finding.fault for finding in checked(folder)[0]]
    assert any(fault.what == "it goes on in a file that is missing" for fault in findings)
    assert any(fault.file == last and "the mark" in fault.what for fault in findings)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    findings = list(check_files((str(tmp_path / "no"),), (), CheckSummary()))
    assert [finding.fault.what for finding in findings] == ["no such folder"]
