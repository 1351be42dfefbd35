"""Stats of a topic as the admin API answers them: `…/stats` and `…/internalStats`.

Field names, their order and the values of what does not exist here are Apache's (facts 8.1 and real answers of 4.0.7).
Rates are those of the last full period; counters count since the topic was loaded. Beyond Apache: `whyIdle` of a
subscription, one phrase for "why does it get nothing"; `entriesInAckHoles`, `ackHolesFilledTotal` and, of a cursor,
`ackHoles`: what is not acknowledged although later messages are.
"""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from magnetar.server.stats.compaction_stats import compacted_ledger_stats, compaction_stats
from magnetar.server.topics.counters import now_ms
from magnetar.server.topics.subscriptions.subscription_settings import is_replicated
from magnetar.storage.managed.appender import AppendState
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.gaps import Gap
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.server.topics.base_topic import BaseTopic
    from magnetar.server.topics.publishing.producer import Producer
    from magnetar.server.topics.subscriptions.consumer import Consumer
    from magnetar.server.topics.subscriptions.subscription import Subscription
    from magnetar.server.topics.topic import Topic

HOLES_SHOWN_MAX = 1_000
"""Ranges of acknowledged messages that internalStats lists of a cursor."""

STATE_NAMES = {
    AppendState.IDLE: "ClosedLedger",
    AppendState.OPEN: "LedgerOpened",
    AppendState.SETTLING: "CreatingLedger",
    AppendState.FENCED: "Fenced",
    AppendState.TERMINATED: "Terminated",
    AppendState.CLOSED: "Closed",
}
"""ManagedLedgerImpl.State."""

Json = dict[str, object]

NEITHER_FILTERED_NOR_THROTTLED: Json = {
    "filterProcessedMsgCount": 0,
    "filterAcceptedMsgCount": 0,
    "filterRejectedMsgCount": 0,
    "filterRescheduledMsgCount": 0,
    "dispatchThrottledMsgEventsBySubscriptionLimit": 0,
    "dispatchThrottledBytesEventsBySubscriptionLimit": 0,
    "dispatchThrottledMsgEventsByTopicLimit": 0,
    "dispatchThrottledBytesEventsByTopicLimit": 0,
    "dispatchThrottledMsgEventsByBrokerLimit": 0,
    "dispatchThrottledBytesEventsByBrokerLimit": 0,
}
NOTHING_DRAINS: Json = {
    "drainingHashesCount": 0,
    "drainingHashesClearedTotal": 0,
    "drainingHashesUnackedMessages": 0,
}
"""Of Key_Shared, where it is none."""


def iso_time(time_ms: int) -> str:
    """As Java prints an Instant: milliseconds only where there are some."""
    precision = "milliseconds" if time_ms % 1000 else "seconds"
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def topic_stats(topic: "Topic") -> Json:
    publishing = topic.publishing
    subscriptions = {name: subscription_stats(each) for name, each in topic.subscriptions.items()}
    producers = list(topic.producers.values())
    backlog_size = max((each.cursor.backlog_size for each in topic.subscriptions.values()), default=0)
    oldest_ms = topic.quota.oldest.known_ms(topic)
    return {
        **traffic_stats(topic),
        "storageSize": topic.ledger.total_size,
        "backlogSize": backlog_size,
        "backlogQuotaLimitSize": topic.policies.backlog_quotas.destination_storage.limit,
        "backlogQuotaLimitTime": topic.policies.backlog_quotas.message_age.limit,
        "oldestBacklogMessageAgeSeconds": -1 if oldest_ms is None else (now_ms() - oldest_ms) // 1000,
        "publishRateLimitedTimes": publishing.rate_limited_times,
        "earliestMsgPublishTimeInBacklogs": oldest_ms or 0,
        "offloadedStorageSize": 0,
        "lastOffloadLedgerId": 0,
        "lastOffloadSuccessTimeStamp": 0,
        "lastOffloadFailureTimeStamp": 0,
        "ongoingTxnCount": 0,
        "abortedTxnCount": 0,
        "committedTxnCount": 0,
        "publishers": [producer_stats(producer) for producer in producers],
        "waitingPublishers": len(publishing.access.waiting),
        "subscriptions": subscriptions,
        "replication": {},
        "deduplicationStatus": topic.deduplication.status,
        **({} if publishing.access.epoch is None else {"topicEpoch": publishing.access.epoch}),
        "nonContiguousDeletedMessagesRanges": sum(e.cursor.number_of_holes for e in topic.all_subscriptions.values()),
        "nonContiguousDeletedMessagesRangesSerializedSize": 0,
        "delayedMessageIndexSizeInBytes": topic.delayed.index.size_bytes if topic.delayed.index else 0,
        "compaction": compaction_stats(topic.compaction),
        "topicCreationTimeStamp": topic.created_ms,
        "lastPublishTimeStamp": publishing.last_publish_ms,
    }


