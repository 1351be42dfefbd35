"""Keeps account of the messages that a consumer's peer has got and not answered, and how many more the peer may get.
This module does no I/O.

In push mode a message takes one of `window` places until it is acknowledged, negatively acknowledged, or comes again
for another reason. In pull mode a message takes one of the permits that the peer gave, and an answer does not give the
permit back.

A batch is one entry of the topic, which is acknowledged as a whole. The window remembers which of a batch's messages
were acknowledged, so that the acknowledgement of the last message acknowledges the entry, and no acknowledged message
is delivered again meanwhile. Source: ConsumerHandler.checkResumeReceive, handlePermit, handleAck;
UnAckedMessageTracker.
"""

from collections.abc import Iterator
from typing import NamedTuple

ENTRIES_MAX = 50_000
"""How many entries are remembered. When there are more, the oldest entry is forgotten: its messages may be delivered
twice, and the entry is acknowledged only after it was delivered again. Only peers in pull mode that do not acknowledge
hold this many."""

CREDIT_MAX = 2**31 - 1


class EntryKey(NamedTuple):
    """An entry of one of the socket's topics."""

    consumer_id: int
    ledger_id: int
    entry_id: int


class _Entry:
    __slots__ = ("all", "copies", "out", "sent_s", "unacked")

    def __init__(self, messages: int) -> None:
        self.all = self.unacked = messages
        """Bit k stands for message k of the entry. `all` has the messages that are to be consumed, and `unacked` those
        of them that were not acknowledged."""
        self.out = 0
        """The messages that were sent and not answered; bit k stands for message k."""
        self.copies = 0
        """How many messages with the id of an earlier message of this entry were sent and not answered. Only
        non-persistent topics give several messages the same id."""
        self.sent_s = 0.0


class DeliveryWindow:
    """The messages that were sent over one socket and are not answered."""

    def __init__(self, window: int, *, pulls: bool) -> None:
        self.credit = 0 if pulls else window
        """How many messages may be sent now."""
        self._pulls = pulls
        self._entries: dict[EntryKey, _Entry] = {}
        """The entries, in the order in which their newest messages were sent."""

    def __len__(self) -> int:
        return len(self._entries)

    def permit(self, permits: int) -> None:
        """Called when the peer asks for more messages. This has no effect in push mode."""
        if self._pulls:
            self.credit = min(self.credit + permits, CREDIT_MAX)

    def is_acked(self, key: EntryKey, place: int) -> bool:
        """Returns whether a message of a batch was acknowledged while its entry is not acknowledged yet."""
        entry = self._entries.get(key)
        return entry is not None and not entry.unacked >> place & 1

    def sent(self, key: EntryKey, place: int, messages: int, now_s: float, *, shares_id: bool = False) -> None:
        """Called when message `place` of an entry was sent. `messages` are the messages of the entry that are to be
        consumed, as bits. `shares_id` says that the topic gives other messages the same id."""
        entry = self._entry(key, messages)
        entry.sent_s = now_s
        bit = 1 << place
        if shares_id:
            entry.unacked |= bit
        if not entry.out & bit:
            entry.out |= bit
            self.credit -= 1
        elif shares_id:
            entry.copies += 1
            self.credit -= 1
        elif self._pulls:
            self.credit -= 1

    def settled(self, key: EntryKey, place: int, messages: int) -> int:
        """Called when a message counts as acknowledged although it was not sent. Returns the remaining messages of the
        entry as bits, 0 when no message is left."""
        self._entry(key, messages)
        return self.acked(key, place) or 0

    def _entry(self, key: EntryKey, messages: int) -> _Entry:
        """Returns the entry of a key, and makes it the newest entry. Creates the entry if it is unknown."""
        entry = self._entries.pop(key, None)
        if entry is None:
            entry = _Entry(messages)
            if len(self._entries) >= ENTRIES_MAX:
                self._forget(next(iter(self._entries)))
        self._entries[key] = entry
        return entry

    def acked(self, key: EntryKey, place: int | None) -> int | None:
        """Called when the peer acknowledged message `place` of an entry, or the whole entry if `place` is None. Returns
        the remaining messages of the entry as bits: 0 when no message is left, and None for an unknown entry."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        bits = entry.unacked if place is None else 1 << place
        self._answered(entry, bits)
        entry.unacked &= ~bits
        if not entry.unacked and not entry.out:
            del self._entries[key]
        return entry.unacked

    def nacked(self, key: EntryKey, place: int | None) -> bool:
        """Called when the peer wants message `place` of an entry again, or the whole entry if `place` is None. Returns
        False for an entry that is unknown."""
        entry = self._entries.get(key)
        if entry is None:
            return False
        self._answered(entry, entry.out if place is None else 1 << place)
        return True

    def timed_out(self, sent_before_s: float) -> Iterator[EntryKey]:
        """Yields the entries that have unanswered messages and whose messages were all sent before `sent_before_s`.
        Counts these messages as answered, because they will be delivered again."""
        for key, entry in list(self._entries.items()):
            if entry.sent_s > sent_before_s:
                return
            if entry.out:
                self._answered(entry, entry.out)
                yield key

    def come_again(self, consumer_id: int) -> None:
        """Called when all unanswered messages of one topic will be delivered again. Acknowledged messages of batches
        stay remembered."""
        for key in [key for key in self._entries if key.consumer_id == consumer_id]:
            entry = self._entries[key]
            if not self._pulls:
                self.credit += entry.out.bit_count() + entry.copies
            entry.copies = entry.out = 0
            if entry.unacked == entry.all:
                del self._entries[key]

    def _answered(self, entry: _Entry, bits: int) -> None:
        """Counts messages of an entry as answered; in push mode, other messages may be sent in their place. If several
        messages have the same id, one of them counts as answered."""
        if entry.copies:
            entry.copies -= 1
            count = 1
        else:
            count = (entry.out & bits).bit_count()
            entry.out &= ~bits
        if not self._pulls:
            self.credit += count

    def _forget(self, key: EntryKey) -> None:
        self._answered(entry := self._entries.pop(key), entry.out)
