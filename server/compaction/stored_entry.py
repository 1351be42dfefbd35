"""One stored entry as compaction looks at it: of which kind it is, and of a batch its messages.

What a batch unpacks to is decided by who made it, and is bounded: a batch that is larger, has more messages or is not
what its metadata says stays in one piece, like an encrypted one. Large ones are decompressed on a thread, and their
messages taken apart in portions.
"""

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
"""A batch that claims more stays in one piece. Clients make batches of 1,000."""

INLINE_BYTES_MAX = 64 << 10
"""Larger bodies are compressed and decompressed on a thread: to hand over costs more than a small one takes."""

MESSAGES_A_STEP = 128
"""Of a batch, between two moments when others may run."""
BYTES_A_STEP = 64 << 10
"""The same for large messages."""


class EntryKind(Enum):
    MARKER = "marker"
    """A broker wrote it for brokers."""
    SINGLE = "single"
    """One message, or a chunk of one."""
    BATCH = "batch"
    """With messages that are known."""
    OPAQUE = "opaque"
    """A batch that only its readers can read."""
    UNREADABLE = "unreadable"
    """Its metadata says nothing."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    kind: EntryKind
    payload: bytes
    """The entry's body, with its broker entry metadata if it has any."""
    metadata: pb.MessageMetadata
    messages: Sequence[BatchMessage] = ()
    """Of a BATCH."""


@dataclass(frozen=True, slots=True)
class ChangedBatch:
    """What is left of a batch that loses messages: its metadata, and its body before compression."""

    before: StoredEntry
    plain: bytes

    async def payload(self) -> bytes:
        """As it is stored."""
        if len(self.plain) > INLINE_BYTES_MAX:
            return await asyncio.to_thread(self._payload)
        return self._payload()

    def _payload(self) -> bytes:
        metadata, payload = self.before.metadata, self.before.payload
        metadata.uncompressed_size = len(self.plain)
        rebuilt = build_payload(metadata, compress(metadata.compression, self.plain))
        return payload[: skip_broker_entry_metadata(payload)] + rebuilt


async def open_entry(payload: bytes, batch_bytes_max: int, turns: Turns) -> StoredEntry:
    """`payload` is a stored entry's body. `batch_bytes_max` bounds what a batch may be before compression."""
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
    """Without looking into a batch."""
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
    """Raises MalformedFrame."""
    messages: list[BatchMessage] = []
    size = 0
    for message in walk_batch(plain, count):
        messages.append(message)
        size += len(message[1]) + message[0].ByteSize()
        if size > BYTES_A_STEP or len(messages) % MESSAGES_A_STEP == 0:
            size = 0
            yield
    return messages
