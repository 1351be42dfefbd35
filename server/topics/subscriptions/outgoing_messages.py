"""Entries on their way to consumers: the payloads without the broker's metadata, and how many messages of each entry
are unacknowledged.

A run is a group of consecutive entries. The entries of a run are prepared only once, even if many subscriptions of a
topic send the run (`MessagesMemo`).
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from magnetar.server.topics.subscriptions.key_shared_rules import NONE_KEY, hash_of
from magnetar.storage.managed.entry_run import EntryRun
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.ids import TxnId
from pulsar_proto.records.payload import (
    Special,
    count_and_special,
    skip_broker_entry_metadata,
    sticky_key_of,
)
from pulsar_proto.records.usual_metadata import is_single_and_plain

_BROKER_ENTRY_METADATA = b"\x0e\x02"
_WORD = 2**64 - 1

ENTRY_MESSAGES_MAX = 65_536
"""An entry that claims to hold more messages than this number counts as holding this number, because a consumer needs
as many permits as an entry holds messages. An ack set cannot describe more messages, either
(`subscription.ACK_SET_WORDS_MAX`)."""


class AckView(Protocol):
    """Dispatchers use a cursor through this interface when they send entries. `magnetar.storage.managed.cursor.Cursor`
    implements the interface."""

    def unacked_runs(self, ledger_id: int, first: int, count: int) -> list[tuple[int, int]]: ...

    def ack_set_of(self, ledger_id: int, entry_id: int) -> Sequence[int] | None: ...


class OutgoingMessages:
    """Entries of one ledger in ascending order. Several such objects may share their lists, so the lists must not be
    changed."""

    __slots__ = (
        "_key_hashes",
        "ack_sets",
        "counts",
        "entry_ids",
        "ledger_id",
        "payloads",
        "sizes",
        "specials",
        "total",
    )

    def __init__(
        self,
        ledger_id: int,
        entry_ids: Sequence[int],
        payloads: list[bytes],
        sizes: list[int],
        counts: list[int] | None = None,
        ack_sets: dict[int, Sequence[int]] | None = None,
        specials: Mapping[int, Special] | None = None,
    ) -> None:
        self.ledger_id = ledger_id
        self.entry_ids = entry_ids
        self.payloads = payloads
        """The payloads as the client sent them, from 0x0e01 (or metadataSize) on."""
        self.sizes = sizes
        """The number of messages in each entry."""
        self.counts = sizes if counts is None else counts
        """The number of unacknowledged messages in each entry."""
        self.total = sum(self.counts)
        self.ack_sets = ack_sets
        """Entry id -> the words of MESSAGE.ack_set, for batches that are acknowledged in part."""
        self.specials = specials
        """Entry id -> whether the entry is delayed, a marker or a chunk (`Special`). The table may name entries that
        this object does not hold."""
        self._key_hashes: list[int] | None = None

    @property
    def key_hashes(self) -> list[int]:
        """The hash of each entry's key (`key_shared_rules.hash_of`), for Key_Shared. Computed at the first use."""
        if self._key_hashes is None:
            self._key_hashes = [_key_hash(payload) for payload in self.payloads]
        return self._key_hashes

    def __len__(self) -> int:
        return len(self.payloads)

    def pick(self, indexes: Sequence[int]) -> "OutgoingMessages":
        """Returns the entries at `indexes`, which ascend. All messages of these entries count as unacknowledged; the
        caller applies `unacknowledged` later."""
        entry_ids = self.entry_ids
        if isinstance(indexes, range):
            part = slice(indexes.start, indexes.stop)
            return OutgoingMessages(
                self.ledger_id, entry_ids[part], self.payloads[part], self.sizes[part], specials=self.specials
            )
        return OutgoingMessages(
            self.ledger_id,
            [entry_ids[index] for index in indexes],
            [self.payloads[index] for index in indexes],
            [self.sizes[index] for index in indexes],
            specials=self.specials,
        )

    def part(self, indexes: Sequence[int]) -> "OutgoingMessages":
        """Returns the entries at `indexes`, which ascend, and keeps the information about which messages of these
        entries are acknowledged."""
        if len(indexes) == len(self.payloads):
            return self
        part = self.pick(indexes)
        if self.counts is not self.sizes:
            part.counts = [self.counts[index] for index in indexes]
            part.total = sum(part.counts)
            part.ack_sets = self.ack_sets
        return part

    def without(self, entry_ids: Sequence[int]) -> "OutgoingMessages":
        """Returns all entries but these, and keeps the information about which messages are acknowledged."""
        if not entry_ids:
            return self
        gone = set(entry_ids)
        return self.part([index for index, each in enumerate(self.entry_ids) if each not in gone])


def _key_hash(payload: bytes) -> int:
    try:
        key = sticky_key_of(payload)
    except MalformedFrame:
        key = None
    return hash_of(NONE_KEY if key is None else key)


