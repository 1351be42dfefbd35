"""What the admin API and /metrics tell about a subscription's acknowledgements in transactions, by Apache's names:
TransactionPendingAckStats, PositionInPendingAckStats, PendingAckHandleStatsImpl."""

from collections.abc import Mapping
from enum import Enum

from magnetar.server.process.metric_summaries import add_summary
from magnetar.server.process.metric_tables import MetricFamilies
from magnetar.server.stats.traffic_stats import Json
from magnetar.server.topics.subscriptions.pending_acks.batch_parts import WHOLE
from magnetar.server.topics.subscriptions.pending_acks.pending_acks import PendingAcksOfTransactions, PendingAckState
from magnetar.server.topics.subscriptions.subscription import Subscription
from pulsar_proto.ids import Position

COMMIT_QUANTILES = (0.5, 0.9, 0.99, 0.999)
MICROSECONDS = 1_000_000


class PositionState(Enum):
    """The states of a message in acknowledgements of transactions (PositionInPendingAckStats.State)."""

    PENDING_ACK = "PendingAck"
    MARK_DELETE = "MarkDelete"
    NOT_IN_PENDING_ACK = "NotInPendingAck"
    NOT_READY = "PendingAckNotReady"
    INVALID_POSITION = "InvalidPosition"


def pending_ack_stats(pending: PendingAcksOfTransactions | None, *, low_watermarks: bool) -> Json:
    """Returns the stats of a subscription, which has no acknowledgements in transactions if `pending` is None."""
    if pending is None:
        watermarks: Json = {"lowWaterMarks": {}} if low_watermarks else {}
        no_times = {"ongoingTxnSize": 0, "recoverStartTime": 0, "recoverEndTime": 0}
        return {"state": PendingAckState.NONE.value, **watermarks, **no_times}
    known = {str(most): least for most, least in pending.rules.low_watermarks.items()}
    return {
        "state": pending.state.value,
        **({"lowWaterMarks": known} if low_watermarks else {}),
        "ongoingTxnSize": pending.rules.transactions,
        "recoverStartTime": pending.recover_start_ms,
        "recoverEndTime": pending.recover_end_ms,
    }


def position_state(subscription: Subscription, position: Position, batch_index: int | None) -> PositionState:
    """Returns whether a transaction holds a message by an individual acknowledgement (PendingAckHandleImpl.
    checkPositionInPendingAckState)."""
    pending = subscription.pending_acks
    if pending is None or pending.state is not PendingAckState.READY:
        return PositionState.NOT_READY
    if position <= subscription.cursor.mark_delete:
        return PositionState.MARK_DELETE
    held = pending.rules.held_of(position.ledger_id, position.entry_id)
    if held is None:
        return PositionState.NOT_IN_PENDING_ACK
    if batch_index is None or held is WHOLE:
        return PositionState.PENDING_ACK
    if batch_index >= held.size:
        return PositionState.INVALID_POSITION
    return PositionState.PENDING_ACK if held.bits >> batch_index & 1 else PositionState.NOT_IN_PENDING_ACK


def add_pending_ack_metrics(
    families: MetricFamilies, labels: Mapping[str, str], pending: PendingAcksOfTransactions
) -> None:
    """Adds the metrics of a subscription on which transactions have acknowledged something."""
    counters = pending.counters
    labels = {name: value for name, value in labels.items() if name != "cluster"}  # all families have this label
    for kind, succeeded, failed in (
        ("committed", counters.committed, counters.commits_failed),
        ("aborted", counters.aborted, counters.aborts_failed),
    ):
        for status, count in (("succeed", succeeded), ("failed", failed)):
            of_status = families.labels(**labels, status=status)
            families.add(f"pulsar_txn_tp_{kind}_count_total", of_status, count, "counter")
    if counters.commit_latency is not None:
        add_summary(
            families, "pulsar_txn_tp_commit_latency", counters.commit_latency, COMMIT_QUANTILES, MICROSECONDS, **labels
        )
