"""Skips, clears and expires a subscription's backlog, for an administrator or by the clock, and finds messages in the
log.

All functions work on positions. A skipped entry is acknowledged in the cursor, so it is never delivered again. Counts
are counts of entries, as in Apache: a batch counts as one.

Sources: PersistentSubscription (clearBacklog, skipMessages, expireMessages, peekNthMessage),
PersistentMessageExpiryMonitor, PersistentTopicsBase.internalExamineMessageAsync.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pyroaring import BitMap

from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.topics.publish_times import published_at
from magnetar.server.topics.subscriptions.outgoing_messages import messages_of
from magnetar.server.topics.subscriptions.subscription import PersistentSubscriptionTopic, Subscription
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.managed_ledger import ManagedLedger
from pulsar_proto.ids import EARLIEST, Position


class StoredMessage(NamedTuple):
    """An entry as it is stored in the log: a message or a batch."""

    position: Position
    payload: bytes
    """The payload begins with the broker's entry metadata (0x0e02) if the entry has some, else with the checksum
    (0x0e01) or with metadataSize."""


EntriesByLedger = Mapping[int, BitMap]
"""Maps a ledger's id to the entries that must not expire, because they wait for their delivery time."""

NOTHING: EntriesByLedger = {}

READ_ENTRIES = 1_000
READ_BYTES = 5 * 1024 * 1024
"""The search for delayed messages among the expired ones reads at most this many entries and bytes at a time."""


# --- skip, clear, expire ----------------------------------------------------------------------------------------------


async def skip(subscription: Subscription, count: int) -> int:
    """Acknowledges the first `count` entries that are not acknowledged. Returns how many entries that was. Raises
    PulsarError when the acknowledgements cannot be stored."""
    if count <= 0:
        return 0
    ledger, cursor = subscription.topic.ledger, subscription.cursor
    last = nth_unacknowledged(ledger, cursor, count)
    return await expire_upto(subscription, ledger.last_confirmed if last is None else last)


async def clear(subscription: Subscription) -> int:
    """Acknowledges all entries. Returns how many entries that was. Raises PulsarError when the acknowledgements cannot
    be stored."""
    return await expire_upto(subscription, subscription.topic.ledger.last_confirmed)


async def expire_upto(subscription: Subscription, position: Position) -> int:
    """Acknowledges all entries up to and including `position`. Returns how many entries that was. Raises PulsarError
    when the acknowledgements cannot be stored."""
    return await _expire(subscription, position, NOTHING)


async def expire_older(subscription: Subscription, seconds: float, now_ms: int) -> int:
    """Acknowledges the messages that were published more than `seconds` ago, except those whose delivery time is yet to
    come. Returns how many entries that was. Raises PulsarError."""
    topic, cursor = subscription.topic, subscription.cursor
    with storage_faults_told():
        last = await last_published_before(topic.ledger, cursor.mark_delete, now_ms - int(seconds * 1000))
        if last is None:
            return 0
        kept = await undelivered(topic, cursor, last, now_ms) if topic.delayed.is_enabled else {}
    expired = await _expire(subscription, last, kept)
    if expired:
        subscription.expired.add(expired)
    return expired


async def _expire(subscription: Subscription, position: Position, kept: EntriesByLedger) -> int:
    cursor = subscription.cursor
    before = cursor.backlog
    acknowledge_upto(subscription.topic.ledger, cursor, position, kept)
    expired = max(0, before - cursor.backlog)
    if expired:
        subscription.backlog_shrank()
        with storage_faults_told():
            await cursor.persisted()
    return expired


def acknowledge_upto(
    ledger: ManagedLedger, cursor: Cursor, position: Position, kept: EntriesByLedger = NOTHING
) -> None:
    """Acknowledges all entries up to and including `position`, except the entries `kept`. Entries before the first kept
    one are acknowledged by moving the mark-delete position, later ones one by one."""
    first = min((Position(each, entries[0]) for each, entries in kept.items() if entries), default=None)
    if first is None or first > position:
        _mark_delete(cursor, position)
        return
    _mark_delete(cursor, ledger.previous_position(first))
    at = cursor.next_unacked(first)
    while at <= position and not ledger.is_after_last(at):
        last = last_of_ledger(ledger, at.ledger_id)
        end = min(last, position).entry_id if position.ledger_id == at.ledger_id else last.entry_id
        left = BitMap()
        for start, count in cursor.unacked_runs(at.ledger_id, at.entry_id, end - at.entry_id + 1):
            left.add_range(start, start + count)
        left -= kept.get(at.ledger_id, BitMap())
        cursor.ack((at.ledger_id, entry_id, None) for entry_id in left)
        at = ledger.next_position(last)
        if at <= last:
            return


