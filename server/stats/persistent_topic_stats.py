"""The answer to `…/stats` for a persistent topic and its subscriptions.

Field names, their order, and the values of fields for features that do not exist here are Apache's: TopicStatsImpl and
SubscriptionStatsImpl, as Pulsar 4.0.7 answers them. The stats of a subscription have three fields that Apache's answer
does not have: `whyIdle`, a phrase that says why the subscription's consumers get no messages now; `entriesInAckHoles`,
how many entries are not acknowledged although later entries are acknowledged; and `ackHolesFilledTotal`, how many
messages were delivered again because they lay in such a hole for too long.
"""

from magnetar.server.stats import key_shared_stats
from magnetar.server.stats.compaction_stats import compaction_stats
from magnetar.server.stats.traffic_stats import (
    NEITHER_FILTERED_NOR_THROTTLED,
    NO_OFFLOADING,
    NOTHING_DRAINS,
    Json,
    consumer_stats,
    producer_stats,
    sent_stats,
    traffic_stats,
)
from magnetar.server.stats.transaction_buffer_stats import transaction_counts
from magnetar.server.topics.counters import now_ms
from magnetar.server.topics.subscriptions.subscription import Subscription
from magnetar.server.topics.subscriptions.subscription_settings import is_replicated
from magnetar.server.topics.topic import Topic


def persistent_topic_stats(topic: Topic) -> Json:
    publishing = topic.publishing
    subscriptions = {name: subscription_stats(each) for name, each in topic.subscriptions.items()}
    producers = list(topic.producers.values())
    backlog_size = max((each.cursor.backlog_size for each in topic.subscriptions.values()), default=0)
    oldest_ms = topic.quota.oldest.known_ms()
    return {
        **traffic_stats(topic),
        "storageSize": topic.ledger.total_size,
        "backlogSize": backlog_size,
        "backlogQuotaLimitSize": topic.policies.backlog_quotas.destination_storage.limit,
        "backlogQuotaLimitTime": topic.policies.backlog_quotas.message_age.limit,
        "oldestBacklogMessageAgeSeconds": -1 if oldest_ms is None else (now_ms() - oldest_ms) // 1000,
        "publishRateLimitedTimes": publishing.rate_limited_times,
        "earliestMsgPublishTimeInBacklogs": oldest_ms or 0,
        **NO_OFFLOADING,
        **transaction_counts(topic),
        "publishers": [producer_stats(producer) for producer in producers],
        "waitingPublishers": len(publishing.access.waiting),
        "subscriptions": subscriptions,
        "replication": {},
        "deduplicationStatus": topic.deduplication.status,
        **({} if publishing.access.epoch is None else {"topicEpoch": publishing.access.epoch}),
        "nonContiguousDeletedMessagesRanges": sum(e.cursor.number_of_holes for e in topic.subscriptions.values()),
        "nonContiguousDeletedMessagesRangesSerializedSize": 0,
        "delayedMessageIndexSizeInBytes": topic.delayed.index.size_bytes if topic.delayed.index else 0,
        "compaction": compaction_stats(topic.compaction),
        "topicCreationTimeStamp": topic.created_ms,
        "lastPublishTimeStamp": publishing.last_publish_ms,
    }


async def add_earliest_times(topic: Topic, stats: Json) -> None:
    """Fills in when the oldest message of each backlog was published, as `getEarliestTimeInBacklog` asks for: -1 for a
    subscription without a backlog (PersistentSubscription.getStatsAsync). Raises ManagedLedgerError when the log cannot
    be read."""
    told = stats["subscriptions"]
    assert isinstance(told, dict)
    times = []
    for name, subscription in list(topic.subscriptions.items()):
        published_ms = await topic.backlog_ages.published_ms(subscription.cursor)
        if name in told:
            told[name]["earliestMsgPublishTimeInBacklog"] = -1 if published_ms is None else published_ms
        if published_ms is not None:
            times.append(published_ms)
    stats["earliestMsgPublishTimeInBacklogs"] = min(times, default=0)


def subscription_stats(subscription: Subscription) -> Json:
    cursor, out = subscription.cursor, subscription.counters_out()
    active = subscription.active_consumer
    dispatcher = subscription.dispatcher
    return {
        **sent_stats(out),
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
        "consumers": [
            consumer_stats(consumer, key_shared_stats.of_consumer(dispatcher, consumer))
            for consumer in subscription.consumers
        ],
        "isDurable": cursor.durable,
        "isReplicated": is_replicated(cursor),
        "consumersAfterMarkDeletePosition": {},
        "allowOutOfOrderDelivery": False,
        **NOTHING_DRAINS,
        **key_shared_stats.of_subscription(dispatcher),
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
