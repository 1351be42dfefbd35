"""Reads consecutive entries from the entry logs, on executor threads.

A read asks the index for the runs, reads the blocks of adjacent runs at once, verifies them and extracts the entries.
"""

from contextlib import suppress

from magnetar.storage.bookie.bookie_errors import EntryLogDamaged, EntryLogGone
from magnetar.storage.bookie.entry_index import EntryIndex
from magnetar.storage.bookie.entry_log_format import Block
from magnetar.storage.bookie.entry_logs import EntryLogs
from magnetar.storage.bookie.index_runs import IndexRun, ranges_of


class EntryLogReader:
    """Finds and reads entries; its methods may be called from several threads."""

    def __init__(self, index: EntryIndex, logs: EntryLogs) -> None:
        self._index = index
        self._logs = logs

    def read(self, ledger_id: int, first_entry_id: int, span_bytes: int) -> list[bytes]:
        """Returns consecutive entries from `first_entry_id` on: those in the first entry's block, and those in the
        following blocks of the log, as long as all blocks together have at most `span_bytes`. The list is empty when
        there is no such entry.

        Raises IndexFailure, OSError, and EntryLogDamaged when the first block is damaged or its file is missing.
        """
        try:
            return self._read(ledger_id, first_entry_id, span_bytes)
        except EntryLogGone:
            # Compaction moved the block after the look-up. By now the index knows the new place.
            try:
                return self._read(ledger_id, first_entry_id, span_bytes)
            except EntryLogGone as error:
                raise EntryLogDamaged(str(error), 0, "the file is missing") from None

    def last_entry_id(self, ledger_id: int) -> int | None:
        """Returns the ledger's highest entry id in the logs, or None. Raises IndexFailure."""
        run = self._index.last_run(ledger_id)
        return run.last if run is not None else None

    def ids_of(self, run: IndexRun) -> list[int]:
        """Returns the ids of the entries in a run's block. For an unreadable block it returns all ids of the run's
        interval, so that later reads report the damage and not a gap."""
        try:
            return list(self._logs.read_block(run.log_id, run.offset, run.length).ids)
        except (EntryLogDamaged, EntryLogGone):
            return list(range(run.first, run.last + 1))

    def id_runs(self, ledger_id: int) -> list[range]:
        """Returns the ids of all of the ledger's entries in the logs, ascending. Unreadable blocks with gaps are left
        out. Raises IndexFailure, OSError."""
        found: list[range] = []
        for run in self._index.overlapping(ledger_id, -(1 << 63), (1 << 63) - 1):
            if run.dense:
                found.append(range(run.first, run.last + 1))
                continue
            with suppress(EntryLogDamaged, EntryLogGone):
                ids = self._logs.read_block(run.log_id, run.offset, run.length).ids
                found += ranges_of([entry_id for entry_id in ids if run.first <= entry_id <= run.last])
        return found

    def _read(self, ledger_id: int, first_entry_id: int, span_bytes: int) -> list[bytes]:
        runs = self._index.lookup(ledger_id, first_entry_id, span_bytes)
        if not runs or runs[0].first > first_entry_id:
            return []
        runs = _adjacent(runs)
        start = runs[0].offset
        try:
            data = self._logs.read(runs[0].log_id, start, runs[-1].offset + runs[-1].length - start)
        except EntryLogDamaged:
            # The file is too short, but perhaps only for the blocks after the first block.
            runs = runs[:1]
            data = self._logs.read(runs[0].log_id, start, runs[0].length)
        entries: list[bytes] = []
        for run in runs:
            try:
                block = self._logs.parse(run.log_id, start, data, run.offset - start)
                wanted = first_entry_id + len(entries)
                found = self._slice(block, run, ledger_id, wanted)
            except EntryLogDamaged:
                if not entries:
                    raise
                break
            entries.extend(found)
            if first_entry_id + len(entries) <= run.last:
                break
        return entries

    def _slice(self, block: Block, run: IndexRun, ledger_id: int, entry_id: int) -> list[bytes]:
        """Returns the consecutive entries of the run from `entry_id` on. Raises EntryLogDamaged when `block` is not the
        block that the index describes."""
        ids = block.ids
        if block.header.ledger_id != ledger_id or run.last not in ids:
            what = f"the block holds entries {ids[0]} to {ids[-1]} of ledger {block.header.ledger_id}"
            wanted = f"not {run.first} to {run.last} of ledger {ledger_id}"
            raise EntryLogDamaged(self._logs.path(run.log_id), run.offset, f"{what}, {wanted}")
        if entry_id not in ids:
            return []
        start = ids.index(entry_id)
        if isinstance(ids, range):
            return block.entries(start, run.last - ids.start + 1)
        end = start
        while end < len(ids) and ids[end] <= run.last and ids[end] - ids[start] == end - start:
            end += 1
        return block.entries(start, end)


def _adjacent(runs: list[IndexRun]) -> list[IndexRun]:
    """Returns the leading runs that follow one another without a gap, both in the log and in their ids, so that one
    read gets the blocks of all of them."""
    for index in range(1, len(runs)):
        before, run = runs[index - 1], runs[index]
        follows = run.log_id == before.log_id and run.offset == before.offset + before.length
        if not follows or run.first != before.last + 1:
            return runs[:index]
    return runs
