"""The metrics of auto-recovery, with the names and kinds of BookKeeper 4.17.

Inside a bookie `replication_` stands before every name, as with Apache's bookie. Sources: AuditorStats,
ReplicationWorkerStats, AutoRecoveryMain.
"""

from magnetar.server.process.metric_summaries import add_summary
from magnetar.server.process.metric_tables import MetricFamilies
from magnetar.server.programs.bookie.bookie_metrics import MILLISECONDS, QUANTILES, THOUSANDS
from magnetar.storage.repair.auto_recovery import AutoRecovery

MILLIONS = 1e6


def add_recovery(families: MetricFamilies, recovery: AutoRecovery, *, prefix: str = "") -> None:
    """Adds all metrics of auto-recovery. The metrics of the auditor are there in every process, and grow only in the
    one that is the auditor."""
    stats = recovery.stats
    for name, summary, unit in (
        ("auditor_NUM_UNDER_REPLICATED_LEDGERS", stats.under_replicated, THOUSANDS),
        ("auditor_AUDIT_BOOKIES_TIME", stats.audit_times, MILLISECONDS),
        ("auditor_CHECK_ALL_LEDGERS_TIME", stats.check_times, MILLISECONDS),
        ("replication_worker_NUM_BYTES_READ", stats.bytes_read, MILLIONS),
        ("replication_worker_NUM_BYTES_WRITTEN", stats.bytes_written, MILLIONS),
    ):
        add_summary(families, f"{prefix}{name}", summary, QUANTILES, unit, success="true")
    for name, count in (
        ("auditor_NUM_LEDGERS_CHECKED", stats.ledgers_checked),
        ("replication_worker_NUM_ENTRIES_READ", stats.entries_read),
        ("replication_worker_NUM_ENTRIES_WRITTEN", stats.entries_written),
        ("replication_worker_NUM_FULL_OR_PARTIAL_LEDGERS_REPLICATED", stats.ledgers_replicated),
        ("replication_worker_NUM_DEFER_LEDGER_LOCK_RELEASE_OF_FAILED_LEDGER", stats.attempts_failed),
    ):
        families.add(f"{prefix}{name}", "", count, "counter")
    families.add("magnetar_replication_worker_ledgers_held", "", stats.ledgers_held)
    families.add("magnetar_auditor_is_leader", "", int(recovery.auditor is not None))
