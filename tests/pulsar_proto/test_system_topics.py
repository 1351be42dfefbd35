"""Which topics are the system's own."""

import pytest

from pulsar_proto.names import TopicName
from pulsar_proto.system_topics import SYSTEM_TOPICS, is_system_name, is_system_topic, is_transaction_internal


@pytest.mark.parametrize(
    ("local", "system"),
    [
        ("__change_events", True),
        ("__transaction_buffer_snapshot-partition-2", True),
        ("__transaction_log_0", True),
        ("t-sub__transaction_pending_ack", True),
        ("__sys", False),
        ("plain", False),
    ],
)
def test_system_topics(local: str, system: bool) -> None:
    assert is_system_topic(TopicName.parse(f"persistent://public/default/{local}")) == system


@pytest.mark.parametrize(
    "local", [*sorted(SYSTEM_TOPICS), "__transaction_log_7", "t-s__transaction_pending_ack", "t", "__mine"]
)
@pytest.mark.parametrize("suffix", ["", "-partition-3"])
def test_full_names_are_judged_as_parsed_names_are(local: str, suffix: str) -> None:
    full = f"persistent://public/default/{local}{suffix}"
    assert is_system_name(full) == is_system_topic(TopicName.parse(full))


@pytest.mark.parametrize(
    ("local", "internal"),
    [
        ("transaction_coordinator_assign", True),
        ("transaction_coordinator_assign-partition-3", True),
        ("__transaction_log_0", True),
        ("t-s__transaction_pending_ack", True),
        ("__transaction_buffer_snapshot", False),
        ("__change_events", False),
        ("transaction_coordinator_assigned", False),
        ("plain", False),
    ],
)
def test_names_that_no_topic_may_have(local: str, internal: bool) -> None:
    assert is_transaction_internal(TopicName.parse(f"persistent://pulsar/system/{local}")) == internal
