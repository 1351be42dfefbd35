"""The metrics of a bookie, with the names, labels and kinds of BookKeeper 4.17's PrometheusMetricsProvider.

The values are read at each request. A group of adds is counted once, not each of its entries, and latencies are those
of `storage/bookie/bookie_latencies`. The storage is one for all ledger directories, so the label `ledgerDir` names all
of them. Sources: BookKeeperServerStats, JournalStats, DbLedgerStorageStats, GarbageCollectorStats.
"""

import shutil
from collections.abc import Sequence

from magnetar.server.process.metric_summaries import add_summary
from magnetar.server.process.metric_tables import MetricFamilies, label_text
from magnetar.server.programs.bookie.registration_rules import Wanted
from magnetar.storage.bookie.bookie_latencies import Latencies
from magnetar.storage.bookie.bookie_stats import BookieStats, JournalStats

UNREGISTERED = -1

QUANTILES = (0.5, 0.75, 0.95, 0.99, 0.999, 0.9999, 1.0)
MILLISECONDS = 1000.0
THOUSANDS = 1000.0

EXECUTORS = ("BookieReadThreadPool", "BookieWriteThreadPool", "BookieHighPriorityThreadPool")
"""Thread pools of Apache's bookie. Requests do not queue for threads here, so their queues are always empty."""


def server_status(registered_as: Wanted | None) -> int:
    """Returns 1 for a writable bookie, 0 for a read-only bookie, and -1 for a bookie that is not registered."""
    if registered_as is None:
        return UNREGISTERED
    return int(registered_as is Wanted.WRITABLE)


def usage_name(directory: str) -> str:
    """Returns the name of the metric of a directory's usage: each character but letters, digits and `_` becomes `_`."""
    path = "".join(each if each.isalnum() and each.isascii() else "_" for each in directory)
    return f"bookie_ledger_dir_{path}_usage"


def directory_usages(directories: Sequence[str]) -> dict[str, float]:
    """Returns how many percent of each directory's disk are used. A directory that cannot be measured is left out.
    Blocks."""
    usages = {}
    for directory in directories:
        try:
            total, _, free = shutil.disk_usage(directory)
        except OSError:
            continue
        usages[directory] = 100 * (1 - free / total) if total else 0.0
    return usages


def add_outcomes(families: MetricFamilies, name: str, latencies: Latencies, **labels: str) -> None:
    """Adds the latencies of what succeeded and of what failed, in milliseconds."""
    for success, summary in (("false", latencies.failed), ("true", latencies.ok)):
        add_summary(families, name, summary, QUANTILES, MILLISECONDS, **labels, success=success)


def add_bookie(
    families: MetricFamilies,
    stats: BookieStats,
    registered_as: Wanted | None,
    connections: int,
    inflight_bytes: int,
    directories: Sequence[str],
) -> None:
    """Adds all metrics of the bookie but the usages of its directories."""
    writable = len(directories) if stats.mode == "writable" else 0
    families.add_all(
        "",
        (
            ("bookie_SERVER_STATUS", server_status(registered_as)),
            ("bookie_ledger_num_dirs", len(directories)),
            ("bookie_ledger_writable_dirs", writable),
            ("bookie_throttled_write_bytes", stats.waiting_adds_bytes),
            ("bookkeeper_server_ACTIVE_CHANNELS", connections),
        ),
    )
    if stats.disk_used_share is not None:
        families.add("bookie_ledger_dir_usage", "", 100 * stats.disk_used_share)
    _add_requests(families, stats, inflight_bytes)
    for index, journal in enumerate(stats.journals):
        _add_journal(families, str(index), journal)
    families.add("bookie_journal_JOURNAL_QUEUE_BYTES", "", stats.journal_queue_bytes)
    paths = ",".join(directories)
    _add_storage(families, stats, label_text(ledgerDir=paths, indexDir=paths))
    labels = {"ledgerDir": paths, "indexDir": paths, "success": "true"}
    add_summary(families, "bookie_readahead_batch_count", stats.read_batch_sizes, QUANTILES, THOUSANDS, **labels)
    add_outcomes(families, "bookie_read_entry", stats.read_latencies, ledgerDir=paths, indexDir=paths)


