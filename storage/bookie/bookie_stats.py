"""The statistics of a bookie. `server/programs/bookie/bookie_metrics.py` publishes them under the names of Apache's
bookie."""

from collections.abc import Sequence
from typing import NamedTuple

from magnetar.storage.bookie.add_path import AddPath
from magnetar.storage.bookie.bookie_opening import OpenedStorage
from magnetar.storage.bookie.checkpoint import Checkpointer
from magnetar.storage.bookie.disks import DiskUsage
from magnetar.storage.bookie.garbage_collector import GarbageCollector
from magnetar.storage.bookie.journal import Journal
from magnetar.storage.bookie.read_ahead import ReadAheadCache
from magnetar.storage.bookie.read_path import ReadPath


class BookieStats(NamedTuple):
    """Counters since the start, and the present amounts of data in memory and on disk. Sizes are bytes."""

    mode: str
    ledgers: int
    added_entries: int
    added_bytes: int
    rejected_groups: int
    journal_batches: int
    journal_bytes: int
    journal_busy_seconds: float
    journal_queue_bytes: int
    write_cache_bytes: int
    waiting_adds_bytes: int
    checkpoints: int
    entry_logs: int
    entry_log_bytes_written: int
    read_cache_hits: int
    read_cache_misses: int
    read_ahead_cache_bytes: int
    reclaimed_bytes: int
    compacted_bytes: int
    disk_used_share: float | None


def collect_stats(
    adds: AddPath,
    reads: ReadPath,
    journals: Sequence[Journal],
    opened: OpenedStorage,
    checkpointer: Checkpointer,
    collector: GarbageCollector,
    read_ahead: ReadAheadCache,
    usage: DiskUsage | None,
) -> BookieStats:
    """Reads the counters of a bookie's parts. `usage` is the last measurement of the bookie's disks, or None before the
    first measurement."""
    return BookieStats(
        mode=adds.mode.value,
        ledgers=len(opened.states),
        added_entries=adds.added_entries,
        added_bytes=adds.added_bytes,
        rejected_groups=adds.rejected_groups,
        journal_batches=sum(journal.batches for journal in journals),
        journal_bytes=sum(journal.bytes_written for journal in journals),
        journal_busy_seconds=sum(journal.busy_seconds for journal in journals),
        journal_queue_bytes=adds.pending_bytes,
        write_cache_bytes=opened.cache.size,
        waiting_adds_bytes=adds.waiting_bytes,
        checkpoints=checkpointer.completed,
        entry_logs=len(opened.logs.ids()),
        entry_log_bytes_written=opened.writer.bytes_written,
        read_cache_hits=reads.cache_hits,
        read_cache_misses=reads.cache_misses,
        read_ahead_cache_bytes=read_ahead.size,
        reclaimed_bytes=collector.reclaimed_bytes,
        compacted_bytes=collector.compacted_bytes,
        disk_used_share=usage.used_share if usage is not None else None,
    )
