"""The answers to `…/stats` and `…/internalStats` for a non-persistent topic.

Field names and their order are Apache's: NonPersistentTopicStatsImpl, as Pulsar 4.0.7 answers. Unlike the answer for a
persistent topic, this answer has the field `msgDropRate`."""

from magnetar.server.stats.traffic_stats import (
    NEITHER_FILTERED_NOR_THROTTLED,
    NO_OFFLOADING,
    NO_TRANSACTIONS,
    NOTHING_DRAINS,
    Json,
    consumer_stats,
    producer_stats,
    sent_stats,
    traffic_stats,
)
from magnetar.server.topics.non_persistent.subscription import NonPersistentSubscription
from magnetar.server.topics.non_persistent.topic import NonPersistentTopic


def non_persistent_topic_stats(topic: NonPersistentTopic) -> Json:
    publishing = topic.publishing
    return {
        **traffic_stats(topic),
        "storageSize": 0,
        "backlogSize": 0,
        "backlogQuotaLimitSize": 0,
        "backlogQuotaLimitTime": 0,
        "oldestBacklogMessageAgeSeconds": 0,
        "publishRateLimitedTimes": publishing.rate_limited_times,
        "earliestMsgPublishTimeInBacklogs": 0,
        **NO_OFFLOADING,
        **NO_TRANSACTIONS,
        "waitingPublishers": len(publishing.access.waiting),
        **({} if publishing.access.epoch is None else {"topicEpoch": publishing.access.epoch}),
        "nonContiguousDeletedMessagesRanges": 0,
        "nonContiguousDeletedMessagesRangesSerializedSize": 0,
        "delayedMessageIndexSizeInBytes": 0,
        "compaction": {
            "lastCompactionRemovedEventCount": 0,
            "lastCompactionSucceedTimestamp": 0,
            "lastCompactionFailedTimestamp": 0,
            "lastCompactionDurationTimeInMills": 0,
        },
        "msgDropRate": sum(each.drop_rate.value for each in topic.subscriptions.values()),
        "publishers": [{**producer_stats(each), "msgDropRate": 0.0} for each in topic.producers.values()],
        "subscriptions": {name: subscription_stats(each) for name, each in topic.subscriptions.items()},
        "replication": {},
    }


def subscription_stats(subscription: NonPersistentSubscription) -> Json:
    out = subscription.counters_out()
    active = subscription.active_consumer
    return {
        **sent_stats(out),
        "msgBacklog": 0,
        "backlogSize": 0,
        "earliestMsgPublishTimeInBacklog": 0,
        "msgBacklogNoDelayed": 0,
        "blockedSubscriptionOnUnackedMsgs": False,
        "msgDelayed": 0,
        "msgInReplay": 0,
        "unackedMessages": 0,
        "type": subscription.type_name,
        **({} if active is None else {"activeConsumerName": active.name}),
        "msgRateExpired": 0.0,
        "totalMsgExpired": 0,
        "lastExpireTimestamp": 0,
        "lastConsumedFlowTimestamp": out.last_flow_ms,
        "lastConsumedTimestamp": out.last_sent_ms,
        "lastAckedTimestamp": out.last_acked_ms,
        "lastMarkDeleteAdvancedTimestamp": 0,
        "isDurable": subscription.is_durable,
        "isReplicated": False,
        "msgDropRate": subscription.drop_rate.value,
        "consumers": [consumer_stats(consumer, {}) for consumer in subscription.consumers],
        "consumersAfterMarkDeletePosition": {},
        "allowOutOfOrderDelivery": False,
        **NOTHING_DRAINS,
        "nonContiguousDeletedMessagesRanges": 0,
        "nonContiguousDeletedMessagesRangesSerializedSize": 0,
        "delayedMessageIndexSizeInBytes": 0,
        "subscriptionProperties": dict(subscription.properties),
        **NEITHER_FILTERED_NOR_THROTTLED,
        "durable": subscription.is_durable,
        "replicated": False,
    }


NO_CURSOR: Json = {
    "waitingReadOp": False,
    "pendingReadOps": 0,
    "messagesConsumedCounter": 0,
    "cursorLedger": 0,
    "cursorLedgerLastEntry": 0,
    "active": False,
    "numberOfEntriesSinceFirstNotAckedMessage": 0,
    "totalNonContiguousDeletedMessagesRange": 0,
    "subscriptionHavePendingRead": False,
    "subscriptionHavePendingReplayRead": False,
}
"""The empty CursorStats that Apache shows for each subscription."""


def non_persistent_internal_stats(topic: NonPersistentTopic) -> Json:
    """Returns the internal stats of a non-persistent topic, which hold only the names of its subscriptions."""
    return {
        "entriesAddedCounter": 0,
        "numberOfEntries": 0,
        "totalSize": 0,
        "currentLedgerEntries": 0,
        "currentLedgerSize": 0,
        "waitingCursorsCount": 0,
        "pendingAddEntriesCount": 0,
        "cursors": {name: dict(NO_CURSOR) for name in topic.subscriptions},
    }
