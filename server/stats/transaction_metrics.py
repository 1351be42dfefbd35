"""The metrics of transaction coordinators. Names and labels are those of Pulsar 4.0.7 (TransactionAggregator,
TransactionBufferClientStatsImpl), except that a bucket of lifetimes counts since the coordinator was loaded, not within
a period."""

from itertools import pairwise

from magnetar.server.process.metric_summaries import add_summary
from magnetar.server.process.metric_tables import MetricFamilies
from magnetar.server.transactions.coordinator import TransactionCoordinator
from magnetar.server.transactions.coordinators import TransactionCoordinators
from magnetar.server.transactions.end_calls import EndCalls

QUANTILES = (0.5, 0.9, 0.99, 0.999)
MILLISECONDS = 1000.0


def add_transactions(families: MetricFamilies, coordinators: TransactionCoordinators) -> None:
    """Adds the metrics of the coordinators that this broker runs."""
    for _, coordinator in sorted(coordinators.loaded.items()):
        _add_coordinator(families, coordinator)
    _add_calls(families, coordinators.calls)


def _add_coordinator(families: MetricFamilies, coordinator: TransactionCoordinator) -> None:
    labels = families.labels(coordinator_id=str(coordinator.coordinator_id))
    counters = coordinator.counters
    families.add("pulsar_txn_active_count", labels, len(coordinator.table))
    totals = {
        "created": counters.created,
        "committed": counters.committed,
        "aborted": counters.aborted,
        "timeout": counters.timed_out,
        "append_log": coordinator.log.appended,
    }
    families.add_all(labels, ((f"pulsar_txn_{name}_total", value) for name, value in totals.items()), "counter")
    lifetimes = counters.lifetimes_ms
    buckets = [*map(str, lifetimes.bounds), "overflow"]
    for bucket, (before, upto) in zip(buckets, pairwise([0, *lifetimes.cumulative()]), strict=True):
        families.add(f"pulsar_txn_execution_latency_le_{bucket}", labels, upto - before)


def _add_calls(families: MetricFamilies, calls: EndCalls) -> None:
    """Adds how topics and subscriptions were told of ends."""
    labels = families.labels()
    for commit, name in ((True, "commit"), (False, "abort")):
        families.add(f"pulsar_txn_tb_client_{name}_failed_total", labels, calls.failed[commit], "counter")
        add_summary(families, f"pulsar_txn_tb_client_{name}_latency", calls.latencies[commit], QUANTILES, MILLISECONDS)
    families.add("pulsar_txn_tb_client_pending_requests", labels, calls.pending)
