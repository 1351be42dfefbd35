"""Skips, clears and expires the backlog of a subscription, when an administrator asks or when messages grow too old,
and finds messages in the log.

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
from magnetar.server.topics.subscriptions.subscription import Subscription
from magnetar.server.topics.subscriptions.subscription_topic import PersistentSubscriptionTopic
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.managed_ledger import ManagedLedger
from pulsar_proto.ids import EARLIEST, Position


class StoredMessage(NamedTuple):
    """An entry as it is stored in the log: a message or a batch."""

    position: Position
    payload: bytes
    """The payload begins with the broker's entry metadata (magic 0x0e02) if the entry has broker metadata. Otherwise
    the payload begins with the checksum (magic 0x0e01), or with metadataSize when there is no checksum either."""


EntriesByLedger = Mapping[int, BitMap]
"""Maps a ledger's id to the entries that must not expire, because they wait for their delivery time."""

NOTHING: EntriesByLedger = {}

READ_ENTRIES = 1_000
READ_BYTES = 5 * 1024 * 1024
"""While the broker looks for delayed messages among the expired messages, one read returns at most READ_ENTRIES entries
and READ_BYTES bytes."""


# --- skip, clear, expire ----------------------------------------------------------------------------------------------


async def skip(subscription: Subscription, count: int) -> int:
    """Acknowledges the first `count` unacknowledged entries. Returns how many entries this call acknowledged. Raises
    PulsarError when the acknowledgements cannot be stored."""
    if count <= 0:
        return 0
    ledger, cursor = subscription.topic.ledger, subscription.cursor
    last = nth_unacknowledged(ledger, cursor, count)
    return await expire_upto(subscription, ledger.last_confirmed if last is None else last)


async def clear(subscription: Subscription) -> int:
    """Acknowledges all entries. Returns how many entries this call acknowledged. Raises PulsarError when the
    acknowledgements cannot be stored."""
    return await expire_upto(subscription, subscription.topic.ledger.last_confirmed)


async def expire_upto(subscription: Subscription, position: Position) -> int:
    """Acknowledges all entries up to and including `position`. Returns how many entries this call acknowledged. Raises
    PulsarError when the acknowledgements cannot be stored."""
    return await _expire(subscription, position, NOTHING)


async def expire_older(subscription: Subscription, seconds: float, now_ms: int) -> int:
    """Acknowledges the messages that were published more than `seconds` ago, except the messages whose delivery time
    has not come yet. Returns how many entries this call acknowledged. Raises PulsarError when the log cannot be read or
    the acknowledgements cannot be stored."""
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
    cursor, topic = subscription.cursor, subscription.topic
    before = cursor.backlog
    # The messages of an open transaction are not lost: they count only from the moment when they are committed.
    acknowledge_upto(topic.ledger, cursor, min(position, topic.readable_log.last_confirmed), kept)
    expired = max(0, before - cursor.backlog)
    if expired:
        subscription.backlog_shrank()
        with storage_faults_told():
            await cursor.persisted()
    return expired


def acknowledge_upto(
    ledger: ManagedLedger, cursor: Cursor, position: Position, kept: EntriesByLedger = NOTHING
) -> None:
    """Acknowledges all entries up to and including `position`, except the entries in `kept`. Moves the mark-delete
    position to acknowledge the entries before the first kept entry, and acknowledges the entries after it
    individually."""
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
    ManagedLedgerError when the log cannot be read."""
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
    """Returns the position of the `count`-th unacknowledged entry, counted from 1, or None when fewer entries are
    unacknowledged. The cost grows with the number of acknowledged ranges, not with the number of entries."""
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
    """Returns the position of a ledger's last entry. The ledger must not be empty."""
    return ledger.previous_position(Position(ledger_id + 1, 0))


async def last_published_before(ledger: ManagedLedger, after: Position, time_ms: int) -> Position | None:
    """Returns the position of the last entry after `after` that was published before `time_ms`, or None when there is
    no such entry. Raises ManagedLedgerError when the log cannot be read."""
    first = await ledger.find_first(lambda payload: published_at(payload, time_ms) >= time_ms, after)
    last = ledger.previous_position(first)
    return last if last > after else None


# --- reading messages -------------------------------------------------------------------------------------------------


async def peek(subscription: Subscription, number: int) -> StoredMessage | None:
    """Returns the `number`-th unacknowledged entry, counted from 1, or None when fewer entries are unacknowledged.
    Raises PulsarError when the log cannot be read."""
    ledger = subscription.topic.ledger
    position = nth_unacknowledged(ledger, subscription.cursor, number)
    return None if position is None else await message_at(subscription.topic, position)


async def examine(topic: PersistentSubscriptionTopic, number: int, *, from_end: bool) -> StoredMessage | None:
    """Returns the `number`-th entry of the whole log, counted from 1 at the log's beginning or, with `from_end`, at the
    log's end. When the log has fewer entries, returns the entry at which the count ends. Returns None for an empty log.
    Raises PulsarError when the log cannot be read."""
    ledger = topic.ledger
    total = ledger.number_of_entries
    if total == 0:
        return None
    number = min(max(number, 1), total)
    return await message_at(topic, ledger.entry_at(total - number if from_end else number - 1))


async def message_at(topic: PersistentSubscriptionTopic, position: Position) -> StoredMessage | None:
    """Returns the entry at exactly that position, or None when the log has no such entry or has deleted the entry.
    Raises PulsarError when the log cannot be read."""
    ledger = topic.ledger
    if position <= EARLIEST or ledger.is_after_last(position):
        return None
    with storage_faults_told():
        run = await ledger.read(position, 1, 1)
    if not run.entries or (run.ledger_id, run.first_entry_id) != position:
        return None
    return StoredMessage(position, run.entries[0][run.payload_offset :])