def _add_requests(families: MetricFamilies, stats: BookieStats, inflight_bytes: int) -> None:
    for name in ("ADD_ENTRY", "ADD_ENTRY_REQUEST"):
        add_outcomes(families, f"bookkeeper_server_{name}", stats.add_latencies)
    for name in ("READ_ENTRY", "READ_ENTRY_REQUEST"):
        add_outcomes(families, f"bookkeeper_server_{name}", stats.read_latencies)
    families.add_all(
        "",
        (
            ("bookkeeper_server_ADD_ENTRY_IN_PROGRESS", stats.adds_in_progress),
            ("bookkeeper_server_ADD_ENTRY_BLOCKED", stats.adds_waiting),
            ("bookkeeper_server_READ_ENTRY_IN_PROGRESS", stats.reads_in_progress),
            ("bookkeeper_server_READ_ENTRY_BLOCKED", stats.reads_waiting),
            ("bookkeeper_server_ADD_ENTRY_IN_PROGRESS_bytes", inflight_bytes),
        ),
    )
    families.add("bookkeeper_server_ADD_ENTRY_REJECTED", "", stats.rejected_groups, "counter")
    for executor in EXECUTORS:
        families.add("bookkeeper_server_thread_executor_queue", label_text(thread=executor), 0)
    families.add("bookie_WRITE_BYTES", "", stats.added_bytes, "counter")
    families.add("bookie_READ_BYTES", "", stats.read_bytes, "counter")


def _add_journal(families: MetricFamilies, index: str, journal: JournalStats) -> None:
    latencies, labels = journal.latencies, label_text(journalIndex=index)
    add_outcomes(families, "bookie_journal_JOURNAL_SYNC", latencies.sync, journalIndex=index)
    add_outcomes(families, "bookie_journal_JOURNAL_ADD_ENTRY", latencies.add, journalIndex=index)
    add_outcomes(families, "bookie_journal_JOURNAL_QUEUE_LATENCY", latencies.queue, journalIndex=index)
    families.add_all(
        labels,
        (
            ("bookie_journal_JOURNAL_QUEUE_SIZE", journal.queued_groups),
            ("bookie_journal_JOURNAL_FORCE_WRITE_QUEUE_SIZE", int(journal.is_writing)),
            ("bookie_journal_JOURNAL_CB_QUEUE_SIZE", 0),
        ),
    )
    families.add("bookie_journal_JOURNAL_WRITE_BYTES", labels, journal.bytes_written, "counter")
    families.add("bookie_journal_JOURNAL_BUSY_SECONDS", labels, journal.busy_seconds, "counter")


def _add_storage(families: MetricFamilies, stats: BookieStats, labels: str) -> None:
    """Adds the metrics of the storage. The names that end in `_COUNT`, `_hits_count` and `_misses_count` are those of
    older bookies, which some dashboards still ask for."""
    families.add_all(
        labels,
        (
            ("bookie_ledgers_count", stats.ledgers),
            ("bookie_entries_count", stats.entries),
            ("bookie_write_cache_size", stats.write_cache_bytes),
            ("bookie_read_cache_size", stats.read_ahead_cache_bytes),
            ("bookie_ACTIVE_ENTRY_LOG_TOTAL", stats.entry_logs),
            ("bookie_ACTIVE_LEDGER_TOTAL", stats.ledgers),
            ("bookie_ACTIVE_ENTRY_LOG_COUNT", stats.entry_logs),
            ("bookie_ACTIVE_LEDGER_COUNT", stats.ledgers),
        ),
    )
    families.add_all(
        labels,
        (
            ("bookie_read_cache_hits", stats.read_cache_hits),
            ("bookie_read_cache_misses", stats.read_cache_misses),
            ("bookie_DELETED_LEDGER_TOTAL", stats.ledgers_deleted),
            ("bookie_MINOR_COMPACTION_TOTAL", stats.minor_compactions),
            ("bookie_MAJOR_COMPACTION_TOTAL", stats.major_compactions),
            ("bookie_RECLAIMED_COMPACTION_SPACE_BYTES", stats.reclaimed_by_compaction_bytes),
            (
                "bookie_RECLAIMED_DELETION_SPACE_BYTES",
                stats.reclaimed_bytes - stats.reclaimed_by_compaction_bytes,
            ),
            ("bookie_read_cache_hits_count", stats.read_cache_hits),
            ("bookie_read_cache_misses_count", stats.read_cache_misses),
            ("bookie_DELETED_LEDGER_COUNT", stats.ledgers_deleted),
            ("bookie_MINOR_COMPACTION_COUNT", stats.minor_compactions),
            ("bookie_MAJOR_COMPACTION_COUNT", stats.major_compactions),
            ("bookie_flush_count", stats.checkpoints),
            ("bookie_entry_log_WRITE_BYTES", stats.entry_log_bytes_written),
            ("bookie_gc_COMPACTED_BYTES", stats.compacted_bytes),
        ),
        "counter",
    )
