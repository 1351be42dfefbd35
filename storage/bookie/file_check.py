"""Finds damaged and missing records in a bookie's files, and says which entries are lost (`magnetar bk`).

Everything on disk either has a checksum or is named by another record: batches and blocks have a CRC32C, the index
names the entries, and the mark names the journal positions at which replay begins. Entries that are damaged on this
bookie can still be read from other bookies; the command `magnetar bk recover` copies them again."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from magnetar.storage.bookie.bookie_errors import BookieStartError, IndexFailure
from magnetar.storage.bookie.cookie import FILE_NAME, parse_cookie
from magnetar.storage.bookie.entry_index import EntryIndex
from magnetar.storage.bookie.file_inspection import (
    FileFault,
    SeenBatch,
    entry_log_files,
    journal_files,
    read_entry_log,
    read_journals,
)
from magnetar.storage.bookie.index_runs import IndexRun
from magnetar.storage.bookie.journal_replay import journal_path
from magnetar.storage.bookie.last_mark import LastMarkFile

OnProgress = Callable[[int, int], None]
"""The check calls this function with the number of checked files and the number of all files."""


class LostEntries(NamedTuple):
    """The entries from `first` to `last`: the index names them, but they cannot be read."""

    ledger_id: int
    first: int
    last: int


class FileFinding(NamedTuple):
    """A damaged place in a file, and the entries that were lost by the damage."""

    fault: FileFault
    lost: tuple[LostEntries, ...] = ()


@dataclass(slots=True)
class CheckSummary:
    """How much was checked. `check_files` fills this object while it runs."""

    journals: int = 0
    batches: int = 0
    entry_logs: int = 0
    blocks: int = 0
    ledgers: int = 0
    runs: int = 0
    unfinished: list[FileFault] = field(default_factory=list)


def check_files(
    journals: tuple[str, ...],
    ledgers: tuple[str, ...],
    seen: CheckSummary,
    progress: OnProgress = lambda done, total: None,
) -> Iterator[FileFinding]:
    """Checks all files of a bookie's folders and yields a finding for each damaged place. Fills `seen` on the way.
    Raises OSError.

    The bookie may run meanwhile: an entry log that compaction deletes during the check is no finding.
    """
    folders = [folder for folder in (*journals, *ledgers) if os.path.isdir(folder)]
    yield from (
        FileFinding(FileFault(folder, 0, 0, "no such folder"))
        for folder in (*journals, *ledgers)
        if folder not in folders
    )
    yield from _check_cookies(folders)
    by_folder = journal_files([folder for folder in journals if folder in folders])
    logs = entry_log_files([folder for folder in ledgers if folder in folders])
    total = sum(map(len, by_folder)) + len(logs)
    yield from _check_journals(by_folder, seen, progress, total)
    if ledgers and ledgers[0] in folders:
        yield from _check_mark(ledgers[0], journals)
        runs: dict[int, list[tuple[int, IndexRun]]] = {}
        yield from _read_index(os.path.join(ledgers[0], "index"), runs, seen)
        yield from _check_entry_logs(logs, runs, seen, progress, total)
        yield from _check_missing_logs(logs, runs, ledgers[0])


def _check_cookies(folders: list[str]) -> Iterator[FileFinding]:
    for folder in dict.fromkeys(folders):
        path = os.path.join(folder, FILE_NAME)
        try:
            with open(path, "rb") as file:
                parse_cookie(file.read())
        except FileNotFoundError:
            yield FileFinding(FileFault(path, 0, 0, "there is no cookie"))
        except ValueError as error:
            yield FileFinding(FileFault(path, 0, 0, f"the cookie cannot be read: {error}"))


def _check_journals(
    by_folder: list[list[str]], seen: CheckSummary, progress: OnProgress, total: int
) -> Iterator[FileFinding]:
    for files in by_folder:
        seen.journals += len(files)
        last = ""
        for found in read_journals(files):
            if isinstance(found, SeenBatch):
                seen.batches += 1
                if found.file != last:
                    last = found.file
                    progress(files.index(last) + 1, total)
            elif found.unfinished:
                seen.unfinished.append(found)
            else:
                yield FileFinding(found)


def _check_mark(first_ledgers: str, journals: tuple[str, ...]) -> Iterator[FileFinding]:
    path = os.path.join(first_ledgers, "lastMark")
    try:
        mark = LastMarkFile(path).load()
    except BookieStartError as error:
        yield FileFinding(FileFault(path, 0, 0, str(error)))
        return
    if mark is None or len(mark.positions) != len(journals):
        return
    for folder, position in zip(journals, mark.positions, strict=True):
        file = journal_path(folder, position.journal_id)
        size = os.path.getsize(file) if os.path.exists(file) else -1
        if size < 0 and position.offset:
            yield FileFinding(FileFault(file, 0, 0, f"the mark {path} names this journal, and it is missing"))
        elif 0 <= size < position.offset:
            yield FileFinding(FileFault(file, size, position.offset, f"it ends before the mark {path}"))


def _read_index(path: str, runs: dict[int, list[tuple[int, IndexRun]]], seen: CheckSummary) -> Iterator[FileFinding]:
    """Fills `runs` with all runs of the index: (ledger id, run) by log id."""
    if not os.path.isdir(path):
        return
    try:
        index = EntryIndex(path, read_only=True)
        try:
            seen.ledgers = sum(1 for _ in index.ledger_states())
            for ledger_id, run in index.runs():
                seen.runs += 1
                runs.setdefault(run.log_id, []).append((ledger_id, run))
        finally:
            index.close()
    except (BookieStartError, IndexFailure) as error:
        yield FileFinding(FileFault(path, 0, 0, f"the index cannot be read to its end: {error}"))


def _check_entry_logs(
    logs: dict[int, str],
    runs: dict[int, list[tuple[int, IndexRun]]],
    seen: CheckSummary,
    progress: OnProgress,
    total: int,
) -> Iterator[FileFinding]:
    for number, (log_id, path) in enumerate(logs.items(), start=total - len(logs) + 1):
        progress(number, total)
        seen.entry_logs += 1
        promised = sorted(runs.get(log_id, ()), key=lambda item: item[1].offset)
        blocks: dict[int, tuple[int, int, int]] = {}
        faults: list[FileFault] = []
        try:
            for found in read_entry_log(path):
                if isinstance(found, FileFault):
                    faults.append(found)
                else:
                    seen.blocks += 1
                    blocks[found.offset] = (found.block.header.ledger_id, found.block.ids[0], found.block.ids[-1])
        except FileNotFoundError:
            continue  # Compaction deleted the log after it was listed.
        lost: dict[FileFault, list[LostEntries]] = {fault: [] for fault in faults}
        for ledger_id, run in promised:
            block = blocks.get(run.offset)
            if block is not None and block[0] == ledger_id and block[1] <= run.first and run.last <= block[2]:
                continue
            end = run.offset + run.length
            fault = next(
                (one for one in faults if one.offset < end and run.offset < max(one.end, one.offset + 1)), None
            )
            if fault is None:
                fault = FileFault(path, run.offset, end, "the index names another block than stands here")
            lost.setdefault(fault, []).append(LostEntries(ledger_id, run.first, run.last))
        for fault, entries in lost.items():
            if fault.unfinished and not entries:
                seen.unfinished.append(fault)
            else:
                yield FileFinding(fault, tuple(entries))


def _check_missing_logs(
    logs: dict[int, str], runs: dict[int, list[tuple[int, IndexRun]]], first_ledgers: str
) -> Iterator[FileFinding]:
    for log_id in sorted(runs.keys() - logs.keys()):
        path = os.path.join(first_ledgers, f"{log_id:08x}.log")
        lost = tuple(LostEntries(ledger_id, run.first, run.last) for ledger_id, run in runs[log_id])
        yield FileFinding(FileFault(path, 0, 0, "the index names this entry log, and it is missing"), lost)
