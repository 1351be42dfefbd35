"""Joins the chunks of large messages into whole messages. In Apache's WebSocket service, the Java client inside the
service joins them.

Each chunk is an entry of its own. The message is known by the id of its last chunk; `parts` returns the entries of the
other chunks, which are acknowledged or delivered again together with the last chunk. Memory is bounded: when there are
too many incomplete messages, or too many bytes, the oldest incomplete message is given up and stays unacknowledged.

Source: ConsumerImpl.processMessageChunk (PIP-37).
"""

from magnetar.server.websocket.delivery_window_rules import ENTRIES_MAX, EntryKey
from magnetar.server.websocket.received_messages import StoredEntry
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import BODY_BYTES_MAX
from pulsar_proto.records.payload import body, build_payload, parse_metadata
from pulsar_proto.text import raw

INCOMPLETE_MAX = 10
"""How many messages may wait for further chunks (ConsumerConfigurationData.maxPendingChunkedMessage)."""

_TAG = b"\xd8\x01"
"""The tag of num_chunks_from_msg. A payload without these bytes is certainly not a chunk."""


class _Incomplete:
    __slots__ = ("bodies", "entries", "size")

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.entries: list[tuple[int, int]] = []
        self.size = 0


class ChunkAssembly:
    """The chunks that the topics of one socket have sent."""

    def __init__(self) -> None:
        self._incomplete: dict[tuple[int, bytes], _Incomplete] = {}
        """The incomplete messages by consumer id and the message's uuid; the oldest message comes first."""
        self._parts: dict[EntryKey, list[tuple[int, int]]] = {}

    def add(self, entry: StoredEntry) -> StoredEntry | None:
        """Returns the entry itself if it is not a chunk, or is damaged or encrypted. For the last chunk of a message,
        returns an entry that holds the whole message, unless an earlier chunk is missing. For any other chunk, returns
        None."""
        if _TAG not in entry.payload:
            return entry
        try:
            metadata = parse_metadata(entry.payload)
            part = body(entry.payload)
        except MalformedFrame:
            return entry
        if metadata.num_chunks_from_msg <= 1 or metadata.encryption_keys:
            return entry
        return self._add(entry, metadata, part)

    def parts(self, key: EntryKey) -> list[tuple[int, int]]:
        """Returns the entries of all chunks of a message except its last chunk."""
        return self._parts.get(key, [])

    def forget(self, key: EntryKey) -> None:
        """Called when a message was acknowledged: forgets its `parts`."""
        self._parts.pop(key, None)

    def drop(self, consumer_id: int) -> None:
        """Drops the incomplete messages of one topic, because the topic will send all their chunks again."""
        for at in [at for at in self._incomplete if at[0] == consumer_id]:
            del self._incomplete[at]

    def _add(self, entry: StoredEntry, metadata: pb.MessageMetadata, part: bytes) -> StoredEntry | None:
        at = (entry.consumer_id, raw(metadata.uuid))
        if metadata.chunk_id == 0:
            self._incomplete.pop(at, None)
            self._incomplete[at] = _Incomplete()
        message = self._incomplete.get(at)
        if message is None or len(message.bodies) != metadata.chunk_id:
            self._incomplete.pop(at, None)  # A chunk is missing. All chunks will come again.
            return None
        message.bodies.append(part)
        message.size += len(part)
        if metadata.chunk_id < metadata.num_chunks_from_msg - 1:
            message.entries.append((entry.ledger_id, entry.entry_id))
            self._give_up_what_is_too_much()
            return None
        del self._incomplete[at]
        if len(self._parts) >= ENTRIES_MAX:
            del self._parts[next(iter(self._parts))]
        self._parts[EntryKey(entry.consumer_id, entry.ledger_id, entry.entry_id)] = message.entries
        for field in ("num_chunks_from_msg", "chunk_id", "total_chunk_msg_size", "uuid"):
            metadata.ClearField(field)
        return entry._replace(payload=build_payload(metadata, b"".join(message.bodies), checksum=False))

    def _give_up_what_is_too_much(self) -> None:
        size = sum(each.size for each in self._incomplete.values())
        while self._incomplete and (len(self._incomplete) > INCOMPLETE_MAX or size > BODY_BYTES_MAX):
            size -= self._incomplete.pop(next(iter(self._incomplete))).size
