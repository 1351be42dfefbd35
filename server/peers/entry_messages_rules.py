"""Cuts an entry that a broker sent into its messages.

Batches and compressed bodies are read. Encrypted messages and chunks of large messages are not supported, because
brokers do not write such messages for each other. Source: ConsumerImpl.messageReceived,
receiveIndividualMessagesFromBatch.
"""

from base64 import b64decode
from collections.abc import Mapping
from typing import NamedTuple

from magnetar.server.peers.read_window_rules import MessagePlace
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import decompress
from pulsar_proto.records.payload import body, parse_metadata, split_batch, verify_checksum
from pulsar_proto.text import raw, shown

BODY_BYTES_MAX = 32 << 20
"""The largest body after decompression, in bytes. An entry with a larger one is malformed."""
MESSAGES_MAX = 100_000
"""The most messages of one batch. An entry with more is malformed."""


class PeerMessage(NamedTuple):
    """One message for the caller of a reader."""

    place: MessagePlace
    key: bytes | None
    value: bytes | None
    """The content, or None for a tombstone."""
    properties: Mapping[str, str]
    publish_time_ms: int
    event_time_ms: int
    producer_name: str
    sequence_id: int
    schema_version: bytes


def message_count(payload: bytes) -> int:
    """Returns how many messages an entry has. Raises MalformedFrame when the entry cannot be decoded."""
    return max(1, parse_metadata(payload).num_messages_in_batch)


def messages_of(entry: MessagePlace, payload: bytes) -> list[PeerMessage]:
    """Returns the messages of an entry, without messages that compaction has removed from a batch. Raises
    MalformedFrame when the entry cannot be decoded."""
    if not verify_checksum(payload):
        raise MalformedFrame(f"the entry {entry} does not agree with its checksum")
    metadata = parse_metadata(payload)
    if metadata.encryption_keys or metadata.num_chunks_from_msg > 1:
        raise MalformedFrame(f"the entry {entry} is encrypted or a part of a large message")
    content = decompress(metadata.compression, body(payload), metadata.uncompressed_size, BODY_BYTES_MAX)
    if not metadata.HasField("num_messages_in_batch"):
        return [_message(entry, metadata, metadata, content, metadata.sequence_id)]
    count = metadata.num_messages_in_batch
    if count > MESSAGES_MAX:
        raise MalformedFrame(f"the entry {entry} holds {count} messages")
    return [
        _message(
            MessagePlace(entry.ledger_id, entry.entry_id, index),
            metadata,
            single,
            value,
            single.sequence_id if single.HasField("sequence_id") else metadata.sequence_id + index,
        )
        for index, (single, value) in enumerate(split_batch(content, count))
        if not single.compacted_out
    ]


def _message(
    place: MessagePlace,
    metadata: pb.MessageMetadata,
    single: pb.MessageMetadata | pb.SingleMessageMetadata,
    value: bytes,
    sequence_id: int,
) -> PeerMessage:
    return PeerMessage(
        place,
        _key(single),
        None if single.null_value else value,
        {shown(each.key): shown(each.value) for each in single.properties},
        metadata.publish_time,
        single.event_time,
        shown(metadata.producer_name),
        sequence_id,
        metadata.schema_version,
    )


def _key(single: pb.MessageMetadata | pb.SingleMessageMetadata) -> bytes | None:
    if not single.HasField("partition_key"):
        return None
    key = raw(single.partition_key)
    if not single.partition_key_b64_encoded:
        return key
    try:
        return b64decode(key, validate=True)
    except ValueError:
        return key
