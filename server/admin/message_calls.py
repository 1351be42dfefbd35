"""Single messages, found by their place in a backlog or in the topic or by id; message ids by time; sizes of backlogs.

A batch is answered as a whole. Clients take it apart, because `X-Pulsar-num-batch-message` says how many messages it
has.

Sources: PersistentTopicsBase (internalPeekNthMessageAsync, generateResponseWithEntry, internalExamineMessageAsync,
internalAnalyzeSubscriptionBacklog); answers recorded from Pulsar 4.0.7.
"""

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

from magnetar.server.admin import bodies
from magnetar.server.admin.call_paths import TOPIC, topic_of
from magnetar.server.admin.subscription_calls import (
    SUBSCRIPTION,
    message_id_of,
    number_of,
    refuse_partitioned,
    subscription_of,
)
from magnetar.server.admin.topic_calls import loaded, message_id
from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.stats.internal_stats import unreadable as unreadable_json
from magnetar.server.stats.traffic_stats import iso_time
from magnetar.server.topics import backlog
from magnetar.server.web.calls import Answer, Call, Refusal, Route, Text
from magnetar.server.web.needs import topic
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.ids import EARLIEST, Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import decompress
from pulsar_proto.records.payload import body, message_count, parse_metadata
from pulsar_proto.text import shown

if TYPE_CHECKING:
    from magnetar.server.topics.backlog import StoredMessage

SCANNED_ENTRIES_MAX = 10_000
"""A call that counts a backlog stops after so many entries, and says that it did
(subscriptionBacklogScanMaxEntries)."""

HEADER_CHARACTERS_MAX = 16 << 10
"""A header with a longer value (properties, a key) is left out, because with it clients would refuse the whole
answer."""

PROPERTY_CHARACTERS = 6
"""What each property takes in the header beside its key and value: quotation marks, colon, comma."""

SCAN_SECONDS = 20.0
"""One call looks for unreadable entries for so long."""

SCANNED_AT_ONCE = 100
SCANNED_BYTES_AT_ONCE = 5 << 20


async def peek(call: Call) -> Answer:
    """Answers with the n-th message that a subscription has not acknowledged. A subscription that does not exist is
    made at the first message, as Apache does (PersistentTopicsBase.internalPeekNthMessageAsync), because tests of the
    official clients rely on it."""
    name = topic_of(call)
    if not name.is_persistent:
        raise Refusal(405, "Peek messages on a non-persistent topic is not allowed")
    number = number_of(call, "messagePosition", bodies.INT_MAX)
    if number < 1:
        raise Refusal(400, f"messagePosition must be 1 or more, not {number}")
    await refuse_partitioned(call, "Peek messages on a partitioned topic is not allowed")
    held = await loaded(call)
    subscription = await held.create_subscription(call.parts["subscription"], EARLIEST)
    found = await backlog.peek(subscription, number)
    return await _answer(found, "Message not found")


async def by_id(call: Call) -> Answer:
    """Answers with the message of a ledger id and an entry id."""
    position = Position(
        number_of(call, "ledgerId", bodies.LONG_MAX),
        number_of(call, "entryId", bodies.LONG_MAX),
    )
    await refuse_partitioned(call, "GetMessageById is not allowed on partitioned-topic")
    return await _answer(await backlog.message_at(await loaded(call), position), "Message id not found")


async def examine(call: Call) -> Answer:
    """Answers with the n-th message (`messagePosition`) from the end of the topic, or from its beginning if
    `initialPosition` is `earliest`."""
    if not topic_of(call).is_persistent:
        raise Refusal(405, "Examine messages on a non-persistent topic is not allowed")
    await refuse_partitioned(
        call,
        "Examine messages on a partitioned topic is not allowed, please try examine message on specific topic "
        "partition",
    )
    from_end = call.query.get("initialPosition") != "earliest"
    number = bodies.integer(call.query.get("messagePosition", "1"), what="messagePosition")
    found = await backlog.examine(await loaded(call), number, from_end=from_end)
    if found is None:
        raise Refusal(412, "Could not examine messages due to the total message is zero")
    return await _answer(found, "Message not found")


async def id_by_time(call: Call) -> Answer:
    """Answers with the id of the first message that was published at a time or later; when there is none, with the id
    that the next message will get."""
    timestamp = number_of(call, "timestamp", bodies.LONG_MAX)
    await refuse_partitioned(
        call,
        "Get message ID by timestamp on a partitioned topic is not allowed, please try do it on specific topic "
        "partition",
    )
    held = await loaded(call)
    with storage_faults_told():
        position = await held.first_published_at(timestamp)
    return message_id(position, held.name.partition_index)


