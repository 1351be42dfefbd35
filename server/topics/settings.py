"""Limits and switches of topics and subscriptions: fields are the snake_case of broker.conf's keys."""

from dataclasses import dataclass, fields

ALL_SUBSCRIPTION_TYPES = ("Exclusive", "Shared", "Failover", "Key_Shared")


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Defaults are those of Pulsar 4.1 but where said. Where nothing else is said, 0 means no limit."""

    cluster_name: str = "standalone"
    topic_load_timeout_seconds: int = 60
    """Who asks for a topic that takes longer to load is told to try again; the load goes on."""

    allow_auto_topic_creation: bool = True
    allow_auto_subscription_creation: bool = True
    max_producers_per_topic: int = 0
    max_consumers_per_topic: int = 0
    max_consumers_per_subscription: int = 0
    max_subscriptions_per_topic: int = 0
    subscription_types_enabled: tuple[str, ...] = ALL_SUBSCRIPTION_TYPES

    max_unacked_messages_per_consumer: int = 50_000
    """Shared: no more is sent to a consumer that holds so many; again when it holds half."""
    max_unacked_messages_per_subscription: int = 200_000
    """Shared: no more is sent at all; again below half."""
    acknowledgment_at_batch_index_level_enabled: bool = True

    dispatcher_max_read_batch_size: int = 100
    """Entries of one read, and of one turn of sending. At least 1."""
    dispatcher_max_read_size_bytes: int = 5 * 1024 * 1024
    """Bytes of one read, but always at least one entry."""
    dispatcher_max_round_robin_batch_size: int = 20
    """Shared: entries for a consumer before it is the next one's turn. At least 1."""
    dispatcher_read_failure_backoff_initial_time_in_ms: int = 15_000
    dispatcher_read_failure_backoff_max_time_in_ms: int = 60_000
    active_consumer_failover_delay_time_millis: int = 1_000
    """Failover: how long the old consumer's acknowledgements may still arrive before another one takes over."""
    active_consumer_failover_consistent_hashing: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError that names the field."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and value < _LEAST.get(field.name, 0):
                raise ValueError(f"{field.name} is {value}, must be at least {_LEAST.get(field.name, 0)}")
        unknown = set(self.subscription_types_enabled) - set(ALL_SUBSCRIPTION_TYPES)
        if unknown:
            raise ValueError(f"subscription_types_enabled names unknown types: {', '.join(sorted(unknown))}")


_LEAST = {
    "topic_load_timeout_seconds": 1,
    "dispatcher_max_read_batch_size": 1,
    "dispatcher_max_read_size_bytes": 1,
    "dispatcher_max_round_robin_batch_size": 1,
    "dispatcher_read_failure_backoff_initial_time_in_ms": 1,
    "dispatcher_read_failure_backoff_max_time_in_ms": 1,
}