def traffic_stats(topic: "BaseTopic") -> Json:
    """What came into a topic of either domain, and what went out to its subscriptions."""
    publishing = topic.publishing
    outs = [each.counters_out() for each in topic.all_subscriptions.values()]
    return {
        "msgRateIn": publishing.counters.message_rate.value,
        "msgThroughputIn": publishing.counters.byte_rate.value,
        "msgRateOut": sum(each.message_rate.value for each in outs),
        "msgThroughputOut": sum(each.byte_rate.value for each in outs),
        "bytesInCounter": publishing.counters.bytes_in,
        "msgInCounter": publishing.counters.messages_in,
        "systemTopicBytesInCounter": 0,
        "bytesOutCounter": sum(each.bytes_out for each in outs),
        "msgOutCounter": sum(each.messages_out for each in outs),
        "bytesOutInternalCounter": 0,
        "averageMsgSize": publishing.counters.average_size,
        "msgChunkPublished": False,
    }


def producer_stats(producer: "Producer") -> Json:
    counters = producer.counters
    return {
        "accessMode": pb.ProducerAccessMode.Name(producer.access_mode),
        "msgRateIn": counters.message_rate.value,
        "msgThroughputIn": counters.byte_rate.value,
        "averageMsgSize": counters.average_size,
        "chunkedMessageRate": 0.0,
        "producerId": producer.producer_id,
        "supportsPartialProducer": False,
        "producerName": producer.name,
        "address": producer.cnx.remote_address,
        "connectedSince": iso_time(producer.connected_ms),
        "clientVersion": producer.cnx.client_version,
        "metadata": producer.metadata,
    }


def subscription_stats(subscription: "Subscription") -> Json:
    cursor, out = subscription.cursor, subscription.counters_out()
    active = subscription.active_consumer
    dispatcher = subscription.dispatcher
    return {
        "msgRateOut": out.message_rate.value,
        "msgThroughputOut": out.byte_rate.value,
        "bytesOutCounter": out.bytes_out,
        "msgOutCounter": out.messages_out,
        "msgRateRedeliver": out.redelivery_rate.value,
        "messageAckRate": out.ack_rate.value,
        "chunkedMessageRate": 0.0,
        "msgBacklog": cursor.backlog,
        "backlogSize": cursor.backlog_size,
        "earliestMsgPublishTimeInBacklog": 0,
        "msgBacklogNoDelayed": cursor.backlog - subscription.delayed_messages,
        "blockedSubscriptionOnUnackedMsgs": subscription.is_blocked,
        "msgDelayed": subscription.delayed_messages,
        "msgInReplay": subscription.messages_in_replay,
        "unackedMessages": subscription.unacked_messages,
        "type": subscription.type_name,
        **({} if active is None else {"activeConsumerName": active.name}),
        "msgRateExpired": subscription.expired.rate.value,
        "totalMsgExpired": subscription.expired.entries,
        "lastExpireTimestamp": subscription.expired.last_ms,
        "lastConsumedFlowTimestamp": out.last_flow_ms,
        "lastConsumedTimestamp": out.last_sent_ms,
        "lastAckedTimestamp": out.last_acked_ms,
        "lastMarkDeleteAdvancedTimestamp": out.last_acked_ms,
        "consumers": [consumer_stats(consumer) for consumer in subscription.consumers],
        "isDurable": cursor.durable,
        "isReplicated": is_replicated(cursor),
        "consumersAfterMarkDeletePosition": {},
        "allowOutOfOrderDelivery": False,
        **NOTHING_DRAINS,
        **({} if dispatcher is None else dispatcher.stats()),
        "nonContiguousDeletedMessagesRanges": cursor.number_of_holes,
        "entriesInAckHoles": cursor.entries_in_holes,
        "ackHolesFilledTotal": subscription.messages_filled,
        "nonContiguousDeletedMessagesRangesSerializedSize": 0,
        "delayedMessageIndexSizeInBytes": 0,
        "subscriptionProperties": dict(cursor.properties),
        **NEITHER_FILTERED_NOR_THROTTLED,
        "durable": cursor.durable,
        "replicated": is_replicated(cursor),
        "whyIdle": "no consumer" if dispatcher is None else dispatcher.why_idle(),
    }


def consumer_stats(consumer: "Consumer") -> Json:
    counters = consumer.counters
    return {
        "msgRateOut": counters.message_rate.value,
        "msgThroughputOut": counters.byte_rate.value,
        "bytesOutCounter": counters.bytes_out,
        "msgOutCounter": counters.messages_out,
        "msgRateRedeliver": counters.redelivery_rate.value,
        "messageAckRate": counters.ack_rate.value,
        "chunkedMessageRate": 0.0,
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": consumer.unacked_messages,
        "avgMessagesPerEntry": 0 if consumer.average.is_new else round(consumer.average.value),
        "blockedConsumerOnUnackedMsgs": consumer.blocked,
        **NOTHING_DRAINS,
        **consumer.subscription.stats_of(consumer),
        "address": consumer.cnx.remote_address,
        "connectedSince": iso_time(consumer.connected_ms),
        "clientVersion": consumer.cnx.client_version,
        "lastAckedTimestamp": counters.last_acked_ms,
        "lastConsumedTimestamp": counters.last_sent_ms,
        "lastConsumedFlowTimestamp": counters.last_flow_ms,
        "metadata": consumer.metadata,
        "lastAckedTime": iso_time(counters.last_acked_ms),
        "lastConsumedTime": iso_time(counters.last_sent_ms),
    }


