"""Which topics are the system's own."""

import pytest

from pulsar_proto.names import TopicName
from pulsar_proto.system_topics import is_system_topic


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
