"""Says which topics are Pulsar's own. Source: SystemTopicNames (pulsar-common)."""

from pulsar_proto.names import TopicName

COORDINATOR_TOPIC = "transaction_coordinator_assign"
SYSTEM_TOPICS = frozenset(
    {
        "__change_events",
        "__transaction_buffer_snapshot",
        "__transaction_buffer_snapshot_indexes",
        "__transaction_buffer_snapshot_segments",
        COORDINATOR_TOPIC,
    }
)
TRANSACTION_LOG_PREFIX = "__transaction_log_"
_MARKS = ("transaction_", "__change_events")
"""Each name of a system topic contains one of these texts."""
PENDING_ACK_SUFFIX = "__transaction_pending_ack"


def is_system_topic(name: TopicName) -> bool:
    """Returns whether a topic, or the topic of which it is a partition, is one of Pulsar's own
    (SystemTopicNames.isSystemTopic). Any other name that begins with two underscores belongs to a user."""
    local = name.base.local_name
    if "__" not in local:  # the usual case, and loading a topic asks nine times
        return local == COORDINATOR_TOPIC
    return local in SYSTEM_TOPICS or is_transaction_log(local)


def is_transaction_log(local_name: str) -> bool:
    """Returns whether a managed ledger of this name is a log of transactions: one of a coordinator, or one of a
    subscription's pending acknowledgements. Such a log is opened by its owner only, never as a topic."""
    return local_name.startswith(TRANSACTION_LOG_PREFIX) or local_name.endswith(PENDING_ACK_SUFFIX)


def is_transaction_internal(name: TopicName) -> bool:
    """Returns whether no topic of this name may be loaded, because the name stands for a log of transactions or for a
    transaction coordinator (SystemTopicNames.isTransactionInternalName)."""
    return name.base.local_name == COORDINATOR_TOPIC or is_transaction_log(name.local_name)


def is_system_name(full_name: str) -> bool:
    """Returns `is_system_topic` for a topic's full name. For most names of users this costs a fraction of parsing the
    name, which counts in lists of hundreds of thousands of names."""
    return any(mark in full_name for mark in _MARKS) and is_system_topic(TopicName.parse(full_name))