def messages_of(run: EntryRun, wanted: Sequence[int] | None = None) -> OutgoingMessages:
    """Extracts the payloads of a run's entries and counts their messages. If `wanted` (ascending entry ids) is given,
    only these entries are returned. An entry whose metadata cannot be decoded counts as one message. Such an entry is
    sent too, because only the client can report that the message is damaged (ACK.validation_error)."""
    offset = run.payload_offset
    first = run.first_entry_id
    if wanted is None:
        wanted = range(first, first + len(run.entries))
        payloads = [entry[offset:] for entry in run.entries]
    else:
        payloads = [run.entries[entry_id - first][offset:] for entry_id in wanted]
    counts = []
    specials: dict[int, Special] | None = None
    for index, payload in enumerate(payloads):
        if is_single_and_plain(payload):
            counts.append(1)
            continue
        if payload[:2] == _BROKER_ENTRY_METADATA:
            # The broker's metadata is cut off: clients get that metadata only with
            # `exposingBrokerEntryMetadataToClientEnabled`, which is not supported.
            payload = payloads[index] = payload[_client_bytes_at(payload) :]
        try:
            count, special = count_and_special(payload)
        except MalformedFrame:
            count, special = 1, None
        # The number of messages comes from a client. A number below 1 would give permits back and make the sums of
        # unacknowledged messages wrong.
        counts.append(min(max(1, count), ENTRY_MESSAGES_MAX))
        if special is not None:
            if specials is None:
                specials = {}
            specials[wanted[index]] = special
    return OutgoingMessages(run.ledger_id, wanted, payloads, counts, specials=specials)


def _client_bytes_at(payload: bytes) -> int:
    try:
        return skip_broker_entry_metadata(payload)
    except MalformedFrame:
        return 0


class MessagesMemo:
    """Keeps the newest run of a topic as OutgoingMessages, for all of the topic's subscriptions."""

    __slots__ = ("_entries", "_first", "_messages")

    def __init__(self) -> None:
        self._entries: list[bytes] | None = None
        self._first = -1
        self._messages: OutgoingMessages | None = None

    def messages_of(self, run: EntryRun) -> OutgoingMessages:
        # For one run the tail cache always returns one list, so it is enough to compare identities. The memo keeps
        # that list alive, so no other list can get the same identity meanwhile.
        if self._entries is run.entries and self._first == run.first_entry_id:
            assert self._messages is not None
            return self._messages
        messages = messages_of(run)
        self._entries, self._first, self._messages = run.entries, run.first_entry_id, messages
        return messages

    def clear(self) -> None:
        self._entries = self._messages = None


def unacknowledged(messages: OutgoingMessages, start: int, acks: AckView) -> OutgoingMessages:
    """Returns the entries of `messages` from index `start` on that are unacknowledged at this moment, with the ack sets
    of batches that are acknowledged in part.

    The cursor is asked once for all these entries, and answers with runs of unacknowledged entries. In the common case
    one run covers all entries; then `messages` itself is returned, which several subscriptions may share. Ack sets are
    looked up only if some entry holds more than one message, that is, if `total` exceeds the number of entries.
    """
    entry_ids = messages.entry_ids
    total = len(entry_ids)
    if isinstance(entry_ids, range):
        first = entry_ids.start + start
        runs = acks.unacked_runs(messages.ledger_id, first, total - start)
        if runs == [(first, total - start)]:
            left = messages if start == 0 and messages.ack_sets is None else messages.pick(range(start, total))
        else:
            base = entry_ids.start
            left = messages.pick([index for low, count in runs for index in range(low - base, low - base + count)])
    else:
        if start >= total:
            return messages.pick(())
        first = entry_ids[start]
        runs = acks.unacked_runs(messages.ledger_id, first, entry_ids[total - 1] - first + 1)
        if runs == [(first, entry_ids[total - 1] - first + 1)]:
            left = messages if start == 0 and messages.ack_sets is None else messages.pick(range(start, total))
        else:
            wanted: list[int] = []
            at = start
            for low, count in runs:
                at = bisect_left(entry_ids, low, at, total)
                stop = bisect_left(entry_ids, low + count, at, total)
                wanted += range(at, stop)
                at = stop
            left = messages.pick(wanted)
    return left if left.total == len(left.sizes) else _with_ack_sets(left, acks)


def _with_ack_sets(messages: OutgoingMessages, acks: AckView) -> OutgoingMessages:
    """Returns `messages` with the ack sets of its batches that are acknowledged in part."""
    sizes = messages.sizes
    ledger_id = messages.ledger_id
    ack_sets: dict[int, Sequence[int]] = {}
    counts = sizes
    for index, entry_id in enumerate(messages.entry_ids):
        if sizes[index] > 1:
            words = acks.ack_set_of(ledger_id, entry_id)
            if words is not None:
                ack_sets[entry_id] = words
                if counts is sizes:
                    counts = sizes.copy()
                counts[index] = bits_set(words)
    if not ack_sets:
        return messages
    return OutgoingMessages(
        ledger_id, messages.entry_ids, messages.payloads, sizes, counts, ack_sets, specials=messages.specials
    )


def left_out(
    messages: OutgoingMessages, specials: Mapping[int, Special], is_aborted: Callable[[TxnId], bool]
) -> list[int]:
    """Returns the ids of the entries that no consumer gets, in ascending order: markers, which brokers write for
    brokers, and messages of aborted transactions (AbstractBaseDispatcher.filterEntriesForConsumer)."""
    return [
        entry_id
        for entry_id in messages.entry_ids
        if (special := specials.get(entry_id)) is not None
        and (special.is_marker or (special.txn_id is not None and is_aborted(special.txn_id)))
    ]


def bits_set(words: Sequence[int]) -> int:
    """Returns how many messages of a batch are unacknowledged according to the batch's ack set. The words of the ack
    set may be signed, as in protobuf and in Java."""
    return sum((word & _WORD).bit_count() for word in words)
