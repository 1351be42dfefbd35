"""From the official client's message to what is printed."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

from magnetar.server.tools.messages.json_line_rules import json_line
from magnetar.server.tools.messages.message_fields import MessageFields
from magnetar.server.tools.messages.output_format_rules import parse_format, render, without_control
from magnetar.server.tools.messages.position_rules import Place
from magnetar.server.tools.messages.schemas import ValueDecoder
from pulsar_proto.names import partition_index

Formatter = Callable[[MessageFields], bytes]


def place_of(message: Any) -> Place:
    """Returns where a message is. A partition's number is taken from its topic's name, because a client that reads one
    partition does not put it into the ids."""
    own = message.message_id()
    return Place(own.ledger_id(), own.entry_id(), partition_index(message.topic_name()), own.batch_index())


def formatter_of(form: str, as_json: bool, is_terminal: bool) -> Formatter:
    """Returns the function that makes a message's output. Raises ValueError for a format that cannot be used."""
    if as_json:
        return json_line
    parts = parse_format(form)
    if is_terminal:
        return lambda message: without_control(render(parts, message))
    return lambda message: render(parts, message)


def _text(get: Callable[[], str]) -> str:
    """Returns a text of a message. The client raises for one that is not UTF-8, which other clients may have sent."""
    try:
        return get()
    except UnicodeDecodeError as error:
        return bytes(error.object).decode("utf-8", "replace")


class MessagePrinter:
    """Makes the output of messages as the options ask for it."""

    def __init__(self, formatter: Formatter, decoder: ValueDecoder | None, command: str) -> None:
        """Without a decoder, values are printed as their bytes."""
        self._formatter = formatter
        self._decoder = decoder
        self._command = command
        self._has_complained = False

    def output_of(self, message: Any) -> bytes:
        return self._formatter(self._fields(message))

    def _fields(self, message: Any) -> MessageFields:
        inner = message._message
        fields = MessageFields(
            topic=inner.topic_name(),
            partition=partition_index(inner.topic_name()),
            id=str(place_of(message)),
            value=None if inner.has_null_value() else inner.data(),
            key=_text(inner.partition_key),
            ordering_key=_text(inner.ordering_key),
            properties=self._properties(inner),
            publish_time_ms=inner.publish_timestamp(),
            event_time_ms=inner.event_timestamp(),
            redelivery_count=inner.redelivery_count(),
            producer=_text(inner.producer_name),
            schema_version=inner.int_schema_version(),
        )
        if self._decoder is not None and fields.schema_version >= 0 and fields.value is not None:
            try:
                found = self._decoder.decode(fields.topic, fields.schema_version, fields.value)
                fields.decoded, fields.is_text = found
            except ValueError:
                self._complain(self._decoder.complaint)
        return fields

    def _properties(self, inner: Any) -> Mapping[str, str]:
        try:
            found: Mapping[str, str] = inner.properties()
            return found
        except UnicodeDecodeError:
            # The client gives all properties or none.
            self._complain(f"the properties of {inner.message_id()} are not UTF-8 and are left out")
            return {}

    def _complain(self, complaint: str) -> None:
        if complaint and not self._has_complained:
            self._has_complained = True
            print(f"magnetar {self._command}: {complaint}", file=sys.stderr)
