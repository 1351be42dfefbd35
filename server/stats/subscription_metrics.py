"""The metrics of subscriptions and of their consumers, by Pulsar's names.

Source: TopicStats.printTopicStats and writeConsumerMetric; names as in Pulsar 4.0.7.
"""

from collections.abc import Iterator

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


def out_values(subscription: BaseSubscription, out: ConsumerCounters) -> Iterator[float]:
    """Yields the values of OUT_COLUMNS. `out` holds the sums of the subscription's consumers."""
    yield len(subscription.consumers)
    yield out.message_rate.value
    yield out.byte_rate.value
    yield out.redelivery_rate.value
    yield out.ack_rate.value
    yield out.last_acked_ms
    yield out.last_sent_ms
    yield out.last_flow_ms
    yield out.last_acked_ms
    yield subscription.drop_rate.value if isinstance(subscription, NonPersistentSubscription) else 0
    yield out.messages_out
    yield out.bytes_out


def backlog_values(subscription: Subscription, age_s: float) -> Iterator[float]:
    """Yields the values of BACKLOG_COLUMNS. `age_s` is the age of the oldest unacknowledged message, -1 when it is not
    known."""
    cursor, expired = subscription.cursor, subscription.expired
    backlog, delayed = cursor.backlog, subscription.delayed_messages
    yield backlog
    yield backlog - delayed
    yield delayed
    yield 0  # The delayed messages of a topic's subscriptions share one index, whose size the topic has.
    yield subscription.unacked_messages
    yield subscription.is_blocked
    yield subscription.messages_in_replay
    yield expired.rate.value
    yield expired.entries
    yield expired.last_ms
    yield age_s
    yield from NO_ENTRY_FILTERS
    yield cursor.number_of_holes


def consumer_values(consumer: Consumer) -> Iterator[float]:
    """Yields the values of CONSUMER_COLUMNS."""
    counts = consumer.counters
    yield counts.redelivery_rate.value
    yield consumer.unacked_messages
    yield consumer.blocked
    yield counts.message_rate.value
    yield counts.ack_rate.value
    yield counts.byte_rate.value
    yield consumer.permits
    yield counts.bytes_out
    yield counts.messages_out


def add_throttling(families: MetricFamilies, labels: str, subscription: Subscription) -> None:
    """Adds how often dispatch rates kept messages of a subscription back, if they ever did. This broker has no dispatch
    rate of the whole broker."""
    if subscription.dispatcher is None:
        return
    for (kind, owner), count in subscription.dispatcher.throttled_events.items():
        name = f"pulsar_subscription_dispatch_throttled_{kind}_events"
        families.add(name, f'{labels},reason="{owner}"', count)