def client_consumer_stats(consumer: "Consumer") -> Json:
    """The fields of CONSUMER_STATS_RESPONSE."""
    counters = consumer.counters
    return {
        "msgRateOut": counters.message_rate.value,
        "msgThroughputOut": counters.byte_rate.value,
        "msgRateRedeliver": counters.redelivery_rate.value,
        "consumerName": consumer.name,
        "availablePermits": max(0, consumer.permits),
        "unackedMessages": consumer.unacked_messages,
        "blockedConsumerOnUnackedMsgs": consumer.blocked,
        "address": consumer.cnx.remote_address,
        "connectedSince": iso_time(consumer.connected_ms),
        "type": consumer.subscription.type_name,
        "msgRateExpired": 0.0,
        "msgBacklog": consumer.subscription.cursor.backlog,
        "messageAckRate": counters.ack_rate.value,
    }


def internal_stats(topic: "Topic") -> Json:
    stats = topic.ledger.stats()
    return {
        "entriesAddedCounter": stats.entries_added,
        "numberOfEntries": stats.entries,
        "totalSize": stats.size,
        "currentLedgerEntries": stats.current_ledger_entries,
        "currentLedgerSize": stats.current_ledger_size,
        **({"lastLedgerCreatedTimestamp": iso_time(stats.ledger_created_ms)} if stats.ledger_created_ms else {}),
        **({"lastLedgerCreationFailureTimestamp": iso_time(stats.ledger_failed_ms)} if stats.ledger_failed_ms else {}),
        "waitingCursorsCount": sum(map(waits_for_messages, topic.subscriptions.values())),
        "pendingAddEntriesCount": stats.pending_entries,
        "lastConfirmedEntry": str(stats.last_confirmed),
        "state": STATE_NAMES[stats.state],
        "ledgers": [
            {
                "ledgerId": info.ledger_id,
                "entries": info.entries,
                "size": info.size,
                "offloaded": info.offloaded_only,
                "underReplicated": False,
            }
            for info in stats.ledgers
        ],
        "cursors": {name: cursor_stats(topic, name, cursor) for name, cursor in topic.ledger.cursors.items()},
        "unreadable": [unreadable(gap) for gap in topic.ledger.gaps.known],
        "schemaLedgers": [],
        "compactedLedger": compacted_ledger_stats(topic.compaction),
    }


def unreadable(gap: Gap) -> Json:
    """Entries that every bookie lost."""
    return {
        "ledgerId": gap.ledger_id,
        "firstEntryId": gap.first,
        "lastEntryId": gap.last,
        "entries": gap.entries,
        "skipped": gap.skipped,
        "reason": gap.reason,
    }


def waits_for_messages(subscription: "Subscription") -> bool:
    """Whether the next message that is published goes to somebody at once."""
    dispatcher = subscription.dispatcher
    return dispatcher is not None and bool(subscription.consumers) and dispatcher.is_caught_up


def cursor_stats(topic: "Topic", name: str, cursor: Cursor) -> Json:
    subscription = topic.subscriptions.get(name)
    dispatcher = None if subscription is None else subscription.dispatcher
    read_position = dispatcher.read_position if dispatcher else cursor.next_unacked(cursor.mark_delete)
    holes = cursor.holes(HOLES_SHOWN_MAX)
    unacked = cursor.unacked_ranges(HOLES_SHOWN_MAX)
    reads = dispatcher is not None and dispatcher.is_reading
    waits = subscription is not None and waits_for_messages(subscription)
    return {
        "markDeletePosition": str(cursor.mark_delete),
        "readPosition": str(read_position),
        "waitingReadOp": waits,
        "pendingReadOps": int(reads),
        "messagesConsumedCounter": topic.ledger.entries_between(Position(-1, -1), cursor.mark_delete),
        "cursorLedger": cursor.ledger_id,
        "cursorLedgerLastEntry": -1,
        "individuallyDeletedMessages": "["
        + ",".join(f"({hole.ledger_id}:{hole.first - 1}..{hole.ledger_id}:{hole.last}]" for hole in holes)
        + "]",
        "ackHoles": "["
        + ",".join(f"({hole.ledger_id}:{hole.first - 1}..{hole.ledger_id}:{hole.last}]" for hole in unacked)
        + "]",
        "lastLedgerSwitchTimestamp": iso_time(cursor.ledger_switched_ms),
        "state": "NoLedger" if cursor.ledger_id < 0 else "Open",
        "active": bool(subscription is not None and subscription.consumers),
        "numberOfEntriesSinceFirstNotAckedMessage": topic.ledger.entries_between(cursor.mark_delete, read_position),
        "totalNonContiguousDeletedMessagesRange": cursor.number_of_holes,
        "subscriptionHavePendingRead": reads or waits,
        "subscriptionHavePendingReplayRead": False,
        "properties": dict(cursor.position_properties),
    }
