"""The metrics of transaction coordinators, and of the logs of transactions. Names and labels are those of Pulsar 4.0.7
(TransactionAggregator, TransactionBufferClientStatsImpl, TxnLogBufferedWriterMetricsStats), except that a bucket of
lifetimes counts since the coordinator was loaded, not within a period."""

from itertools import pairwise

from magnetar.server.process.metric_summaries import add_histogram, add_summary
from magnetar.server.process.metric_tables import MetricFamilies
from magnetar.server.transactions.batch_counters import BatchCounters
from magnetar.server.transactions.coordinator_counters import CoordinatorCounters
from magnetar.server.transactions.coordinators import TransactionCoordinators
from magnetar.server.transactions.end_calls import EndCalls
from magnetar.server.transactions.known_transactions import TransactionSupport

QUANTILES = (0.5, 0.9, 0.99, 0.999)
MILLISECONDS = 1000.0


def add_transactions(
    families: MetricFamilies, coordinators: TransactionCoordinators, support: TransactionSupport, host: str
) -> None:
    """Adds the metrics of the coordinators that this broker runs, and of the logs of transactions. `host` is the
    broker's."""
    for coordinator_id, coordinator in sorted(coordinators.loaded.items()):
        _add_coordinator(
            families, coordinator_id, len(coordinator.table), coordinator.counters, coordinator.log.appended
        )
    if not coordinators.are_in_use:
        _add_coordinator(families, 0, 0, CoordinatorCounters(), 0)
    _add_calls(families, coordinators.calls)
    _add_batches(families, "tc", coordinators.batches, host)
    _add_batches(families, "pending_ack_store", support.pending_ack_batches, host)


def _add_coordinator(
    families: MetricFamilies, coordinator_id: int, active: int, counters: CoordinatorCounters, appended: int
) -> None:
    """Adds the metrics of a coordinator with `active` transactions, whose log got `appended` records."""
    labels = families.labels(coordinator_id=str(coordinator_id))
    families.add("pulsar_txn_active_count", labels, active)
    totals = {
        "created": counters.created,
        "committed": counters.committed,
        "aborted": counters.aborted,
        "timeout": counters.timed_out,
        "append_log": appended,
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


def _add_batches(families: MetricFamilies, kind: str, batches: BatchCounters, host: str) -> None:
    """Adds how records were put together in entries of logs of one kind, by this broker. `kind` is `tc` for
    coordinators, or `pending_ack_store`. Without batching all values are 0."""
    prefix = f"pulsar_txn_{kind}_bufferedwriter"
    add_histogram(families, f"{prefix}_batch_records", batches.records, broker=host)
    add_histogram(families, f"{prefix}_batch_size_bytes", batches.sizes, broker=host)
    add_histogram(families, f"{prefix}_batch_oldest_record_delay_seconds", batches.delays_s, broker=host)
    labels = families.labels(broker=host)
    for reason, count in batches.flushes.items():
        families.add(f"{prefix}_flush_trigger_{reason.value}_total", labels, count, "counter")
