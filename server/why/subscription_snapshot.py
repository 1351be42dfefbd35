"""What is known about one subscription at one moment, as plain values. `subscription_rules` reads nothing else."""

from dataclasses import dataclass, field
from typing import NamedTuple

from pulsar_proto.ids import EARLIEST, Position


class ConsumerSnapshot(NamedTuple):
    """One consumer. There may be thousands of them, as of `KeyWait`, so both are tuples."""

    name: str
    address: str
    connected_ms: int
    permits: int
    """How many messages the consumer asked for and did not get; negative after a batch that was larger than that."""
    unacked: int
    """How many messages the consumer holds unacknowledged; 0 for types that do not count them."""
    unacked_max: int
    """The limit of `unacked`; 0 means no limit."""
    blocked: bool
    """Whether the consumer gets nothing because it reached the limit, and did not come down to half of it since."""
    is_active: bool
    """Whether the consumer gets every message of an Exclusive or Failover subscription."""
    is_writable: bool
    """False while the client does not read its connection fast enough."""

    @property
    def takes(self) -> bool:
        return self.permits > 0 and not self.blocked and self.is_writable


@dataclass(frozen=True, slots=True)
class BacklogSnapshot:
    """The backlog in entries, derived from positions. The parts `delivered` to `not_read` add up to `entries`."""

    entries: int = 0
    size_bytes: int = 0
    delivered: int = 0
    """Entries that consumers have and did not acknowledge."""
    delivered_messages: int | None = None
    """How many messages of `delivered` are unacknowledged; None for types that do not count them."""
    again: int = 0
    """Entries that were given back or could not be sent yet, and wait out of the order of the log."""
    waiting_for_chunks: int = 0
    """Chunks that wait for the consumer which has the other chunks of their message."""
    delayed: int = 0
    """Entries that were passed over because their delivery time has not come."""
    not_read: int = 0
    """Entries at or after the read position, and entries that were read and not sent."""
    next_due_ms: int | None = None
    """When the first of the delayed entries is due; None when that is unknown, or none is delayed."""
    in_holes: int = 0
    """Entries that are not acknowledged although later entries are. They are among the other parts, too."""
    holes: int = 0
    """How many ranges of entries the holes are, at most as many as are counted."""
    mark_delete: Position = EARLIEST
    read_position: Position = EARLIEST
    first_unacked: Position = EARLIEST
    """The first unacknowledged entry; a position beyond the log when there is none."""

    @property
    def waiting(self) -> int:
        """How many entries could be sent if consumers took them."""
        return self.again + self.waiting_for_chunks + self.not_read


@dataclass(frozen=True, slots=True)
class OldestEntry:
    """What reading the first entries of the backlog has shown."""

    published_ms: int | None = None
    """When the oldest unacknowledged message was published; None when it was not read."""
    messages: int | None = None
    """How many unacknowledged messages the backlog holds; None when that is unknown."""
    messages_are_exact: bool = False
    """Whether all entries of the backlog were counted. Otherwise `messages` is an estimate from the first of them."""
    failure: str = ""
    """Why the first entry could not be read."""


@dataclass(frozen=True, slots=True)
class ThrottleSnapshot:
    is_of_topic: bool
    """Whether the rate is that of the topic, which all subscriptions share, or the subscription's own."""
    messages_per_second: float
    bytes_per_second: float
    """The limits; 0 stands for no limit."""
    messages: float
    bytes: float
    """How much may be sent now; negative after more was sent than the rate allowed."""
    wait_seconds: float


class KeyWait(NamedTuple):
    """Entries of one hash of a Key_Shared subscription that wait."""

    hash: int
    entries: int
    owner: str | None
    owner_takes: bool
    holder: str | None
    """The consumer that must acknowledge first, because it had the hash before."""
    held: int
    """How many entries of the hash the holder has not acknowledged."""
    for_seconds: float
    """How long the hash has been waiting for the holder."""


@dataclass(frozen=True, slots=True)
class ReadSnapshot:
    """A read of the log that has begun and not ended."""

    position: Position
    for_seconds: float


@dataclass(frozen=True, slots=True)
class OpenTransactionSnapshot:
    """The oldest of the topic's open transactions."""

    txn_id: str
    first: Position
    """Its first message in the topic. Nothing from there on is delivered."""
    since_ms: int
    """When that message was stored, or was found when the topic was loaded."""
    others: int
    """How many other transactions are open in the topic."""
    held_back: int
    """How many entries stand at or behind its first message."""


@dataclass(frozen=True, slots=True)
class RefusedSnapshot:
    """A client that was not admitted."""

    time_ms: int
    kind: str
    text: str
    client: str


@dataclass(frozen=True, slots=True)
class SubscriptionSnapshot:
    name: str
    now_ms: int
    kind: str = "None"
    """The type of the consumers: Exclusive, Failover, Shared, Key_Shared, or None before the first consumer."""
    is_stored: bool = True
    """False for a subscription of a non-persistent topic, which has no backlog."""
    is_durable: bool = True
    is_moving: bool = False
    """Whether a seek is under way."""
    is_ending: bool = False
    """Whether the subscription is being deleted, or its topic closed."""
    last_active_ms: int = 0
    """When a consumer came or left, or something was acknowledged, last."""
    consumers: tuple[ConsumerSnapshot, ...] = ()
    switch_seconds: float | None = None
    """In how many seconds a new active consumer gets its first message; None while none waits for that."""
    backlog: BacklogSnapshot = field(default_factory=BacklogSnapshot)
    oldest: OldestEntry | None = None
    """None when nothing was read to find out."""
    log_is_compacted: bool = False
    is_terminated: bool = False
    failure: str = ""
    """Why the last read of the log failed; empty when the last read succeeded."""
    retry_seconds: float | None = None
    """In how many seconds a read that failed is tried again."""
    read: ReadSnapshot | None = None
    transaction: OpenTransactionSnapshot | None = None
    throttles: tuple[ThrottleSnapshot, ...] = ()
    unacked: int = 0
    unacked_max: int = 0
    """The subscription's unacknowledged messages and their limit; a limit of 0 means no limit."""
    blocked: bool = False
    """Whether nothing is sent because of that limit."""
    delays_are_full: bool = False
    look_ahead: int = 0
    look_ahead_max: int | None = None
    """How many entries wait for the consumers of their keys, and how many may wait before reading stops; None for
    types other than Key_Shared."""
    key_waits: tuple[KeyWait, ...] = ()
    key_waits_are_all: bool = True
    """False when more hashes have entries that wait than are looked at."""
    hashes_without_consumer: int = 0
    """How many of a Key_Shared subscription's hashes no consumer has chosen, where consumers choose hashes."""
    chunk_waits: tuple[tuple[str, int], ...] = ()
    """(consumer, how many chunks wait for it)."""
    dropped: int = 0
    """How many messages a non-persistent subscription dropped because no consumer took them."""
    refused: RefusedSnapshot | None = None
    """The consumer that was refused last."""
