"""The queue of a producer's messages that have no receipt yet. Decides which messages are sent, sent again, settled or
given up.

Messages are sent in the order in which they were added, also after a reconnect. The sequence ids rise by one, so a
topic with deduplication stores each message once. Source: ProducerImpl (pendingMessages, ackReceived, resendMessages,
recoverProcessOpSendMsgFrom).
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import Generic, TypeVar

Token = TypeVar("Token")

PENDING_MAX = 1000
"""How many messages may wait for receipts (maxPendingMessages). A further message waits before it is added."""
PENDING_BYTES_MAX = 16 << 20
"""How many bytes may wait for receipts. A single message may be larger than this limit when no other message waits."""


class SendState(Enum):
    """The states of a producer."""

    DETACHED = auto()
    """No broker has the producer, so messages are kept."""
    ATTACHED = auto()
    """A broker has the producer; a message is sent when it is added."""
    CLOSED = auto()
    """Nothing is added any more."""


class Receipt(Enum):
    """The meanings of a receipt."""

    SETTLED = auto()
    """The oldest message is stored."""
    KNOWN = auto()
    """The receipt is for a message that was settled or given up before, so the receipt has no effect."""
    GAP = auto()
    """The receipt is for a message behind the oldest one, so a receipt was lost: the producer has to attach anew."""


@dataclass(slots=True)
class Outgoing(Generic[Token]):
    """One message without a receipt."""

    sequence_id: int
    payload: bytes
    deadline_s: float
    token: Token
    """The caller's own object, which the queue returns with the message."""


class SendQueue(Generic[Token]):
    """The queue of one producer. An event that makes no sense in the current state raises AssertionError and changes
    nothing."""

    def __init__(self, *, pending_max: int = PENDING_MAX, pending_bytes_max: int = PENDING_BYTES_MAX) -> None:
        self.state = SendState.DETACHED
        self.has_begun = False
        """Whether the producer has been attached once."""
        self._pending: deque[Outgoing[Token]] = deque()
        self._bytes = 0
        self._next_id = 0
        self._pending_max = pending_max
        self._pending_bytes_max = pending_bytes_max

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def next_sequence_id(self) -> int:
        """Returns the sequence id that the next message gets. The caller also writes this id to the message's
        metadata."""
        return self._next_id

    def has_room(self, size: int) -> bool:
        """Returns whether a message of `size` bytes may be added now."""
        if not self._pending:
            return True
        return len(self._pending) < self._pending_max and self._bytes + size <= self._pending_bytes_max

    def add(self, payload: bytes, deadline_s: float, token: Token) -> Outgoing[Token]:
        """Adds a message, for which the queue must have room. The caller sends the message when the state is ATTACHED.
        No message may be added before the producer has attached for the first time, because the ids continue behind the
        ids that the topic has seen from a producer of this name."""
        assert self.has_begun
        assert self.state is not SendState.CLOSED
        assert self.has_room(len(payload))
        message = Outgoing(self._next_id, payload, deadline_s, token)
        self._next_id += 1
        self._pending.append(message)
        self._bytes += len(payload)
        return message

    def attached(self, last_sequence_id: int) -> tuple[list[Outgoing[Token]], list[Outgoing[Token]]]:
        """Notes that a broker has created the producer. The broker has stored messages of a producer of this name up to
        `last_sequence_id`, or knows of none (-1). Returns the messages that are settled thereby, and the messages that
        the caller has to send now, in order."""
        assert self.state is SendState.DETACHED
        self.state = SendState.ATTACHED
        self.has_begun = True
        self._next_id = max(self._next_id, last_sequence_id + 1)
        settled = []
        while self._pending and self._pending[0].sequence_id <= last_sequence_id:
            settled.append(self._take_oldest())
        return settled, list(self._pending)

    def detached(self) -> None:
        """Notes that the broker closed the producer, or that the connection broke. Has no effect when no broker had the
        producer."""
        if self.state is SendState.ATTACHED:
            self.state = SendState.DETACHED

    def receipt(self, sequence_id: int) -> tuple[Receipt, Outgoing[Token] | None]:
        """Returns the meaning of the receipt, and the message if the receipt settles it."""
        if not self._pending or sequence_id < self._pending[0].sequence_id:
            return Receipt.KNOWN, None
        if sequence_id > self._pending[0].sequence_id:
            return Receipt.GAP, None
        return Receipt.SETTLED, self._take_oldest()

    def refused(self, sequence_id: int) -> Outgoing[Token] | None:
        """Notes that the broker refused a message for good. Returns the message, which is no longer pending. Returns
        None when the oldest message has another id; the refusal belongs to a message that was given up before."""
        if not self._pending or self._pending[0].sequence_id != sequence_id:
            return None
        return self._take_oldest()

    def expired(self, now_s: float) -> list[Outgoing[Token]]:
        """Returns the messages whose deadline has passed, and removes them from the queue. It is unknown whether they
        were stored."""
        gone = [each for each in self._pending if each.deadline_s <= now_s]
        if gone:
            self._pending = deque(each for each in self._pending if each.deadline_s > now_s)
            self._bytes = sum(len(each.payload) for each in self._pending)
        return gone

    def closed(self) -> list[Outgoing[Token]]:
        """Ends the queue. Returns the messages without receipts."""
        self.state = SendState.CLOSED
        left = list(self._pending)
        self._pending.clear()
        self._bytes = 0
        return left

    def _take_oldest(self) -> Outgoing[Token]:
        message = self._pending.popleft()
        self._bytes -= len(message.payload)
        return message
