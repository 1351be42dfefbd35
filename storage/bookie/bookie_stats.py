"""The statistics of a bookie. `server/programs/bookie/bookie_metrics.py` publishes them under the names of Apache's
bookie."""

from collections.abc import Sequence
from typing import NamedTuple

from magnetar.storage.bookie.add_path import AddPath
from magnetar.storage.bookie.bookie_latencies import Latencies
from magnetar.storage.bookie.bookie_opening import OpenedStorage
from magnetar.storage.bookie.checkpoint import Checkpointer
from magnetar.storage.bookie.garbage_collector import GarbageCollector
from magnetar.storage.bookie.journal import Journal, JournalLatencies
from magnetar.storage.bookie.maintenance import Maintenance
from magnetar.storage.bookie.read_ahead import ReadAheadCache
from magnetar.storage.bookie.read_path import ReadPath
from pulsar_proto.latency_summary import LatencySummary


class JournalStats(NamedTuple):
    """The counters of one journal."""

    batches: int
    bytes_written: int
    busy_seconds: float
    queued_groups: int
    is_writing: bool
    latencies: JournalLatencies


class BookieStats(NamedTuple):
    """Counters since the start, and the present amounts of data in memory and on disk. Sizes are bytes."""

    mode: str
    ledgers: int
    entries: int
    """About how many entries the bookie has."""
    added_entries: int
    added_bytes: int
    adds_in_progress: int
    """The groups of adds in the queues of the journals; the groups of the batch that is being written count as one."""
    adds_waiting: int
    rejected_groups: int
    add_latencies: Latencies
    read_bytes: int
    reads_in_progress: int
    reads_waiting: int
    read_latencies: Latencies
    read_batch_sizes: LatencySummary
    """The reads from the logs by their number of entries, in thousands."""
    journals: tuple[JournalStats, ...]
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
    reclaimed_by_compaction_bytes: int
    compacted_bytes: int
    ledgers_deleted: int
    minor_compactions: int
    major_compactions: int
    disk_used_share: float | None


def collect_stats(
    adds: AddPath,
    reads: ReadPath,
    journals: Sequence[Journal],
    opened: OpenedStorage,
    checkpointer: Checkpointer,
    collector: GarbageCollector,
    read_ahead: ReadAheadCache,
    maintenance: Maintenance,
) -> BookieStats:
    """Reads the counters of a bookie's parts."""
    usage = maintenance.usage
    return BookieStats(
        mode=adds.mode.value,
        ledgers=len(opened.states),
        entries=checkpointer.flusher.entries_on_disk + opened.cache.entries,
        added_entries=adds.added_entries,
        added_bytes=adds.added_bytes,
        adds_in_progress=sum(journal.queued_groups + journal.is_writing for journal in journals),
        adds_waiting=adds.groups_waiting,
        rejected_groups=adds.rejected_groups,
        add_latencies=adds.latencies,
        read_bytes=reads.read_bytes,
        reads_in_progress=reads.in_progress,
        reads_waiting=reads.waiting,
        read_latencies=reads.latencies,
        read_batch_sizes=reads.batch_sizes,
        journals=tuple(map(_journal_stats, journals)),
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
        reclaimed_by_compaction_bytes=collector.reclaimed_by_compaction_bytes,
        compacted_bytes=collector.compacted_bytes,
        ledgers_deleted=maintenance.ledgers_deleted,
        minor_compactions=maintenance.minor_compactions,
        major_compactions=maintenance.major_compactions,
        disk_used_share=usage.used_share if usage is not None else None,
    )


def _journal_stats(journal: Journal) -> JournalStats:
    return JournalStats(
        journal.batches,
        journal.bytes_written,
        journal.busy_seconds,
        journal.queued_groups,
        journal.is_writing,
        journal.latencies,
    )
