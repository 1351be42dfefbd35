"""The metrics of a bookie, with the names of BookKeeper 4.17's PrometheusMetricsProvider.

Metrics of parts that do not exist here are left out. The values are read at each request. Source:
BookKeeperServerStats.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from magnetar.server.programs.bookie.registration_rules import Wanted
from magnetar.storage.bookie.bookie_stats import BookieStats

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

UNREGISTERED = -1


class Sample(NamedTuple):
    name: str
    kind: str
    value: float


def server_status(registered_as: Wanted | None) -> int:
    """Returns 1 for a writable bookie, 0 for a read-only bookie, and -1 for a bookie that is not registered."""
    if registered_as is None:
        return UNREGISTERED
    return int(registered_as is Wanted.WRITABLE)


def samples(
    stats: BookieStats, registered_as: Wanted | None, connections: int, inflight_bytes: int, directories: int
) -> Iterator[Sample]:
    """Yields all samples. `directories` is the number of ledger directories; either all of them are writable or
    all of them are read-only."""
    yield Sample("bookie_SERVER_STATUS", "gauge", server_status(registered_as))
    yield Sample("bookie_ledger_num_dirs", "gauge", directories)
    yield Sample("bookie_ledger_writable_dirs", "gauge", directories if stats.mode == "writable" else 0)
    yield Sample("bookie_ledgers_count", "gauge", stats.ledgers)
    yield Sample("bookie_WRITE_BYTES", "counter", stats.added_bytes)
    yield Sample("bookkeeper_server_ADD_ENTRY_count", "counter", stats.added_entries)
    yield Sample("bookkeeper_server_ADD_ENTRY_REJECTED", "counter", stats.rejected_groups)
    yield Sample("bookkeeper_server_ADD_ENTRY_IN_PROGRESS_bytes", "gauge", inflight_bytes)
    yield Sample("bookkeeper_server_ACTIVE_CHANNELS", "gauge", connections)
    yield Sample("bookie_journal_JOURNAL_SYNC_count", "counter", stats.journal_batches)
    yield Sample("bookie_journal_JOURNAL_WRITE_BYTES", "counter", stats.journal_bytes)
    yield Sample("bookie_journal_JOURNAL_BUSY_SECONDS", "counter", stats.journal_busy_seconds)
    yield Sample("bookie_journal_JOURNAL_QUEUE_BYTES", "gauge", stats.journal_queue_bytes)
    yield Sample("bookie_write_cache_size", "gauge", stats.write_cache_bytes)
    yield Sample("bookie_throttled_write_bytes", "gauge", stats.waiting_adds_bytes)
    yield Sample("bookie_flush_count", "counter", stats.checkpoints)
    yield Sample("bookie_read_cache_size", "gauge", stats.read_ahead_cache_bytes)
    yield Sample("bookie_read_cache_hits_count", "counter", stats.read_cache_hits)
    yield Sample("bookie_read_cache_misses_count", "counter", stats.read_cache_misses)
    yield Sample("bookie_gc_ACTIVE_ENTRY_LOG_COUNT", "gauge", stats.entry_logs)
    yield Sample("bookie_entry_log_WRITE_BYTES", "counter", stats.entry_log_bytes_written)
    yield Sample("bookie_gc_RECLAIMED_DELETION_SPACE_BYTES", "counter", stats.reclaimed_bytes)
    yield Sample("bookie_gc_COMPACTED_BYTES", "counter", stats.compacted_bytes)
    if stats.disk_used_share is not None:
        yield Sample("bookie_ledger_dir_usage", "gauge", 100 * stats.disk_used_share)


def text(found: Iterable[Sample]) -> str:
    """Returns the page in Prometheus's text format."""
    return "".join(f"# TYPE {sample.name} {sample.kind}\n{sample.name} {sample.value:g}\n" for sample in found)
