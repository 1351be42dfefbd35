"""Parses the texts that consumers and readers send. This module does no I/O. Source: ConsumerCommand,
ConsumerHandler.onWebSocketText."""

from enum import Enum
from typing import NamedTuple

from magnetar.server.websocket.json_message_rules import (
    I32_MAX,
    MessageFault,
    SocketError,
    parse_message_id,
    parse_object,
    text_member,
    whole_member,
)
from pulsar_proto.pb import pulsar_api_pb2 as pb

MESSAGE_ID_CHARACTERS_MAX = 4_096
"""The longest text of a message id. Apache's ids of chunked messages have fewer than a hundred characters."""


class Verb(Enum):
    """The kinds of requests of a consumer."""

    ACK = "acknowledge"
    NACK = "negativeAcknowledge"
    PERMIT = "permit"
    UNSUBSCRIBE = "unsubscribe"
    IS_END_OF_TOPIC = "isEndOfTopic"


class ConsumerCommand(NamedTuple):
    verb: Verb
    message_id: pb.MessageIdData | None = None
    """The message that an ACK or NACK names; None in other commands."""
    permits: int = 0
    """The number of messages that a PERMIT asks for, at least 0; 0 in other commands."""


_VERBS = {verb.value: verb for verb in Verb}


def parse_consumer_command(text: bytes | bytearray) -> ConsumerCommand:
    """Parses one text of a consumer or reader. A text with an unknown `type` is an acknowledgement, as in Apache's
    handler. Raises MessageFault for a malformed text, and NotUtf8Error."""
    value = parse_object(text)
    verb = _VERBS.get(text_member(value, "type", None) or "", Verb.ACK)
    if verb is Verb.PERMIT:
        if value.get("permitMessages") is None:
            raise _fault("Missing required permitMessages field for 'permit' command")
        permits = whole_member(value, "permitMessages", 0)
        if not 0 <= permits <= I32_MAX:
            raise _fault(f"permitMessages is {permits}: expected 0 to {I32_MAX}")
        return ConsumerCommand(verb, permits=permits)
    if verb in (Verb.UNSUBSCRIBE, Verb.IS_END_OF_TOPIC):
        return ConsumerCommand(verb)
    message_id = text_member(value, "messageId", None)
    if message_id is None:
        raise _fault(f"Missing required messageId field for '{verb.value}' command")
    if len(message_id) > MESSAGE_ID_CHARACTERS_MAX:
        raise _fault(f"messageId has {len(message_id)} characters")
    return ConsumerCommand(verb, parse_message_id(message_id))


def _fault(text: str) -> MessageFault:
    return MessageFault(SocketError.FAILED_TO_DESERIALIZE_FROM_JSON, text)
