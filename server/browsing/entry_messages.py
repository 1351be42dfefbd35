"""Takes a stored entry apart: the messages of a batch, decompressed, or the one message that it is."""

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import decompress
from pulsar_proto.records.payload import metadata_and_body, skip_broker_entry_metadata, walk_batch
from pulsar_proto.text import shown

ON_THE_LOOP_BYTES = 16 << 10
"""A compressed body of up to this size when it is unpacked is decompressed on the event loop, which takes less time
than a thread."""


class StoredMessage(NamedTuple):
    """One message as it is stored."""

    position: Position
    metadata: pb.MessageMetadata
    """The metadata of the entry; that of a batch describes all of its messages."""
    body: bytes
    """The message's value, decompressed; what is encrypted stays as it is."""
    batch_index: int = -1
    single: pb.SingleMessageMetadata | None = None
    """The metadata of the message within its batch."""
    fault: str = ""
    """Why the body could not be taken apart; the body is then what is stored."""

    @property
    def is_chunk(self) -> bool:
        return self.metadata.num_chunks_from_msg > 1

    @property
    def own(self) -> pb.MessageMetadata | pb.SingleMessageMetadata:
        """The metadata that describes this message alone: its key, its properties, its event time."""
        return self.metadata if self.single is None else self.single

    @property
    def key(self) -> str | None:
        return shown(self.own.partition_key) if self.own.HasField("partition_key") else None

    @property
    def properties(self) -> dict[str, str]:
        return {shown(each.key): shown(each.value) for each in self.own.properties}


async def messages_of_entry(position: Position, payload: bytes) -> Iterator[StoredMessage]:
    """Returns the messages of an entry. An entry that cannot be understood is one message with a `fault`; so is the
    rest of a batch behind a message that cannot be understood."""
    try:
        metadata, body = metadata_and_body(payload[skip_broker_entry_metadata(payload) :])
    except MalformedFrame as error:
        return iter((StoredMessage(position, pb.MessageMetadata(), payload, fault=str(error)),))
    # A chunk is a part of what was compressed, and only the producer's keys unpack what is encrypted.
    if metadata.encryption_keys or metadata.num_chunks_from_msg > 1:
        return iter((StoredMessage(position, metadata, body),))
    try:
        body = await unpacked(metadata, body)
    except MalformedFrame as error:
        return iter((StoredMessage(position, metadata, body, fault=str(error)),))
    if not metadata.HasField("num_messages_in_batch"):
        return iter((StoredMessage(position, metadata, body),))
    return _messages_of_batch(position, metadata, body)


async def unpacked(metadata: pb.MessageMetadata, body: bytes) -> bytes:
    """Returns a body decompressed. Raises MalformedFrame when the body is damaged or too large."""
    size = metadata.uncompressed_size
    if metadata.compression == pb.NONE or size <= ON_THE_LOOP_BYTES:
        return decompress(metadata.compression, body, size)
    return await asyncio.to_thread(decompress, metadata.compression, body, size)


def _messages_of_batch(position: Position, metadata: pb.MessageMetadata, body: bytes) -> Iterator[StoredMessage]:
    index = 0
    try:
        for single, value in walk_batch(body, metadata.num_messages_in_batch):
            if not single.compacted_out:
                yield StoredMessage(position, metadata, value, index, single)
            index += 1
    except MalformedFrame as error:
        yield StoredMessage(position, metadata, b"", index, pb.SingleMessageMetadata(payload_size=0), str(error))
