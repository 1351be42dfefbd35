"""The answers of `/admin/v3/transactions` about coordinators and single transactions, with Apache's names of fields
(TransactionCoordinatorStats, TransactionMetadata, TransactionInBufferStats, TransactionInPendingAckStats)."""

from collections.abc import Mapping
from typing import Any

from magnetar.server.stats.traffic_stats import Json
from magnetar.server.topics.subscriptions.subscription import Subscription
from magnetar.server.topics.topic import Topic
from magnetar.server.transactions.coordinator import TransactionCoordinator
from magnetar.server.transactions.coordinator_rules import Transaction, TransactionTable
from magnetar.storage.managed.ack_sets import mask_of_words
from pulsar_proto.ids import TxnId


def coordinator_stats(coordinator: TransactionCoordinator) -> Json:
    return {
        "state": coordinator.state.value,
        "leastSigBits": coordinator.table.counter,
        "lowWaterMark": coordinator.low_watermark,
        "ongoingTxnSize": len(coordinator.table),
        "recoverStartTime": coordinator.recovery_started_ms,
        "recoverEndTime": coordinator.recovered_ms,
    }


def stats_before_first_use(coordinator_id: int) -> Json:
    """Returns what is told about a coordinator that no client has used yet."""
    table = TransactionTable(coordinator_id, 0)
    return {
        "state": "None",
        "leastSigBits": table.counter,
        "lowWaterMark": table.low_watermark,
        "ongoingTxnSize": 0,
        "recoverStartTime": 0,
        "recoverEndTime": 0,
    }


def transaction_metadata(transaction: Transaction, produced: Mapping[str, Any], acked: Mapping[str, Any]) -> Json:
    """Returns what is told about a transaction. `produced` and `acked` say what the transaction's topics and
    subscriptions know of it. As in Apache's broker, `timeoutAt` is a number of milliseconds after the begin."""
    owner = {} if transaction.owner is None else {"owner": transaction.owner}
    return {
        "txnId": str(transaction.txn_id),
        "status": transaction.status.name,
        "openTimestamp": transaction.started_ms,
        "timeoutAt": transaction.timeout_ms,
        "producedPartitions": produced,
        "ackedPartitions": acked,
        **owner,
    }


def transaction_in_buffer(topic: Topic, txn_id: TxnId) -> Json:
    """Returns what a topic knows of a transaction."""
    if topic.transactions is None:
        return {"aborted": False}
    found = topic.transactions.transactions.open.get(txn_id)
    start = {} if found is None else {"startPosition": str(found.first)}
    return {**start, "aborted": topic.transactions.is_aborted(txn_id)}


def transaction_in_pending_acks(subscription: Subscription, txn_id: TxnId) -> Json:
    """Returns what a subscription knows of a transaction: how far the transaction acknowledges cumulatively."""
    pending_acks = subscription.pending_acks
    cumulative = None if pending_acks is None else pending_acks.rules.cumulative
    if cumulative is None or cumulative[0] != txn_id:
        return {}
    position = cumulative[1]
    # As in Apache's broker, the index is that of the batch's first message that is not acknowledged.
    left = mask_of_words(position.ack_set) if position.ack_set else 0
    index = f":{(left & -left).bit_length() - 1}" if left else ""
    return {"cumulativeAckPosition": f"{position.position}{index}"}
