"""Keeps what a reader has received, to decide where the reader continues after a reconnect, which messages are
duplicates, and how many more messages the broker may send.

A broker begins with the whole entry of the message id that a reader names, so the first messages may be known already.
Source: ConsumerImpl (startMessageId, clearReceiverQueue), ReaderImpl.
"""

from enum import Enum, auto
from typing import NamedTuple

from pulsar_proto.ids import I64_MAX, signed64, unsigned64
from pulsar_proto.pb import pulsar_api_pb2 as pb

PERMITS = 1000
"""How many messages a broker may send ahead of the reader (receiverQueueSize). A batch that begins within the permits
is sent as a whole."""


class MessagePlace(NamedTuple):
    """The place of a message in a topic. Places can be compared. The batch index is -1 for a message that is in no
    batch, and for whole entries."""

    ledger_id: int
    entry_id: int
    batch_index: int = -1

    def __str__(self) -> str:
        batch = f":{self.batch_index}" if self.batch_index >= 0 else ""
        return f"{self.ledger_id}:{self.entry_id}{batch}"


EARLIEST = MessagePlace(-1, -1)
LATEST = MessagePlace(I64_MAX, I64_MAX)


def place_of(data: pb.MessageIdData) -> MessagePlace:
    """Returns the place that a message id of the protocol stands for."""
    return MessagePlace(signed64(data.ledgerId), signed64(data.entryId), data.batch_index)


def wire_id(place: MessagePlace) -> pb.MessageIdData:
    """Returns the message id of the protocol for a place."""
    return pb.MessageIdData(
        ledgerId=unsigned64(place.ledger_id), entryId=unsigned64(place.entry_id), batch_index=place.batch_index
    )


class ReadState(Enum):
    """The states of a reader."""

    DETACHED = auto()
    ATTACHED = auto()
    CLOSED = auto()


class ReadWindow:
    """The window of one reader. Entries are received whole, and their messages are taken one by one."""

    def __init__(self, start: MessagePlace, *, permits: int = PERMITS) -> None:
        """The reader begins with the first message behind `start`: behind EARLIEST comes the topic's first message, and
        behind LATEST the first one that is written after the reader has attached."""
        self.state = ReadState.DETACHED
        self._permits_max = permits
        self._permits = 0
        self._after = start
        self._received = start

    @property
    def start(self) -> MessagePlace:
        """Returns the start message id for SUBSCRIBE."""
        return self._received

    @property
    def taken(self) -> MessagePlace:
        """Returns the place of the last message that was taken, or the start before any message was taken."""
        return self._after

    def attached(self, waiting: int) -> int:
        """Notes that a broker has created the reader. `waiting` is the number of messages that were received before and
        are not taken yet. Returns how many permits the caller gives the broker."""
        assert self.state is ReadState.DETACHED
        self.state = ReadState.ATTACHED
        self._permits = max(1, self._permits_max - waiting)
        return self._permits

    def detached(self) -> None:
        """Notes that the broker closed the reader, or that the connection broke. Has no effect when no broker had the
        reader."""
        if self.state is ReadState.ATTACHED:
            self.state = ReadState.DETACHED

    def resolved(self, last: MessagePlace) -> None:
        """Notes that the topic's last message was `last` when the reader attached. A reader that begins behind LATEST
        and has received nothing so far begins behind `last`, also after a reconnect."""
        if self._received == LATEST:
            self._received = self._after = MessagePlace(last.ledger_id, last.entry_id)

    def closed(self) -> None:
        self.state = ReadState.CLOSED

    def received(self, entry: MessagePlace, messages: int) -> bool:
        """Notes that an entry with `messages` messages has arrived. Returns whether the reader keeps the entry; an
        entry that was received completely before is dropped."""
        self._permits = max(0, self._permits - messages)
        # A known entry comes again only as the first one after a reconnect. If the reader's start is inside a batch,
        # `_received` has a batch index, and the entry of that batch is received for the first time.
        if entry[:2] < self._received[:2] and self._received != LATEST:
            return False
        if entry[:2] == self._received[:2] and self._received.batch_index < 0:
            return False
        self._received = MessagePlace(entry.ledger_id, entry.entry_id)
        return True

    def take(self, place: MessagePlace) -> bool:
        """Returns whether the message at `place` is new to the reader; it then counts as taken."""
        if self._after != LATEST and place <= self._after:
            return False
        self._after = place
        return True

    def passed(self, entry: MessagePlace) -> None:
        """Notes that the reader is done with an entry: all its messages were offered to `take`, or the entry cannot be
        decoded."""
        if self._after == LATEST or entry[:2] >= self._after[:2]:
            self._after = MessagePlace(entry.ledger_id, entry.entry_id)

    def more_permits(self, waiting: int) -> int:
        """Returns how many permits the caller gives the broker now. Returns 0 until half of the permits are used up."""
        if self.state is not ReadState.ATTACHED:
            return 0
        more = self._permits_max - waiting - self._permits
        if more * 2 < self._permits_max:
            return 0
        self._permits += more
        return more

    def is_at_end(self, last: MessagePlace) -> bool:
        """Returns whether nothing is left to be taken up to `last`, the topic's last message which the broker has
        reported. Entry -1 means that the topic has no message."""
        if last.entry_id < 0 or self._after == LATEST:
            return True
        if self._after.batch_index < 0:
            return self._after[:2] >= last[:2]
        return self._after >= last or (self._after[:2] == last[:2] and last.batch_index < 0)
