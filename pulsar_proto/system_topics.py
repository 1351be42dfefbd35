"""Says which topics are Pulsar's own. Source: SystemTopicNames (pulsar-common)."""

from pulsar_proto.names import TopicName

SYSTEM_TOPICS = frozenset(
    {
        "__change_events",
        "__transaction_buffer_snapshot",
        "__transaction_buffer_snapshot_indexes",
        "__transaction_buffer_snapshot_segments",
        "transaction_coordinator_assign",
    }
)
TRANSACTION_LOG_PREFIX = "__transaction_log_"
PENDING_ACK_SUFFIX = "__transaction_pending_ack"


def is_system_topic(name: TopicName) -> bool:
    """Returns whether a topic, or the topic of which it is a partition, is one of Pulsar's own
    (SystemTopicNames.isSystemTopic). Any other name that begins with two underscores belongs to a user."""
    local = name.base.local_name
    return local in SYSTEM_TOPICS or local.startswith(TRANSACTION_LOG_PREFIX) or local.endswith(PENDING_ACK_SUFFIX)
