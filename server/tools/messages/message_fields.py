"""What a message has, as the commands print it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

NOT_DECODED = object()
"""Stands for the decoded value of a message that is shown as its bytes."""


@dataclass(slots=True)
class MessageFields:
    """A received message."""

    topic: str
    """The name in full, with the partition's suffix."""
    partition: int
    """-1 for a topic without partitions."""
    id: str
    value: bytes | None
    """The bytes of the value; None for a null value (a tombstone)."""
    key: str = ""
    """Empty when the message has no key."""
    ordering_key: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    publish_time_ms: int = 0
    event_time_ms: int = 0
    """0 when the message has no event time."""
    redelivery_count: int = 0
    producer: str = ""
    schema_version: int = -1
    """-1 when the message was published without a schema."""
    decoded: Any = NOT_DECODED
    """The value as JSON has it, decoded by the message's schema."""
    is_text: bool = False
    """Whether the bytes of a decoded value are what people read: a text, or JSON."""
