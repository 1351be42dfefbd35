"""Joins the chunks of large messages while a search passes over them. No I/O."""

from dataclasses import dataclass, field

from magnetar.server.browsing.entry_messages import StoredMessage
from pulsar_proto.records.compression import BODY_BYTES_MAX
from pulsar_proto.text import raw


@dataclass(slots=True)
class JoinedChunks:
    """The chunks of one message that were found so far."""

    count: int
    """How many chunks the message has, as its producer wrote."""
    parts: dict[int, StoredMessage] = field(default_factory=dict)

    @property
    def missing(self) -> int:
        return self.count - len(self.parts)

    @property
    def last(self) -> StoredMessage:
        """The found chunk that stands last in the message; clients take its id for the message's."""
        return self.parts[max(self.parts)]

    @property
    def size(self) -> int:
        return sum(len(each.body) for each in self.parts.values())

    def joined(self) -> bytes:
        """Returns the body of the whole message, compressed as its metadata says."""
        return b"".join(self.parts[index].body for index in sorted(self.parts))


class ChunkJoiner:
    """The messages whose chunks are being gathered."""

    def __init__(self, bytes_max: int = BODY_BYTES_MAX) -> None:
        self._waiting: dict[bytes, JoinedChunks] = {}
        self._bytes_left = bytes_max

    def add(self, chunk: StoredMessage) -> list[JoinedChunks]:
        """Takes a chunk. Returns the message that it completes, or those that have no room any more; both leave the
        joiner."""
        uuid = raw(chunk.metadata.uuid)
        found = self._waiting.setdefault(uuid, JoinedChunks(chunk.metadata.num_chunks_from_msg))
        if chunk.metadata.chunk_id not in found.parts:
            found.parts[chunk.metadata.chunk_id] = chunk
            self._bytes_left -= len(chunk.body)
        if not found.missing:
            return [self._take(uuid)]
        return self.rest() if self._bytes_left < 0 else []

    def rest(self) -> list[JoinedChunks]:
        """Returns all messages of which chunks are missing; they leave the joiner."""
        return [self._take(uuid) for uuid in list(self._waiting)]

    def _take(self, uuid: bytes) -> JoinedChunks:
        found = self._waiting.pop(uuid)
        self._bytes_left += found.size
        return found
