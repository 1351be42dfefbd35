"""One stored entry, decoded for compaction: the kind of the entry, and the messages of a batch.

A client decides how much its batch unpacks to, so unpacking is bounded. A batch that is too large, has too many
messages or contradicts its metadata is kept in one piece, like an encrypted batch. Large batches are decompressed on a
thread, and their messages are separated in portions."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from magnetar.server.process.turns import Steps, Turns
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import compress, decompress
from pulsar_proto.records.payload import (
    BatchMessage,
    body,
    build_payload,
    parse_metadata,
    skip_broker_entry_metadata,
    walk_batch,
)

BATCH_MESSAGES_MAX = 1 << 16
"""The largest number of messages in a batch that is separated; a batch that claims more messages is kept in one piece.
Clients make batches of up to 1,000 messages by default."""

INLINE_BYTES_MAX = 64 << 10
"""The largest body that is compressed and decompressed on the loop's thread, since the hand-over to another thread
would cost more than the work. Larger bodies are handed to a thread."""

MESSAGES_A_STEP = 128
"""How many messages of a batch are processed before other tasks of the loop may run."""
BYTES_A_STEP = 64 << 10
"""How many bytes of messages are processed before other tasks of the loop may run."""


class EntryKind(Enum):
    MARKER = "marker"
    """An entry that a broker wrote for brokers, for instance for a transaction or a replicated subscription."""
    SINGLE = "single"
    """One message, or one chunk of a message."""
    BATCH = "batch"
    """A batch whose messages could be read."""
    OPAQUE = "opaque"
    """A batch whose messages cannot be read, because it is encrypted, damaged or too large."""
    UNREADABLE = "unreadable"
    """An entry whose metadata cannot be decoded."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    kind: EntryKind
    payload: bytes
    """The entry's body, with its broker entry metadata if it has any."""
    metadata: pb.MessageMetadata
    messages: Sequence[BatchMessage] = ()
    """The messages of a BATCH; empty for other kinds."""


@dataclass(frozen=True, slots=True)
class ChangedBatch:
    """A batch from which messages were removed."""

    before: StoredEntry
    plain: bytes
    """The new body, not compressed yet."""

    async def payload(self) -> bytes:
        """Returns the payload that is stored: metadata and compressed body."""
        if len(self.plain) > INLINE_BYTES_MAX:
            return await asyncio.to_thread(self._payload)
        return self._payload()

    def _payload(self) -> bytes:
        metadata, payload = self.before.metadata, self.before.payload
        metadata.uncompressed_size = len(self.plain)
        rebuilt = build_payload(metadata, compress(metadata.compression, self.plain))
        return payload[: skip_broker_entry_metadata(payload)] + rebuilt


async def open_entry(payload: bytes, batch_bytes_max: int, turns: Turns) -> StoredEntry:
    """Decodes a stored entry; `payload` is its body. A batch that is larger than `batch_bytes_max` before compression
    becomes OPAQUE."""
    entry = _look(payload)
    if entry.kind is not EntryKind.BATCH:
        return entry
    metadata, packed = entry.metadata, body(payload)
    try:
        if metadata.compression != pb.NONE and metadata.uncompressed_size > INLINE_BYTES_MAX:
            plain = await asyncio.to_thread(
                decompress, metadata.compression, packed, metadata.uncompressed_size, batch_bytes_max
            )
        else:
            plain = decompress(metadata.compression, packed, metadata.uncompressed_size, batch_bytes_max)
        messages = await turns.run(_messages(plain, metadata.num_messages_in_batch))
    except MalformedFrame:
        return replace(entry, kind=EntryKind.OPAQUE)
    return replace(entry, messages=messages)


def _look(payload: bytes) -> StoredEntry:
    """Decodes the entry without separating the messages of a batch."""
    try:
        metadata = parse_metadata(payload)
    except MalformedFrame:
        return StoredEntry(EntryKind.UNREADABLE, payload, pb.MessageMetadata())
    if metadata.HasField("marker_type"):
        return StoredEntry(EntryKind.MARKER, payload, metadata)
    if not metadata.HasField("num_messages_in_batch"):
        return StoredEntry(EntryKind.SINGLE, payload, metadata)
    if metadata.encryption_keys:
        kind = EntryKind.OPAQUE if metadata.num_messages_in_batch > 1 else EntryKind.SINGLE
        return StoredEntry(kind, payload, metadata)
    if not 0 <= metadata.num_messages_in_batch <= BATCH_MESSAGES_MAX:
        return StoredEntry(EntryKind.OPAQUE, payload, metadata)
    return StoredEntry(EntryKind.BATCH, payload, metadata)


def _messages(plain: bytes, count: int) -> Steps[list[BatchMessage]]:
    """Separates the messages of a decompressed batch. Raises MalformedFrame."""
    messages: list[BatchMessage] = []
    size = 0
    for message in walk_batch(plain, count):
        messages.append(message)
        size += len(message[1]) + message[0].ByteSize()
        if size > BYTES_A_STEP or len(messages) % MESSAGES_A_STEP == 0:
            size = 0
            yield
    return messages
