"""The metrics of subscriptions and of their consumers, by Pulsar's names.

Source: TopicStats.printTopicStats and writeConsumerMetric; names as in Pulsar 4.0.7.
"""

from magnetar.server.process.metric_tables import Column, MetricFamilies, counters, gauges
from magnetar.server.topics.counters import ConsumerCounters
from magnetar.server.topics.non_persistent.subscription import NonPersistentSubscription
from magnetar.server.topics.subscriptions.base_subscription import BaseSubscription
from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.subscription import Subscription

OUT_COLUMNS = (
    *gauges(
        "pulsar_subscription_consumers_count",
        "pulsar_subscription_msg_rate_out",
        "pulsar_subscription_msg_throughput_out",
        "pulsar_subscription_msg_rate_redeliver",
        "pulsar_subscription_msg_ack_rate",
        "pulsar_subscription_last_acked_timestamp",
        "pulsar_subscription_last_consumed_timestamp",
        "pulsar_subscription_last_consumed_flow_timestamp",
        "pulsar_subscription_last_mark_delete_advanced_timestamp",
        "pulsar_subscription_msg_drop_rate",
    ),
    *counters("pulsar_out_messages_total", "pulsar_out_bytes_total"),
)
"""The columns of every subscription."""

BACKLOG_COLUMNS = gauges(
    "pulsar_subscription_back_log",
    "pulsar_subscription_back_log_no_delayed",
    "pulsar_subscription_delayed",
    "pulsar_subscription_delayed_message_index_size_bytes",
    "pulsar_subscription_unacked_messages",
    "pulsar_subscription_blocked_on_unacked_messages",
    "pulsar_subscription_in_replay",
    "pulsar_subscription_msg_rate_expired",
    "pulsar_subscription_total_msg_expired",
    "pulsar_subscription_last_expire_timestamp",
    "pulsar_subscription_storage_backlog_age_seconds",
    "pulsar_subscription_filter_processed_msg_count",
    "pulsar_subscription_filter_accepted_msg_count",
    "pulsar_subscription_filter_rejected_msg_count",
    "pulsar_subscription_filter_rescheduled_msg_count",
    "magnetar_subscription_ack_holes",
)
"""The further columns of a persistent topic's subscriptions."""

NO_ENTRY_FILTERS = (0, 0, 0, 0)
"""This broker has no entry filters, so their counts are 0."""

CONSUMER_COLUMNS: tuple[Column, ...] = (
    *gauges(
        "pulsar_consumer_msg_rate_redeliver",
        "pulsar_consumer_unacked_messages",
        "pulsar_consumer_blocked_on_unacked_messages",
        "pulsar_consumer_msg_rate_out",
        "pulsar_consumer_msg_ack_rate",
        "pulsar_consumer_msg_throughput_out",
        "pulsar_consumer_available_permits",
    ),
    *counters("pulsar_out_bytes_total", "pulsar_out_messages_total"),
)


def out_values(subscription: BaseSubscription, out: ConsumerCounters) -> list[float]:
    """Returns the values of OUT_COLUMNS. `out` holds the sums of the subscription's consumers."""
    return [
        len(subscription.consumers),
        out.message_rate.value,
        out.byte_rate.value,
        out.redelivery_rate.value,
        out.ack_rate.value,
        out.last_acked_ms,
        out.last_sent_ms,
        out.last_flow_ms,
        out.last_acked_ms,
        subscription.drop_rate.value if isinstance(subscription, NonPersistentSubscription) else 0,
        out.messages_out,
        out.bytes_out,
    ]


def backlog_values(subscription: Subscription, age_s: float) -> list[float]:
    """Returns the values of BACKLOG_COLUMNS. `age_s` is the age of the oldest unacknowledged message, -1 when it is not
    known."""
    cursor, expired = subscription.cursor, subscription.expired
    backlog, delayed = cursor.backlog, subscription.delayed_messages
    return [
        backlog,
        backlog - delayed,
        delayed,
        0,  # The delayed messages of a topic's subscriptions share one index, whose size the topic has.
        subscription.unacked_messages,
        subscription.is_blocked,
        subscription.messages_in_replay,
        expired.rate.value,
        expired.entries,
        expired.last_ms,
        age_s,
        *NO_ENTRY_FILTERS,
        cursor.number_of_holes,
    ]


def consumer_values(consumer: Consumer) -> list[float]:
    """Returns the values of CONSUMER_COLUMNS."""
    counts = consumer.counters
    return [
        counts.redelivery_rate.value,
        consumer.unacked_messages,
        consumer.blocked,
        counts.message_rate.value,
        counts.ack_rate.value,
        counts.byte_rate.value,
        consumer.permits,
        counts.bytes_out,
        counts.messages_out,
    ]


def add_throttling(families: MetricFamilies, labels: str, subscription: Subscription) -> None:
    """Adds how often dispatch rates kept messages of a subscription back, if they ever did. This broker has no dispatch
    rate of the whole broker."""
    if subscription.dispatcher is None:
        return
    for (kind, owner), count in subscription.dispatcher.throttled_events.items():
        name = f"pulsar_subscription_dispatch_throttled_{kind}_events"
        families.add(name, f'{labels},reason="{owner}"', count)
