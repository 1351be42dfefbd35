"""The limits and switches of topics and subscriptions."""

from dataclasses import dataclass, fields

from pulsar_proto.wire.framing import MAX_MESSAGE_SIZE

ALL_SUBSCRIPTION_TYPES = ("Exclusive", "Shared", "Failover", "Key_Shared")


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings of topics and subscriptions. Each field has the snake_case name of a key in broker.conf. Unless the
    field says otherwise, the default is that of Pulsar 4.1, and 0 means "no limit"."""

    cluster_name: str = "standalone"
    topic_load_timeout_seconds: int = 60
    """The time that a client waits for a topic to be loaded, including the time that the topic waits for others. After
    this time the client is told that the load has failed, while the loading goes on."""
    max_concurrent_topic_load_request: int = 5_000
    """How many topics are loaded at the same time; system topics do not count."""

    stats_update_frequency_in_secs: int = 60
    """The period over which the rates of topics, producers and consumers are computed."""
    managed_ledger_stats_period_seconds: int = 60
    """The period over which the rates and buckets of managed ledgers and of the entry cache are computed."""

    max_message_size: int = MAX_MESSAGE_SIZE
    """The largest message in bytes. Compaction keeps a batch that was larger than this before compression in one
    piece."""

    allow_auto_topic_creation: bool = True
    """Whether a producer or consumer of a topic that does not exist creates it."""
    allow_auto_topic_creation_type: str = "non-partitioned"
    """The type of topics that are created automatically: "non-partitioned", or "partitioned" for topics with
    `default_num_partitions` partitions."""
    default_num_partitions: int = 1
    """How many partitions a topic gets that is created automatically as a partitioned topic."""
    max_num_partitions_per_partitioned_topic: int = 0
    """How many partitions a topic may have; 0 means "no limit"."""
    max_topics_per_namespace: int = 0
    """How many topics a namespace may have. Each partition counts as a topic, and system topics do not count."""
    default_number_of_namespace_bundles: int = 4
    """How many bundles a namespace gets whose creator names no number."""
    force_delete_tenant_allowed: bool = False
    """Whether a tenant that still has namespaces may be deleted, by force."""
    force_delete_namespace_allowed: bool = False
    """Whether a namespace that still has topics may be deleted, by force."""
    topic_level_policies_enabled: bool = True
    """Whether topics may have policies of their own."""
    allow_auto_subscription_creation: bool = True
    """Whether a consumer of a subscription that does not exist creates it."""
    max_producers_per_topic: int = 0
    """How many producers a topic may have; 0 means "no limit"."""
    max_consumers_per_topic: int = 0
    """How many consumers a topic may have; 0 means "no limit"."""
    max_consumers_per_subscription: int = 0
    """How many consumers a subscription may have; 0 means "no limit"."""
    max_subscriptions_per_topic: int = 0
    """How many subscriptions a topic may have; 0 means "no limit"."""
    subscription_types_enabled: tuple[str, ...] = ALL_SUBSCRIPTION_TYPES
    """The types of subscriptions that consumers may use."""

    max_unacked_messages_per_consumer: int = 50_000
    """Shared and Key_Shared: a consumer that holds this many unacknowledged messages gets no more until it holds half
    as many."""
    max_unacked_messages_per_subscription: int = 200_000
    """Shared and Key_Shared: a subscription with this many unacknowledged messages sends nothing until it has half as
    many."""
    acknowledgment_at_batch_index_level_enabled: bool = True
    """Whether single messages of a batch can be acknowledged for good. Otherwise the whole batch comes again."""

    enable_non_persistent_topics: bool = True
    """Whether topics that are not stored may be used."""
    strict_bookie_affinity_enabled: bool = False
    """Whether topics of namespaces without a bookie affinity group may only use bookies that are in no group."""
    broker_publisher_throttling_max_message_rate: int = 0
    """How many messages a second all topics together accept; 0 means "no limit"."""
    broker_publisher_throttling_max_byte_rate: int = 0
    """How many bytes a second all topics together accept; 0 means "no limit"."""

    broker_deduplication_max_number_of_producers: int = 10_000
    """How many producer names a snapshot holds, and how many producers that have left are remembered."""
    broker_deduplication_entries_interval: int = 1_000
    """The number of entries after which a snapshot is taken; at least 1."""
    broker_deduplication_producer_inactivity_timeout_minutes: int = 360
    """How long the name of a producer that has left is remembered."""

    dispatcher_max_read_batch_size: int = 100
    """The largest number of entries in one read and in one turn of sending; at least 1."""
    dispatcher_max_read_size_bytes: int = 5 * 1024 * 1024
    """The largest number of bytes in one read. A larger entry is read alone."""
    dispatcher_max_round_robin_batch_size: int = 20
    """Shared: how many entries one consumer gets before the next consumer has its turn; at least 1."""
    subscription_key_shared_use_consistent_hashing: bool = True
    """Key_Shared: whether keys are spread by consistent hashing; otherwise ranges of hashes are split in two."""
    subscription_key_shared_consistent_hashing_replica_points: int = 100
    """Key_Shared: how many points on the ring of hashes each consumer has."""
    key_shared_look_ahead_msg_in_replay_threshold_per_consumer: int = 4_000
    """Key_Shared: how many entries with blocked keys may wait while reading goes on for other keys. The limit of a
    subscription is this number times its consumers, or the limit per subscription, whichever is lower."""
    key_shared_look_ahead_msg_in_replay_threshold_per_subscription: int = 40_000
    """Key_Shared: the limit of a subscription; see the limit per consumer."""
    dispatcher_read_failure_backoff_initial_time_in_ms: int = 15_000
    """The pause after a read of a backlog has failed for the first time."""
    dispatcher_read_failure_backoff_max_time_in_ms: int = 60_000
    """The longest pause after reads that have failed again and again."""
    active_consumer_failover_delay_time_millis: int = 1_000
    """Failover: how long a new active consumer waits for acknowledgements of the old one."""
    active_consumer_failover_consistent_hashing: bool = False
    """Failover: whether the active consumer is chosen by consistent hashing of the topic's name. Otherwise the
    order of the consumers' names and the number of the partition decide."""

    # The following fields hold where neither the topic nor its namespace has a policy (see `effective_policies`).
    ttl_duration_default_in_seconds: int = 0
    """The default time to live of messages; 0 means that messages do not expire."""
    subscription_expiration_time_minutes: int = 0
    """After how many minutes without a consumer a subscription is deleted; 0 means never."""
    default_retention_time_in_minutes: int = 0
    """How many minutes acknowledged messages are retained; 0 means "not at all", and -1 "for ever"."""
    default_retention_size_in_mb: int = 0
    """How many MB of acknowledged messages are retained; 0 means "none", and -1 "without a limit"."""
    backlog_quota_default_limit_bytes: int = -1
    """The backlog quota in bytes; -1 means that there is no quota."""
    backlog_quota_default_limit_gb: float = -1
    """The backlog quota in GB. If it is positive, it is used instead of the quota in bytes."""
    backlog_quota_default_limit_second: int = -1
    """The backlog quota as the age of the oldest message; -1 means that there is no quota."""
    backlog_quota_default_retention_policy: str = "producer_request_hold"
    """What happens to a topic above its quota: producers wait, producers are refused, or the oldest messages are
    given up."""
    broker_delete_inactive_topics_enabled: bool = True
    """Whether topics that nobody uses are deleted."""
    broker_delete_inactive_topics_mode: str = "delete_when_no_subscriptions"
    """Which topics count as unused: those without a subscription, or also those whose subscriptions have
    acknowledged everything."""
    broker_delete_inactive_topics_frequency_seconds: int = 60
    """The interval between two checks for topics that nobody uses any more."""
    broker_delete_inactive_topics_max_inactive_duration_seconds: int = 0
    """How long a topic must be inactive before it is deleted; 0 means the interval between two checks."""
    broker_service_compaction_threshold_in_bytes: int = 0
    """The uncompacted bytes above which a topic is compacted; 0 means that a topic is compacted only on request."""
    topic_compaction_retain_null_key: bool = False
    """Whether messages without a key stay when a topic is compacted."""
    broker_deduplication_enabled: bool = False
    """Whether messages that a producer sends a second time are dropped."""
    broker_deduplication_snapshot_interval_seconds: int = 120
    """The age at which a snapshot of deduplication is replaced."""
    delayed_delivery_enabled: bool = True
    """Whether messages that ask for a later delivery are delivered later. Otherwise they are delivered at once."""
    delayed_delivery_tick_time_millis: int = 1_000
    """How exact the time of a delayed delivery is."""
    delayed_delivery_max_delay_in_millis: int = 0
    """The longest delay that a message may ask for; a longer one is refused. 0 means "no limit"."""
    encryption_require_on_producer: bool = False
    """Whether producers have to encrypt their messages."""
    fill_ack_holes_interval_seconds: int = 0
    """A message that stays unacknowledged for more than this many seconds, while later messages are acknowledged, is
    delivered again; 0 switches this off. Apache's broker has no such key."""
    max_publish_rate_per_topic_in_messages: int = 0
    """How many messages a second a topic accepts; 0 means "no limit"."""
    max_publish_rate_per_topic_in_bytes: int = 0
    """How many bytes a second a topic accepts; 0 means "no limit"."""
    dispatch_throttling_rate_per_topic_in_msg: int = 0
    """How many messages a second a topic sends to its consumers; 0 or less means "no limit"."""
    dispatch_throttling_rate_per_topic_in_byte: int = 0
    """How many bytes a second a topic sends to its consumers; 0 or less means "no limit"."""
    dispatch_throttling_rate_per_subscription_in_msg: int = 0
    """How many messages a second a subscription sends to its consumers; 0 or less means "no limit"."""
    dispatch_throttling_rate_per_subscription_in_byte: int = 0
    """How many bytes a second a subscription sends to its consumers; 0 or less means "no limit"."""
    dispatch_throttling_rate_relative_to_publish_rate: bool = False
    """Whether dispatch rates come on top of the rate of publishing."""
    subscribe_throttling_rate_per_consumer: int = 0
    """How often a consumer may subscribe within `subscribe_rate_period_per_consumer_in_second`; 0 means "no limit"."""
    subscribe_rate_period_per_consumer_in_second: int = 30
    """The period of `subscribe_throttling_rate_per_consumer`."""
    schema_compatibility_strategy: str = "FULL"
    """Which changes of a topic's schema are allowed."""
    is_allow_auto_update_schema_enabled: bool = True
    """Whether a producer or consumer with a new compatible schema registers it. Otherwise only an administrator
    does."""
    is_schema_validation_enforced: bool = False
    """Whether a producer without a schema is refused at a topic that has one."""

    def __post_init__(self) -> None:
        """Checks the settings. Raises ValueError, which names the field."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and value < _LEAST.get(field.name, 0):
                raise ValueError(f"{field.name} is {value}, must be at least {_LEAST.get(field.name, 0)}")
        unknown = set(self.subscription_types_enabled) - set(ALL_SUBSCRIPTION_TYPES)
        if unknown:
            raise ValueError(f"subscription_types_enabled names unknown types: {', '.join(sorted(unknown))}")


_LEAST = {
    "broker_deduplication_max_number_of_producers": 1,
    "broker_deduplication_entries_interval": 1,
    "broker_deduplication_producer_inactivity_timeout_minutes": 1,
    "default_num_partitions": 1,
    "default_number_of_namespace_bundles": 1,
    "default_retention_time_in_minutes": -1,
    "default_retention_size_in_mb": -1,
    "backlog_quota_default_limit_bytes": -1,
    "backlog_quota_default_limit_gb": -1,
    "backlog_quota_default_limit_second": -1,
    "broker_delete_inactive_topics_frequency_seconds": 1,
    "broker_deduplication_snapshot_interval_seconds": 1,
    "delayed_delivery_tick_time_millis": 1,
    "dispatch_throttling_rate_per_topic_in_msg": -1,
    "dispatch_throttling_rate_per_topic_in_byte": -1,
    "dispatch_throttling_rate_per_subscription_in_msg": -1,
    "dispatch_throttling_rate_per_subscription_in_byte": -1,
    "subscribe_rate_period_per_consumer_in_second": 1,
    "stats_update_frequency_in_secs": 1,
    "managed_ledger_stats_period_seconds": 1,
    "topic_load_timeout_seconds": 1,
    "max_concurrent_topic_load_request": 1,
    "dispatcher_max_read_batch_size": 1,
    "dispatcher_max_read_size_bytes": 1,
    "dispatcher_max_round_robin_batch_size": 1,
    "subscription_key_shared_consistent_hashing_replica_points": 1,
    "dispatcher_read_failure_backoff_initial_time_in_ms": 1,
    "dispatcher_read_failure_backoff_max_time_in_ms": 1,
}
