"""Gives disk space back: entry logs without live ledgers are deleted, and logs with few live bytes are compacted.

Everything here runs on the flush thread, in short steps, so that checkpoints come in between. A ledger is deleted by
the deletion of its record in the metadata; `Maintenance` finds out which ledgers are gone and hands them to `forget`.
"""

import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from magnetar.storage.bookie.bookie_errors import EntryLogDamaged
from magnetar.storage.bookie.entry_index import EntryIndex
from magnetar.storage.bookie.entry_log_format import FILE_HEADER_SIZE, Block
from magnetar.storage.bookie.entry_log_scan import LogLayout, blocks_between, layout_of
from magnetar.storage.bookie.entry_log_writer import EntryLogWriter
from magnetar.storage.bookie.entry_logs import EntryLogs
from magnetar.storage.bookie.index_runs import IndexRun

log = logging.getLogger(__name__)

COMPACTED = "compacted"
_STEP_BYTES = 4 << 20
"""The number of bytes that one step of compaction reads. A checkpoint waits for one step at most."""


class LogUsage(NamedTuple):
    """The size of a log's blocks, and how many of these bytes belong to live ledgers."""

    log_id: int
    live_bytes: int
    total_bytes: int


def logs_to_compact(usages: Iterable[LogUsage], threshold: float) -> list[LogUsage]:
    """Returns the logs whose live share is below the threshold, the emptiest log first, because it gives back the most
    room for the least copying."""
    chosen = [usage for usage in usages if 0 < usage.live_bytes < threshold * usage.total_bytes]
    return sorted(chosen, key=lambda usage: usage.live_bytes / usage.total_bytes)


class GarbageCollector:
    """Deletes and compacts entry logs. All methods run on the flush thread."""

    def __init__(
        self, index: EntryIndex, logs: EntryLogs, writer: EntryLogWriter, is_live: Callable[[int], bool]
    ) -> None:
        """`is_live(ledger_id)` is asked on the flush thread, so it must answer from memory."""
        self._index = index
        self._logs = logs
        self._writer = writer
        self._is_live = is_live
        self._layouts: dict[int, LogLayout] = {}
        self._damaged: set[int] = set()
        self.reclaimed_bytes = 0
        self.compacted_bytes = 0
        self.reclaimed_by_compaction_bytes = 0
        """The part of `reclaimed_bytes` that compacted logs had."""

    def forget(self, ledger_ids: Iterable[int]) -> None:
        """Deletes ledgers from the index, durably. Raises IndexFailure."""
        self._index.delete_ledgers(ledger_ids)

    def delete_dead_logs(self, compaction_threshold: float = 0.0) -> list[LogUsage]:
        """Deletes the logs without live ledgers, and returns the usage of all remaining closed logs. Raises OSError.

        The current log is closed when none of its ledgers is live, so that it can be deleted. If it has _STEP_BYTES or
        more, it is also closed when its live share is below the threshold, so that it can be compacted.
        """
        self._close_idle_current_log(compaction_threshold)
        usages: list[LogUsage] = []
        for log_id in self._logs.ids():
            if log_id == self._writer.log_id or log_id in self._writer.unindexed or log_id in self._damaged:
                continue
            usage = self._usage(log_id)
            if usage is None:
                continue
            if usage.live_bytes == 0:
                self._delete(log_id, "no live ledger")
            else:
                usages.append(usage)
        return usages

    def compact_step(self, log_id: int, offset: int) -> int | None:
        """Copies the live blocks of one part of a log, from `offset` on. Returns the offset to go on with, or None when
        all blocks were copied and the log is deleted. Returns `offset` itself while a failed checkpoint waits to be
        repeated.

        `log_id` is an id that `delete_dead_logs` returned; the first offset is FILE_HEADER_SIZE. Raises
        EntryLogDamaged: the log then stays as it is until a restart. Raises IndexFailure and OSError, for example for
        lack of room: the caller may begin again later.
        """
        if self._writer.unindexed:
            return offset
        end = self._layouts[log_id].end
        try:
            blocks, following = blocks_between(self._logs, log_id, offset, end, _STEP_BYTES)
        except EntryLogDamaged as error:
            log.error("compaction: %s; the log is kept as it is", error)
            self._damaged.add(log_id)
            raise
        self._copy_live(log_id, blocks)
        if following < end:
            return following
        self._delete(log_id, COMPACTED)
        return None

    def _copy_live(self, log_id: int, blocks: list[tuple[int, Block]]) -> None:
        """Copies the blocks to which the index still points, syncs the copies, and points the index to the copies. With
        this order the work may stop at any point, because the old blocks stay until the whole log is deleted."""
        moves: list[tuple[int, IndexRun, IndexRun]] = []
        try:
            for offset, block in blocks:
                ledger_id, total = block.header.ledger_id, block.header.total
                if not self._is_live(ledger_id):
                    continue
                old = IndexRun(block.ids[0], block.ids[-1], log_id, offset, total, False)
                if self._index.points_to(ledger_id, old):
                    moves.append((ledger_id, old, self._writer.copy(block)))
                    self.compacted_bytes += total
            self._writer.finish()
        except OSError:
            self._writer.abort()
            raise
        self._index.move_blocks(moves)
        self._writer.indexed()

    def _usage(self, log_id: int) -> LogUsage | None:
        """Returns a log's usage, or None for a damaged log, which cannot be judged. Ledgers that are gone are dropped
        from the remembered layout, since they do not come back."""
        layout = self._layouts.get(log_id)
        if layout is None:
            try:
                layout = layout_of(self._logs, log_id)
            except EntryLogDamaged as error:
                log.error("garbage collection: %s; the log is kept", error)
                self._damaged.add(log_id)
                return None
        live = {ledger_id: size for ledger_id, size in layout.ledgers.items() if self._is_live(ledger_id)}
        self._layouts[log_id] = LogLayout(live, layout.end)
        return LogUsage(log_id, sum(live.values()), layout.end - FILE_HEADER_SIZE)

    def _close_idle_current_log(self, threshold: float) -> None:
        ledgers = self._writer.ledgers()
        total = sum(ledgers.values())
        live = sum(size for ledger_id, size in ledgers.items() if self._is_live(ledger_id))
        idle = live == 0 or (total >= _STEP_BYTES and live < threshold * total)
        if self._writer.log_id is not None and total and idle:
            self._writer.close_log()

    def _delete(self, log_id: int, why: str) -> None:
        path = self._logs.path(log_id)
        size = self._logs.delete(log_id)
        self._layouts.pop(log_id, None)
        self.reclaimed_bytes += size
        if why == COMPACTED:
            self.reclaimed_by_compaction_bytes += size
        log.info("entry log %s deleted (%s), %d bytes", path, why, size)
