"""The JSON of WebSocket messages, both ways: messages to publish and their answers, messages for consumers, message ids
and times. This module does no I/O.

Members that are not known are ignored, and members that are null count as absent. Where a text is expected, a number or
a boolean stands for its text, as Jackson reads it. Sources: ProducerMessage, ProducerAck, ConsumerMessage,
WebSocketError; MessageIdImpl.toByteArray; DateFormatter.
"""

import re
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

import orjson
from pybase64 import b64decode, b64encode, b64encode_as_string

from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.varint import varint

U64_MAX = 2**64 - 1
I64_MAX = 2**63 - 1
I32_MAX = 2**31 - 1

TEXTS_MAX = 4_096
"""How many properties, and how many clusters, a message may have; with more of them, the metadata would be so large
that the topic refuses the message."""

FAULT_CHARACTERS_MAX = 500
"""The length at which a text that quotes the peer's message is cut off."""


class SocketError(IntEnum):
    """The codes of answers (WebSocketError)."""

    FAILED_TO_CREATE_PRODUCER = 1
    FAILED_TO_SUBSCRIBE = 2
    FAILED_TO_DESERIALIZE_FROM_JSON = 3
    FAILED_TO_SERIALIZE_TO_JSON = 4
    AUTHENTICATION_ERROR = 5
    NOT_AUTHORIZED_ERROR = 6
    PAYLOAD_ENCODING_ERROR = 7
    UNKNOWN_ERROR = 8