async def backlog_size(call: Call) -> Answer:
    """Answers with the number of bytes that are stored after a message."""
    position = message_id_of(bodies.present(bodies.parse(call.body))).position
    held = await loaded(call)
    return held.ledger.total_size if position == EARLIEST else held.ledger.size_after(position)


async def analyze(call: Call) -> Answer:
    """Counts the entries and messages that a subscription has not acknowledged, from the message that the body names
    on, or all of them."""
    given = bodies.parse(call.body)
    await refuse_partitioned(
        call, "Analyze backlog on a partitioned topic is not allowed, please try do it on specific topic partition"
    )
    subscription = await subscription_of(call)
    ledger, cursor = subscription.topic.ledger, subscription.cursor
    at = cursor.next_unacked(cursor.mark_delete)
    if given is not bodies.ABSENT and given is not None:
        asked = message_id_of(given).position
        at = asked if asked > EARLIEST else ledger.first_position
    entries = messages = 0
    first: Position | None = None
    last: Position | None = None
    while entries < SCANNED_ENTRIES_MAX and not ledger.is_after_last(at):
        with storage_faults_told():
            run = await ledger.read(at, SCANNED_AT_ONCE, SCANNED_BYTES_AT_ONCE)
        if not run.entries:
            break
        for entry_id, payload in enumerate(run.entries, run.first_entry_id):
            if not cursor.is_acked(run.ledger_id, entry_id):
                last = Position(run.ledger_id, entry_id)
                first = first or last
                entries += 1
                messages += _count(payload, run.payload_offset)
        at = ledger.next_position(Position(run.ledger_id, run.first_entry_id + len(run.entries) - 1))
    return {
        "entries": entries,
        "messages": messages,
        "filterRejectedEntries": 0,
        "filterAcceptedEntries": entries,
        "filterRescheduledEntries": 0,
        "filterRejectedMessages": 0,
        "filterAcceptedMessages": messages,
        "filterRescheduledMessages": 0,
        "aborted": entries >= SCANNED_ENTRIES_MAX,
        **({} if first is None else {"firstMessageId": str(first), "lastMessageId": str(last)}),
    }


def _count(payload: bytes, offset: int) -> int:
    try:
        return message_count(payload, offset)
    except MalformedFrame:
        return 1


# --- a message as HTTP has it -----------------------------------------------------------------------------------------


async def _answer(found: "StoredMessage | None", missing: str) -> Text:
    """Returns a message as an answer. Raises Refusal 404 with the text `missing` when none was found, and 500 when it
    cannot be parsed."""
    if found is None:
        raise Refusal(404, missing)
    try:
        metadata = parse_metadata(found.payload)
        content = body(found.payload)
    except MalformedFrame as error:
        raise Refusal(500, f"The message {found.position} cannot be understood: {error}") from error
    if metadata.compression != pb.NONE and not metadata.encryption_keys:
        content = await asyncio.to_thread(decompressed, content, metadata)
    headers = {key: value for key, value in _headers(found.position, metadata, content).items() if value is not None}
    return Text(content, headers=headers)


def decompressed(content: bytes, metadata: pb.MessageMetadata) -> bytes:
    """Returns the content of a message without its compression. Raises Refusal 500 when it is damaged."""
    try:
        return decompress(metadata.compression, content, metadata.uncompressed_size)
    except MalformedFrame as error:
        raise Refusal(500, f"The message cannot be decompressed: {error}") from error


def _headers(position: Position, metadata: pb.MessageMetadata, content: bytes) -> dict[str, Any]:
    """Returns the headers that describe a message; None stands for a header that the message does not have."""
    single = not metadata.HasField("num_messages_in_batch")
    return {
        "X-Pulsar-Message-ID": f"{position.ledger_id}:{position.entry_id}",
        "X-Pulsar-PROPERTY": _properties(metadata),
        "X-Pulsar-publish-time": date(metadata.publish_time),
        "X-Pulsar-event-time": date(metadata.event_time) if metadata.event_time else None,
        "X-Pulsar-deliver-at-time": date(metadata.deliver_at_time) if metadata.deliver_at_time else None,
        "X-Pulsar-num-batch-message": None if single else str(metadata.num_messages_in_batch),
        "X-Pulsar-batch-size": None if single else str(len(content)),
        "X-Pulsar-producer-name": _line(metadata.producer_name),
        "X-Pulsar-sequence-id": str(metadata.sequence_id),
        "X-Pulsar-partition-key": _line(metadata.partition_key) if metadata.HasField("partition_key") else None,
        "X-Pulsar-partition-key-b64-encoded": "true" if metadata.partition_key_b64_encoded else None,
        "X-Pulsar-compression": (
            pb.CompressionType.Name(metadata.compression) if metadata.compression != pb.NONE else None
        ),
        "X-Pulsar-uncompressed-size": str(metadata.uncompressed_size) if metadata.compression != pb.NONE else None,
        "X-Pulsar-null-value": "true" if metadata.null_value else None,
        "X-Pulsar-null-partition-key": "true" if metadata.null_partition_key else None,
        "X-Pulsar-Is-Encrypted": "true" if metadata.encryption_keys else "false",
        "X-Pulsar-encryption-algo": _line(metadata.encryption_algo) if metadata.HasField("encryption_algo") else None,
        "X-Pulsar-Base64-schema-version-b64encoded": _schema_version(metadata),
        "X-Pulsar-PROPERTY-TOTAL-CHUNKS": _number(metadata, "num_chunks_from_msg"),
        "X-Pulsar-PROPERTY-CHUNK-ID": _number(metadata, "chunk_id"),
        "X-Pulsar-PROPERTY-TOTAL-CHUNK-MSG-SIZE": _number(metadata, "total_chunk_msg_size"),
        "X-Pulsar-uuid": _line(metadata.uuid) if metadata.HasField("uuid") else None,
        "X-Pulsar-marker-type": _number(metadata, "marker_type"),
        "X-Pulsar-txnid-least-bits": _number(metadata, "txnid_least_bits"),
        "X-Pulsar-txnid-most-bits": _number(metadata, "txnid_most_bits"),
        "X-Pulsar-txn-uncommitted": "false",
    }


