"""The answer to `…/internalStats` for a persistent topic: its managed ledger and its cursors.

Field names and their order are Apache's: ManagedLedgerInternalStats and CursorStats, as Pulsar 4.0.7 answers them. Two
fields are not in Apache's answer: `ackHoles` of a cursor lists the entries that are not acknowledged although later
entries are acknowledged, and `unreadable` lists the entries that every bookie has lost.
"""

from collections.abc import Mapping
from types import MappingProxyType

from magnetar.server.stats.compaction_stats import compacted_ledger_stats
from magnetar.server.stats.traffic_stats import Json, iso_time
from magnetar.server.topics.subscriptions.subscription import Subscription
from magnetar.server.topics.topic import Topic
from magnetar.storage.managed.appender import AppendState
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.gaps import Gap
from magnetar.storage.managed.managed_ledger import ManagedLedger
from pulsar_proto.ids import Position

HOLES_SHOWN_MAX = 1_000
"""How many ranges of entries `individuallyDeletedMessages` and `ackHoles` list for a cursor at most."""

STATE_NAMES = {
    AppendState.IDLE: "ClosedLedger",
    AppendState.OPEN: "LedgerOpened",
    AppendState.SETTLING: "CreatingLedger",
    AppendState.FENCED: "Fenced",
    AppendState.TERMINATED: "Terminated",
    AppendState.CLOSED: "Closed",
}
"""Maps the states of a managed ledger to the names of ManagedLedgerImpl.State."""


def managed_ledger_stats(topic: Topic) -> Json:
    return {
        **ledger_stats(topic.ledger, topic.subscriptions),
        "unreadable": [unreadable(gap) for gap in topic.ledger.gaps.known],
        "schemaLedgers": [],
        "compactedLedger": compacted_ledger_stats(topic.compaction),
    }


def ledger_stats(ledger: ManagedLedger, subscriptions: Mapping[str, Subscription] = MappingProxyType({})) -> Json:
    """Returns the internal stats of a managed ledger with its cursors, also of one that is no topic's."""
    stats = ledger.stats()
    return {
        "entriesAddedCounter": stats.entries_added,
        "numberOfEntries": stats.entries,
        "totalSize": stats.size,
        "currentLedgerEntries": stats.current_ledger_entries,
        "currentLedgerSize": stats.current_ledger_size,
        **({"lastLedgerCreatedTimestamp": iso_time(stats.ledger_created_ms)} if stats.ledger_created_ms else {}),
        **({"lastLedgerCreationFailureTimestamp": iso_time(stats.ledger_failed_ms)} if stats.ledger_failed_ms else {}),
        "waitingCursorsCount": sum(map(waits_for_messages, subscriptions.values())),
        "pendingAddEntriesCount": stats.pending_entries,
        "lastConfirmedEntry": str(stats.last_confirmed),
        "state": STATE_NAMES[stats.state],
        "ledgers": [
            {
                "ledgerId": info.ledger_id,
                "entries": info.entries,
                "size": info.size,
                "offloaded": info.offloaded_only,
                "underReplicated": False,
            }
            for info in stats.ledgers
        ],
        "cursors": {
            name: cursor_stats(ledger, cursor, subscriptions.get(name)) for name, cursor in ledger.cursors.items()
        },
    }


def unreadable(gap: Gap) -> Json:
    """Returns the JSON with which internalStats shows a range of entries that every bookie has lost."""
    return {
        "ledgerId": gap.ledger_id,
        "firstEntryId": gap.first,
        "lastEntryId": gap.last,
        "entries": gap.entries,
        "skipped": gap.skipped,
        "reason": gap.reason,
    }


def waits_for_messages(subscription: Subscription) -> bool:
    """Returns whether the subscription has consumers and nothing left to send, so that it waits for new messages."""
    dispatcher = subscription.dispatcher
    return dispatcher is not None and bool(subscription.consumers) and dispatcher.is_caught_up


def read_position_of(cursor: Cursor, subscription: Subscription | None) -> Position:
    """Returns the position of the entry that will be read next."""
    dispatcher = None if subscription is None else subscription.dispatcher
    return dispatcher.read_position if dispatcher else cursor.next_unacked(cursor.mark_delete)


def cursor_stats(ledger: ManagedLedger, cursor: Cursor, subscription: Subscription | None) -> Json:
    """Returns the internal stats of a cursor, which may be a subscription's."""
    dispatcher = None if subscription is None else subscription.dispatcher
    read_position = read_position_of(cursor, subscription)
    holes = cursor.holes(HOLES_SHOWN_MAX)
    unacked = cursor.unacked_ranges(HOLES_SHOWN_MAX)
    reads = dispatcher is not None and dispatcher.is_reading
    waits = subscription is not None and waits_for_messages(subscription)
    return {
        "markDeletePosition": str(cursor.mark_delete),
        "readPosition": str(read_position),
        "waitingReadOp": waits,
        "pendingReadOps": int(reads),
        "messagesConsumedCounter": ledger.entries_between(Position(-1, -1), cursor.mark_delete),
        "cursorLedger": cursor.ledger_id,
        "cursorLedgerLastEntry": cursor.ledger_last_entry,
        "individuallyDeletedMessages": "["
        + ",".join(f"({hole.ledger_id}:{hole.first - 1}..{hole.ledger_id}:{hole.last}]" for hole in holes)
        + "]",
        "ackHoles": "["
        + ",".join(f"({hole.ledger_id}:{hole.first - 1}..{hole.ledger_id}:{hole.last}]" for hole in unacked)
        + "]",
        "lastLedgerSwitchTimestamp": iso_time(cursor.ledger_switched_ms),
        "state": "NoLedger" if cursor.ledger_id < 0 else "Open",
        "active": bool(subscription is not None and subscription.consumers),
        "numberOfEntriesSinceFirstNotAckedMessage": ledger.entries_between(cursor.mark_delete, read_position),
        "totalNonContiguousDeletedMessagesRange": cursor.number_of_holes,
        "subscriptionHavePendingRead": reads or waits,
        "subscriptionHavePendingReplayRead": False,
        "properties": dict(cursor.position_properties),
    }