class MessageFault(Exception):
    """A fault in a message of the peer: a code, a text that names the fault, and the message's context if it could be
    read."""

    def __init__(self, code: SocketError, text: str, context: str | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.context = context


class NotUtf8Error(Exception):
    """A text of the peer is not UTF-8, which ends its socket (RFC 6455, section 8.1)."""


class RareMembers(NamedTuple):
    """The members that most messages lack. None and empty values stand for members that are absent."""

    replication_clusters: Sequence[str] = ()
    event_time_ms: int = 0
    """The event time in milliseconds; 0 when the message has no event time."""
    deliver_at_ms: int = 0
    deliver_after_ms: int = 0
    encryption_param: bytes | None = None
    compression_type: str | None = None
    uncompressed_size: int | None = None


NOTHING_RARE = RareMembers()


class ProducerMessage(NamedTuple):
    """A message to publish. None and empty values stand for members that are absent."""

    payload: bytes
    context: str | None
    properties: Mapping[str, str]
    key: str | None
    rare: RareMembers = NOTHING_RARE


_RARE_MEMBERS = frozenset(
    (
        "replicationClusters",
        "eventTime",
        "deliverAt",
        "deliverAfterMs",
        "encryptionParam",
        "compressionType",
        "uncompressedMessageSize",
    )
)
"""The members that most messages lack: looking for all of them took a fifth of the time of a publish."""


def parse_object(text: bytes | bytearray) -> dict[str, Any]:
    """Returns the JSON object that a text holds. Raises MessageFault when the text holds no JSON object, and
    NotUtf8Error when it is not UTF-8."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        _check_utf8(text)
        raise MessageFault(SocketError.FAILED_TO_DESERIALIZE_FROM_JSON, f"This is no JSON: {error}") from None
    if type(value) is not dict:
        raise MessageFault(SocketError.FAILED_TO_DESERIALIZE_FROM_JSON, "This JSON is no object")
    return value


def _check_utf8(text: bytes | bytearray) -> None:
    try:
        text.decode()
    except UnicodeDecodeError:
        raise NotUtf8Error("a text is not UTF-8") from None


def parse_producer_message(text: bytes | bytearray) -> ProducerMessage:
    """Reads a message to publish. Raises MessageFault for a malformed message, and NotUtf8Error."""
    value = parse_object(text)
    if len(value) == 1 and type(payload := value.get("payload")) is str:
        return ProducerMessage(from_base64(payload, "message-payload"), None, {}, None)
    context = text_member(value, "context", None)
    try:
        return _producer_message(value, context)
    except MessageFault as fault:
        fault.context = context
        raise


def _producer_message(value: dict[str, Any], context: str | None) -> ProducerMessage:
    payload = text_member(value, "payload", None)
    if payload is None:
        raise MessageFault(SocketError.PAYLOAD_ENCODING_ERROR, "The message has no payload")
    body = from_base64(payload, "message-payload")
    properties = _properties(value.get("properties"))
    key = text_member(value, "key", None)
    if _RARE_MEMBERS.isdisjoint(value):
        return ProducerMessage(body, context, properties, key)
    encryption_param = text_member(value, "encryptionParam", None)
    event_time = text_member(value, "eventTime", None)
    uncompressed = whole_member(value, "uncompressedMessageSize", -1)
    rare = RareMembers(
        _texts(value.get("replicationClusters"), "replicationClusters"),
        0 if event_time is None else parse_time(event_time),
        max(0, whole_member(value, "deliverAt", 0)),
        max(0, whole_member(value, "deliverAfterMs", 0)),
        from_base64(encryption_param, "encryptionParam") if encryption_param else None,
        text_member(value, "compressionType", None),
        None if uncompressed < 0 else min(uncompressed, I32_MAX),
    )
    return ProducerMessage(body, context, properties, key, rare)


def ack_text(message_id: bytes, context: str | None) -> bytes:
    """Returns the answer to a message that was stored."""
    if context is None:
        return b'{"result":"ok","messageId":"%b","errorCode":0,"schemaVersion":0}' % message_id
    return b'{"result":"ok","messageId":"%b","context":%b,"errorCode":0,"schemaVersion":0}' % (
        message_id,
        orjson.dumps(context),
    )


def error_text(code: SocketError, text: str, context: str | None) -> bytes:
    """Returns the answer to a message that was not stored. The answer's `errorCode` is always 0,
    because ProducerAck puts the code into `result`, where clients look for it."""
    answer: dict[str, object] = {"result": f"send-error:{code.value}", "errorMsg": text[:FAULT_CHARACTERS_MAX]}
    if context is not None:
        answer["context"] = context
    return orjson.dumps(answer | {"errorCode": 0, "schemaVersion": 0})


def consumer_text(
    message_id: str,
    payload: bytes | str,
    properties: Mapping[str, str],
    publish_time_ms: int,
    redelivery_count: int,
    event_time_ms: int = 0,
    key: str | None = None,
    encryption_context: Mapping[str, object] | None = None,
) -> bytes:
    """Returns a message as a consumer or reader gets it. A payload that is a text is in base64 already."""
    if not properties and not event_time_ms and key is None and encryption_context is None:
        return b'{"messageId":"%b","payload":"%b","properties":{},"publishTime":"%b","redeliveryCount":%d}' % (
            message_id.encode(),
            payload.encode() if isinstance(payload, str) else b64encode(payload),
            time_text(publish_time_ms).encode(),
            redelivery_count,
        )
    message: dict[str, object] = {
        "messageId": message_id,
        "payload": payload if isinstance(payload, str) else b64encode_as_string(payload),
        "properties": properties,
        "publishTime": time_text(publish_time_ms),
        "redeliveryCount": redelivery_count,
    }
    if event_time_ms:
        message["eventTime"] = time_text(event_time_ms)
    if encryption_context is not None:
        message["encryptionContext"] = encryption_context
    if key is not None:
        message["key"] = key
    return orjson.dumps(message)


# --- message ids -----------------------------------------------------------------------------------------------------


def message_id_text(
    ledger_id: int, entry_id: int, partition: int = -1, batch_index: int = -1, batch_size: int = 0
) -> str:
    """Returns the text of a message id: the bytes of MessageIdImpl.toByteArray in base64. Partition and batch index are
    left out when they are -1."""
    parts = [b"\x08", varint(ledger_id), b"\x10", varint(entry_id)]
    if partition >= 0:
        parts += (b"\x18", varint(partition))
    if batch_index >= 0:
        parts += (b"\x20", varint(batch_index))
    parts += (b"\x30", varint(batch_size))
    return b64encode_as_string(b"".join(parts))


def entry_id_texts(ledger_id: int, partition: int) -> Callable[[int], bytes]:
    """Returns a function that makes the texts of message ids of one ledger: it takes the id of an entry with a single
    message, and returns what `message_id_text` returns, in ASCII."""
    head = b"\x08%b\x10" % varint(ledger_id)
    tail = b"\x30\x00" if partition < 0 else b"\x18%b\x30\x00" % varint(partition)

    def text_of(entry_id: int) -> bytes:
        return b64encode(head + varint(entry_id) + tail)

    return text_of


def parse_message_id(text: str) -> pb.MessageIdData:
    """Returns the message id in a text that `message_id_text` has made. Raises MessageFault for any other text."""
    data = from_base64(text, "messageId")
    try:
        found = pb.MessageIdData.FromString(data)
    except Exception:
        raise MessageFault(SocketError.FAILED_TO_DESERIALIZE_FROM_JSON, "messageId is no message id") from None
    if not found.IsInitialized():
        raise MessageFault(SocketError.FAILED_TO_DESERIALIZE_FROM_JSON, "messageId is no message id")
    return found


# --- times -----------------------------------------------------------------------------------------------------------

_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:Z|([+-])(\d\d):(\d\d)(?::(\d\d))?)",
    re.IGNORECASE | re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE_SECONDS = 146_097 * 86_400
"""The length in seconds of 400 years, after which the Gregorian calendar repeats."""


def parse_time(text: str) -> int:
    """Returns milliseconds since the epoch of an ISO-8601 time with an offset (DateTimeFormatter.ISO_OFFSET_DATE_TIME).
    Raises MessageFault, also for a time before 1970, which no message can have."""
    found = _TIME.fullmatch(text)
    try:
        if found is None:
            raise ValueError("an ISO-8601 time with a zone is expected, like 2026-11-22T10:00:00.000Z")
        day, minute, second, fraction, sign, hours, minutes, seconds = found.groups()
        offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0), seconds=int(seconds or 0))
        moment = datetime.fromisoformat(f"{day}T{minute}:{second or '00'}").replace(
            tzinfo=timezone(-offset if sign == "-" else offset)
        )
        since_epoch_ms = (moment - _EPOCH) // timedelta(milliseconds=1) + int((fraction or "0")[:3].ljust(3, "0"))
        if since_epoch_ms <= 0:
            raise ValueError("it is before 1970")
    except (ValueError, OverflowError) as error:
        raise MessageFault(
            SocketError.PAYLOAD_ENCODING_ERROR, f"eventTime '{text[:40]}' could not be parsed: {error}"
        ) from None
    return since_epoch_ms


def time_text(time_ms: int) -> str:
    """Returns a time as DateTimeFormatter.ISO_OFFSET_DATE_TIME prints it: a fraction without its last zeros, and a plus
    before a year of more than four digits."""
    seconds, millis = divmod(time_ms, 1000)
    fraction = f".{millis:03}".rstrip("0") if millis else ""
    return f"{_second_text(seconds)}{fraction}Z"


@lru_cache(maxsize=100)
def _second_text(since_epoch_s: int) -> str:
    """Returns the text of a whole second. Most messages of a group were published in the same second."""
    cycles, seconds = divmod(since_epoch_s, _CYCLE_SECONDS)
    moment = _EPOCH + timedelta(seconds=seconds)
    year = moment.year + 400 * cycles
    plus = "+" if year > 9999 else ""
    return f"{plus}{year:04}-{moment:%m-%dT%H:%M:%S}"


# --- members ---------------------------------------------------------------------------------------------------------


def text_member(value: Mapping[str, Any], name: str, default: str | None) -> str | None:
    """Returns the text of a member, or `default` when the member is absent or null. Raises MessageFault for a list or
    an object."""
    found = value.get(name)
    return default if found is None else _text(found, name)


def whole_member(value: Mapping[str, Any], name: str, default: int) -> int:
    """Returns the whole number of a member; digits in quotes count too. Raises MessageFault for any other value, and
    for a number that is no Java long."""
    found = value.get(name)
    if found is None:
        return default
    if isinstance(found, str) and re.fullmatch(r"[+-]?[0-9]{1,19}", found):
        found = int(found)
    if type(found) is not int or not -I64_MAX <= found <= I64_MAX:
        raise MessageFault(SocketError.FAILED_TO_DESERIALIZE_FROM_JSON, f"{name} is no whole number of 64 bits")
    return found


def from_base64(text: str, what: str) -> bytes:
    """Decodes base64 as Java's Base64.getDecoder does: strictly, but the padding may be missing. Raises MessageFault
    for any other text; the fault's text names the member by the word `what`."""
    try:
        missing = -len(text) % 4
        if missing == 3 or (missing and text.endswith("=")):
            raise ValueError("the last unit does not have enough characters")
        # Arguments by position: by name they would take as long as the decoding.
        return b64decode(text + "=" * missing if missing else text, None, True)
    except (Base64Error, ValueError) as error:
        odd = _NOT_BASE64.search(text)
        reason = f"Illegal base64 character {ord(odd[0]):x}" if odd else str(error)
        raise MessageFault(SocketError.PAYLOAD_ENCODING_ERROR, f"Invalid Base64 {what} error={reason}") from None


_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=]")