def _mark_delete(cursor: Cursor, position: Position) -> None:
    if position > cursor.mark_delete:
        cursor.ack_cumulative(position.ledger_id, position.entry_id)


async def undelivered(
    topic: PersistentSubscriptionTopic, cursor: Cursor, upto: Position, now_ms: int
) -> dict[int, BitMap]:
    """Returns the entries up to `upto` that are not acknowledged and whose delivery time is after `now_ms`. An entry
    that the topic's index of delayed messages does not know is read from the log and added to the index. Raises
    ManagedLedgerError."""
    ledger, index = topic.ledger, topic.delayed.index
    found: dict[int, BitMap] = {}
    at = cursor.next_unacked(cursor.mark_delete)
    while at <= upto and not ledger.is_after_last(at):
        if index.has(*at):
            found.setdefault(at.ledger_id, BitMap()).add(at.entry_id)
            at = cursor.next_unacked(Position(at.ledger_id, at.entry_id + 1))
            continue
        run = await ledger.read(at, READ_ENTRIES, READ_BYTES)
        if not run.entries:
            break
        for entry_id, special in (messages_of(run).specials or {}).items():
            position = Position(run.ledger_id, entry_id)
            if position <= upto and special.deliver_at_ms > now_ms and not cursor.is_acked(*position):
                topic.delayed.delay(*position, special.deliver_at_ms)
                found.setdefault(run.ledger_id, BitMap()).add(entry_id)
        at = cursor.next_unacked(Position(run.ledger_id, run.first_entry_id + len(run.entries)))
    return found


# --- positions --------------------------------------------------------------------------------------------------------


def nth_unacknowledged(ledger: ManagedLedger, cursor: Cursor, count: int) -> Position | None:
    """Returns the `count`-th entry (from 1) that is not acknowledged; None when there are fewer. The cost grows with
    the number of acknowledged ranges, not with the number of entries."""
    at = cursor.next_unacked(cursor.mark_delete)
    while not ledger.is_after_last(at):
        last = last_of_ledger(ledger, at.ledger_id)
        for first, length in cursor.unacked_runs(at.ledger_id, at.entry_id, last.entry_id - at.entry_id + 1):
            if count <= length:
                return Position(at.ledger_id, first + count - 1)
            count -= length
        following = ledger.next_position(last)
        if following <= last:
            break
        at = cursor.next_unacked(following)
    return None


def last_of_ledger(ledger: ManagedLedger, ledger_id: int) -> Position:
    """Returns the last entry of a ledger that has one."""
    return ledger.previous_position(Position(ledger_id + 1, 0))


async def last_published_before(ledger: ManagedLedger, after: Position, time_ms: int) -> Position | None:
    """Returns the last entry after the position `after` that was published before `time_ms`; None when there is none.
    Raises ManagedLedgerError."""
    first = await ledger.find_first(lambda payload: published_at(payload, time_ms) >= time_ms, after)
    last = ledger.previous_position(first)
    return last if last > after else None


# --- reading messages -------------------------------------------------------------------------------------------------


async def peek(subscription: Subscription, number: int) -> StoredMessage | None:
    """Returns the `number`-th entry (from 1) that is not acknowledged; None when there are fewer. Raises
    PulsarError."""
    ledger = subscription.topic.ledger
    position = nth_unacknowledged(ledger, subscription.cursor, number)
    return None if position is None else await message_at(subscription.topic, position)


async def examine(topic: PersistentSubscriptionTopic, number: int, *, from_end: bool) -> StoredMessage | None:
    """Returns the `number`-th entry (from 1) of the whole log, counted from its beginning or from its end. When there
    are fewer, returns the last one counted; None for an empty log. Raises PulsarError."""
    ledger = topic.ledger
    total = ledger.number_of_entries
    if total == 0:
        return None
    number = min(max(number, 1), total)
    return await message_at(topic, ledger.entry_at(total - number if from_end else number - 1))


async def message_at(topic: PersistentSubscriptionTopic, position: Position) -> StoredMessage | None:
    """Returns the entry at exactly that position; None when the log has no such entry, or no longer has it. Raises
    PulsarError."""
    ledger = topic.ledger
    if position <= EARLIEST or ledger.is_after_last(position):
        return None
    with storage_faults_told():
        run = await ledger.read(position, 1, 1)
    if not run.entries or (run.ledger_id, run.first_entry_id) != position:
        return None
    return StoredMessage(position, run.entries[0][run.payload_offset :])
