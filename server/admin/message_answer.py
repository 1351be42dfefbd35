"""Makes the answer to a call from one stored message: the message's content is the body, everything else is in headers.

A batch is answered as a whole. The header `X-Pulsar-num-batch-message` says how many messages the batch has, and
clients take the batch apart.

Sources: PersistentTopicsBase.generateResponseWithEntry; answers recorded from Pulsar 4.0.7.
"""

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

from magnetar.server.stats.traffic_stats import iso_time
from magnetar.server.web.calls import Refusal, Text
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import decompress
from pulsar_proto.records.payload import body, parse_metadata, txn_of
from pulsar_proto.text import shown

if TYPE_CHECKING:
    from magnetar.server.topics.backlog import StoredMessage
    from magnetar.server.topics.transactions.transaction_buffer import TransactionBuffer as Transactions

HEADER_CHARACTERS_MAX = 16 << 10
"""A header with a longer value (properties, a key) is left out, because clients refuse an answer with such a header."""

PROPERTY_CHARACTERS = 6
"""How many characters each property takes in the header beside its key and value: quotation marks, colon, comma."""


async def message_answer(found: "StoredMessage | None", missing: str, transactions: "Transactions | None") -> Text:
    """Returns a message as an answer; `transactions` are those of its topic, if the topic has any. Raises Refusal 404
    with the text `missing` when `found` is None, and 500 when the message cannot be parsed."""
    if found is None:
        raise Refusal(404, missing)
    try:
        metadata = parse_metadata(found.payload)
        content = body(found.payload)
    except MalformedFrame as error:
        raise Refusal(500, f"The message {found.position} cannot be understood: {error}") from error
    if metadata.compression != pb.NONE and not metadata.encryption_keys:
        content = await asyncio.to_thread(_decompressed, content, metadata)
    headers = {**_headers(found.position, metadata, content), **_transaction(found.position, metadata, transactions)}
    return Text(content, headers={key: value for key, value in headers.items() if value is not None})


def _decompressed(content: bytes, metadata: pb.MessageMetadata) -> bytes:
    """Returns the content of a message, decompressed. Raises Refusal 500 when the content is damaged."""
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
        "X-Pulsar-publish-time": _date(metadata.publish_time),
        "X-Pulsar-event-time": _date(metadata.event_time) if metadata.event_time else None,
        "X-Pulsar-deliver-at-time": _date(metadata.deliver_at_time) if metadata.deliver_at_time else None,
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
    }


def _transaction(
    position: Position, metadata: pb.MessageMetadata, transactions: "Transactions | None"
) -> dict[str, str | None]:
    """Returns the headers that say whether consumers get the message."""
    txn_id = txn_of(metadata)
    is_aborted = txn_id is not None and transactions is not None and transactions.is_aborted(txn_id)
    is_uncommitted = transactions is not None and position > transactions.max_read_position
    return {
        "X-Pulsar-txnid-least-bits": _number(metadata, "txnid_least_bits"),
        "X-Pulsar-txnid-most-bits": _number(metadata, "txnid_most_bits"),
        "X-Pulsar-txn-aborted": None if txn_id is None else str(is_aborted).lower(),
        "X-Pulsar-txn-uncommitted": str(is_uncommitted).lower(),
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
    """Returns a text in which question marks replace the characters that would end the header or begin another header.
    Returns None when the text is too long."""
    if len(text) > HEADER_CHARACTERS_MAX:
        return None
    return "".join(char if char.isprintable() else "?" for char in shown(text))


def _date(time_ms: int) -> str:
    """Returns a time as Java prints an Instant, or the number when Python has no such time."""
    try:
        return iso_time(time_ms)
    except (OverflowError, ValueError, OSError):
        return str(time_ms)
