"""What is told about the transactions of a topic: the counts in the topic's stats, and the answers of
`/admin/v3/transactions` about its transaction buffer (TransactionBufferStats, TransactionBufferInternalStats)."""

from collections.abc import Iterator

from magnetar.server.stats.internal_stats import ledger_stats
from magnetar.server.stats.traffic_stats import NO_TRANSACTIONS, Json
from magnetar.server.topics.topic import Topic
from magnetar.server.topics.transactions.transaction_buffer import BufferState, TransactionBuffer


def transaction_counts(topic: Topic) -> Json:
    """Returns the counts in the topic's stats (TopicStatsImpl). The last two are counts since the topic was loaded."""
    if topic.transactions is None:
        return NO_TRANSACTIONS
    transactions = topic.transactions.transactions
    return {
        "ongoingTxnCount": len(transactions.open),
        "abortedTxnCount": transactions.aborted_count,
        "committedTxnCount": transactions.committed_count,
    }


def transaction_metrics(buffer: TransactionBuffer) -> Iterator[tuple[str, float, str]]:
    """Yields (name, value, type) for the metrics of a topic's transactions, once the topic has had one."""
    if buffer.state is not BufferState.NO_SNAPSHOT:
        transactions = buffer.transactions
        yield "pulsar_txn_tb_active_total", len(transactions.open), "gauge"
        yield "pulsar_txn_tb_aborted_total", transactions.aborted_count, "counter"
        yield "pulsar_txn_tb_committed_total", transactions.committed_count, "counter"


def buffer_stats(buffer: TransactionBuffer, *, low_watermarks: bool, segments: bool) -> Json:
    """Returns the state of a transaction buffer. The low watermarks of the coordinators, and what there is to tell of
    the snapshot's segments, are told only on request."""
    transactions = buffer.transactions
    counts = {str(coordinator): count for coordinator, count in transactions.low_watermarks.items()}
    return {
        "state": buffer.state.value,
        "maxReadPosition": str(buffer.max_read_position),
        "lastSnapshotTimestamps": buffer.snapshot_ms,
        **({"lowWaterMarks": counts} if low_watermarks else {}),
        "ongoingTxnSize": len(transactions.open),
        "recoverStartTime": buffer.recovery_began_ms,
        "recoverEndTime": buffer.recovery_ended_ms,
        "totalAbortedTransactions": len(transactions.aborted),
        "snapshotType": buffer.snapshots.type_name,
        **(buffer.snapshots.segment_stats() if segments else {}),
    }


def system_topic_stats(topic: Topic) -> Json:
    """Returns the managed ledger of a topic that holds snapshots."""
    return {
        "managedLedgerName": topic.name.local_name,
        "managedLedgerInternalStats": ledger_stats(topic.ledger, topic.subscriptions),
    }