def _properties(value: Any) -> Mapping[str, str]:
    if value is None:
        return {}
    if type(value) is not dict:
        raise MessageFault(SocketError.FAILED_TO_DESERIALIZE_FROM_JSON, "properties is no object")
    _check_count(len(value), "properties")
    if any(each is None for each in value.values()):
        raise MessageFault(SocketError.FAILED_TO_DESERIALIZE_FROM_JSON, "properties holds a null")
    return {name: _text(each, "a property") for name, each in value.items()}


def _check_count(count: int, name: str) -> None:
    if count > TEXTS_MAX:
        raise MessageFault(SocketError.PAYLOAD_ENCODING_ERROR, f"{name} holds {count} values: at most {TEXTS_MAX}")


def _texts(value: Any, name: str) -> list[str]:
    if value is None:
        return []
    if type(value) is not list or any(each is None for each in value):
        raise MessageFault(SocketError.FAILED_TO_DESERIALIZE_FROM_JSON, f"{name} is no list of texts")
    _check_count(len(value), name)
    return [_text(each, name) for each in value]


def _text(value: Any, name: str) -> str:
    if type(value) is str:
        return value
    if type(value) in (bool, int, float):
        return orjson.dumps(value).decode()
    raise MessageFault(SocketError.FAILED_TO_DESERIALIZE_FROM_JSON, f"{name} is no text")