def _schema_version(metadata: pb.MessageMetadata) -> str | None:
    return base64.b64encode(metadata.schema_version).decode() if metadata.HasField("schema_version") else None


def _number(metadata: pb.MessageMetadata, field: str) -> str | None:
    return str(getattr(metadata, field)) if metadata.HasField(field) else None  # type: ignore[arg-type]


def _properties(metadata: pb.MessageMetadata) -> str | None:
    properties: dict[str, str] = {}
    room = HEADER_CHARACTERS_MAX
    for pair in metadata.properties:
        room -= len(pair.key) + len(pair.value) + PROPERTY_CHARACTERS
        if room < 0:
            return None
        properties[shown(pair.key)] = shown(pair.value)
    return json.dumps(properties, separators=(",", ":"))


def _line(text: str) -> str | None:
    """Returns a text with question marks for the characters that would end the header or begin another one; None when
    the text is too long."""
    if len(text) > HEADER_CHARACTERS_MAX:
        return None
    return "".join(char if char.isprintable() else "?" for char in shown(text))


def date(time_ms: int) -> str:
    """Returns a time as Java prints an Instant, or the number when Python has no such time."""
    try:
        return iso_time(time_ms)
    except (OverflowError, ValueError, OSError):
        return str(time_ms)


async def unreadable(call: Call) -> Answer:
    """Reads the topic to its end and answers with the entries that every bookie has lost; it does not skip them. If
    that takes longer than SCAN_SECONDS, the answer is not `complete`, and the client goes on with a call whose
    parameter `after` is what was `scanned` last."""
    if not topic_of(call).is_persistent:
        raise Refusal(405, "Non-persistent topics store nothing")
    await refuse_partitioned(call, "Ask for the unreadable entries of a topic partition")
    after = _position(call.query.get("after", "-1:-1"))
    ledger = (await loaded(call)).ledger
    with storage_faults_told():
        scanned = await ledger.scan(after, asyncio.get_running_loop().time() + SCAN_SECONDS)
    return {
        "unreadable": [unreadable_json(gap) for gap in ledger.gaps.known if gap.end > after],
        "scanned": str(scanned),
        "complete": ledger.is_after_last(ledger.next_position(scanned)),
    }


def _position(text: str) -> Position:
    """Reads a position like 12:345. Raises Refusal 400."""
    try:
        ledger_id, entry_id = map(int, text.split(":"))
    except ValueError:
        raise Refusal(400, f"after must be a position like 12:345, not {text!r}") from None
    return Position(ledger_id, entry_id)


ROUTES = (
    Route("GET", f"{TOPIC}/unreadable", unreadable, topic("GET_STATS")),
    Route("GET", f"{SUBSCRIPTION}/position/{{messagePosition}}", peek, topic("PEEK_MESSAGES")),
    Route("POST", f"{SUBSCRIPTION}/analyzeBacklog", analyze, topic("CONSUME")),
    Route("GET", f"{TOPIC}/ledger/{{ledgerId}}/entry/{{entryId}}", by_id, topic("PEEK_MESSAGES")),
    Route("GET", f"{TOPIC}/examinemessage", examine, topic("PEEK_MESSAGES")),
    Route("GET", f"{TOPIC}/messageid/{{timestamp}}", id_by_time, topic("PEEK_MESSAGES")),
    Route("PUT", f"{TOPIC}/backlogSize", backlog_size, topic("GET_BACKLOG_SIZE")),
)
