"""Turns the entries that topics write for consumers into single messages: bodies are decompressed, and batches are
separated into their messages.

The producer of an entry decides how large its body becomes by decompression, so the decompressed size is bounded: a
body that is larger than `BODY_BYTES_MAX` after decompression counts as damaged. Large bodies are decompressed on a
thread, and large batches are unpacked in portions.

Source: ConsumerImpl.messageReceived, uncompressPayloadIfNeeded, decryptPayloadIfNeeded,
receiveIndividualMessagesFromBatch.
"""

import asyncio
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from magnetar.server.process.turns import Steps, Turns
from magnetar.server.websocket.consumer_query_rules import CryptoFailureAction
from magnetar.server.websocket.json_message_rules import consumer_text, message_id_text
from magnetar.storage.managed.ack_sets import mask_of_words
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import decompress
from pulsar_proto.records.payload import body, metadata_and_body, parse_metadata, walk_batch
from pulsar_proto.text import shown

INLINE_BYTES_MAX = 64 << 10
"""Larger bodies are decompressed on a thread. For smaller bodies, handing them to a thread would cost more than the
work."""

BATCH_MESSAGES_MAX = 1 << 16
"""The largest number of messages in a batch. A batch whose metadata claim more messages counts as damaged."""

ENCODED_A_STEP = 3 * 85 << 10
"""The number of bytes that are encoded in one go: a multiple of 3, so that only the last part is padded."""

MESSAGES_A_STEP = 128
"""How many messages of a batch are separated before other tasks of the event loop may run."""

Metadata = pb.MessageMetadata | pb.SingleMessageMetadata


class StoredEntry(NamedTuple):
    """An entry that a topic has sent to a consumer: the fields of the MESSAGE command, and the payload."""

    consumer_id: int
    ledger_id: int
    entry_id: int
    redelivery_count: int
    ack_set: Sequence[int]
    """The messages of a batch that are to be consumed, as bits; empty for all of them."""
    payload: bytes


class ReceivedMessage(NamedTuple):
    """A message that is ready to be delivered."""

    entry: StoredEntry
    """The entry of the message, without its payload."""
    place: int
    """The message's index in its batch; 0 for a message that is in no batch."""
    batch_size: int
    """The number of messages in the message's batch; 0 for a message that is in no batch."""
    metadata: pb.MessageMetadata
    own: Metadata
    """The message's own metadata: SingleMessageMetadata within a batch, otherwise the same as `metadata`."""
    value: bytes
    encryption_context: Mapping[str, object] | None = None
    encoded: str = ""
    """The value in base64 if it is large and was therefore encoded beforehand; otherwise empty."""

    @property
    def messages_of_entry(self) -> int:
        """Returns, as bits, the messages of the entry that are to be consumed."""
        if not self.batch_size:
            return 1
        return mask_of_words(self.entry.ack_set) if self.entry.ack_set else (1 << self.batch_size) - 1

    @property
    def size(self) -> int:
        """Returns about how many bytes the message takes in memory."""
        return len(self.value) + len(self.encoded) + 500

    def message_id(self, partition: int) -> str:
        index = self.place if self.batch_size else -1
        return message_id_text(self.entry.ledger_id, self.entry.entry_id, partition, index, self.batch_size)

    def text(self, partition: int) -> bytes:
        """Returns the JSON that the peer gets."""
        own = self.own
        return consumer_text(
            self.message_id(partition),
            self.encoded or self.value,
            {shown(pair.key): shown(pair.value) for pair in own.properties},
            self.metadata.publish_time,
            self.entry.redelivery_count,
            own.event_time,
            shown(own.partition_key) if own.HasField("partition_key") else None,
            self.encryption_context,
        )


class OpenedEntry(NamedTuple):
    """The result of opening an entry, that is, of decompressing its body and separating its messages."""

    messages: Sequence[ReceivedMessage]
    size: int
    """How many messages the entry has, including those that are not to be delivered; at least 1."""
    discard: bool = False
    """Whether the entry is to be acknowledged, because it cannot be read."""
    fault: str = ""
    """The reason why the entry is not delivered; empty for an entry that is delivered."""


