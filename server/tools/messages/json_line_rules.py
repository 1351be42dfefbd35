"""A message as one line of JSON: what `consume -o json` and `read -o json` print, and what `produce -o json` reads.
This module does no I/O.

    {"topic": "persistent://public/default/t", "partition": -1, "id": "3:0:-1", "key": "k", "value": "text",
     "properties": {"a": "1"}, "publishTime": 1763966400000, "redeliveryCount": 0, "producerName": "p"}

A value that is not UTF-8 is in base64, and `"valueEncoding": "base64"` says so. A value that was decoded by its schema
is JSON itself. A null value is null. A message without a key, an ordering key, an event time or a schema has no member
`key`, `orderingKey`, `eventTime` or `schemaVersion`. Times are milliseconds since 1970.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from magnetar.server.tools.messages.message_fields import NOT_DECODED, MessageFields

U64_MAX = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to publish. `value` is None for a null value."""

    value: bytes | None
    key: str = ""
    ordering_key: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    event_time_ms: int = 0


def json_line(message: MessageFields) -> bytes:
    """Returns the line of a message, with its end."""
    line: dict[str, Any] = {"topic": message.topic, "partition": message.partition, "id": message.id}
    if message.key:
        line["key"] = message.key
    if message.ordering_key:
        line["orderingKey"] = message.ordering_key
    if message.decoded is not NOT_DECODED:
        line["value"] = message.decoded
    elif message.value is None:
        line["value"] = None
    else:
        try:
            line["value"] = message.value.decode()
        except UnicodeDecodeError:
            line["value"] = base64.b64encode(message.value).decode()
            line["valueEncoding"] = "base64"
    line["properties"] = dict(message.properties)
    line["publishTime"] = message.publish_time_ms
    if message.event_time_ms:
        line["eventTime"] = message.event_time_ms
    line["redeliveryCount"] = message.redelivery_count
    line["producerName"] = message.producer
    if message.schema_version >= 0:
        line["schemaVersion"] = message.schema_version
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"


def parse_json_line(text: bytes) -> Outgoing:
    """Reads a message to publish from a line such as `json_line` returns. Members that say where a message was are
    ignored. A value that is neither text nor null is published as its JSON. Raises ValueError with a sentence."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if not isinstance(line, dict) or "value" not in line:
        raise ValueError('it is no object with a member "value"')
    return Outgoing(
        _value(line["value"], line.get("valueEncoding")),
        _text(line, "key"),
        _text(line, "orderingKey"),
        _properties(line.get("properties")),
        _time_ms(line.get("eventTime")),
    )


def _value(value: Any, encoding: Any) -> bytes | None:
    if encoding == "base64":
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise ValueError('"value" is not base64, although "valueEncoding" says so') from None
    if encoding is not None:
        raise ValueError('"valueEncoding" can only be "base64"')
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError('"value" is a text that is not Unicode') from None


def _text(line: Mapping[str, Any], name: str) -> str:
    value = line.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f'"{name}" is no text')
    return value


def _properties(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise ValueError('"properties" is no object of texts')
    return value


def _time_ms(value: Any) -> int:
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= U64_MAX:
        raise ValueError('"eventTime" is no number of milliseconds since 1970')
    return value