def open_now(entry: StoredEntry, action: CryptoFailureAction) -> OpenedEntry | None:
    """Opens an entry at once, on this thread. Returns None for an entry whose opening would hold up the event loop."""
    try:
        metadata, packed = metadata_and_body(entry.payload)
        if metadata.encryption_keys:
            return _encrypted(entry, metadata, action)
        if metadata.num_messages_in_batch > MESSAGES_A_STEP or len(entry.payload) > ENCODED_A_STEP:
            return None
        if metadata.compression != pb.NONE:
            if metadata.uncompressed_size > INLINE_BYTES_MAX:
                return None
            packed = decompress(metadata.compression, packed, metadata.uncompressed_size)
        if not metadata.HasField("num_messages_in_batch"):
            return OpenedEntry((ReceivedMessage(_without_payload(entry), 0, 0, metadata, metadata, packed),), 1)
        return _drained(_messages(entry, metadata, packed))
    except MalformedFrame as error:
        return OpenedEntry((), 1, discard=True, fault=str(error))


async def open_in_turns(entry: StoredEntry, action: CryptoFailureAction) -> OpenedEntry:
    """Opens an entry in portions, so that other tasks run in between."""
    try:
        metadata = parse_metadata(entry.payload)
        if metadata.encryption_keys:
            return _encrypted(entry, metadata, action)
        packed = body(entry.payload)
        if metadata.compression != pb.NONE:
            packed = await asyncio.to_thread(decompress, metadata.compression, packed, metadata.uncompressed_size)
        return await Turns().run(_messages(entry, metadata, packed))
    except MalformedFrame as error:
        return OpenedEntry((), 1, discard=True, fault=str(error))


def _drained(steps: Steps[OpenedEntry]) -> OpenedEntry:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            opened: OpenedEntry = end.value
            return opened


def _messages(entry: StoredEntry, metadata: pb.MessageMetadata, plain: bytes) -> Steps[OpenedEntry]:
    """Separates the messages of a decompressed body. Raises MalformedFrame."""
    empty = _without_payload(entry)
    if not metadata.HasField("num_messages_in_batch"):
        encoded = yield from _encoded(plain)
        return OpenedEntry((ReceivedMessage(empty, 0, 0, metadata, metadata, plain, None, encoded),), 1)
    size = metadata.num_messages_in_batch
    if not 0 < size <= BATCH_MESSAGES_MAX:
        raise MalformedFrame(f"a batch of {size} messages")
    wanted = mask_of_words(entry.ack_set) if entry.ack_set else (1 << size) - 1
    messages = []
    for index, (single, value) in enumerate(walk_batch(plain, size)):
        if wanted >> index & 1 and not single.compacted_out:
            encoded = yield from _encoded(value)
            messages.append(ReceivedMessage(empty, index, size, metadata, single, value, None, encoded))
        if index % MESSAGES_A_STEP == MESSAGES_A_STEP - 1:
            yield
    return OpenedEntry(messages, size)


def _without_payload(entry: StoredEntry) -> StoredEntry:
    return StoredEntry(*entry[:5], b"")


def _encoded(value: bytes) -> Steps[str]:
    """Returns a large value in base64, and an empty text for a small one, which is encoded when it is sent. The encoder
    holds the interpreter's lock, so a thread would not help."""
    if len(value) <= ENCODED_A_STEP:
        return ""
    parts = []
    for start in range(0, len(value), ENCODED_A_STEP):
        parts.append(b64encode(value[start : start + ENCODED_A_STEP]))
        yield
    return b"".join(parts).decode()


def _encrypted(entry: StoredEntry, metadata: pb.MessageMetadata, action: CryptoFailureAction) -> OpenedEntry:
    if action is CryptoFailureAction.CONSUME:
        context = encryption_context(metadata)
        message = ReceivedMessage(_without_payload(entry), 0, 0, metadata, metadata, body(entry.payload), context)
        return OpenedEntry((message,), 1)
    reason = "the message is encrypted, and the server has no keys (cryptoFailureAction)"
    return OpenedEntry((), 1, discard=action is CryptoFailureAction.DISCARD, fault=reason)


def encryption_context(metadata: pb.MessageMetadata) -> dict[str, object]:
    """Returns the data with which a peer can decrypt a message by itself (ConsumerImpl.createEncryptionContext, as
    Jackson writes the class EncryptionContext)."""
    context: dict[str, object] = {
        "keys": {
            shown(each.key): {
                "keyValue": b64encode(each.value).decode(),
                "metadata": {shown(pair.key): shown(pair.value) for pair in each.metadata},
            }
            for each in metadata.encryption_keys
        },
        "param": b64encode(metadata.encryption_param).decode(),
        "algorithm": shown(metadata.encryption_algo),
        "compressionType": pb.CompressionType.Name(metadata.compression),
        "uncompressedMessageSize": metadata.uncompressed_size,
    }
    if metadata.HasField("num_messages_in_batch"):
        context["batchSize"] = metadata.num_messages_in_batch
    return context
