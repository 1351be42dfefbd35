"""Reads the first unacknowledged entries of a subscription, to learn when the oldest message was published and how many
messages the backlog holds. The log's own counts are entries, which may be batches.

A read must not hold an answer up for long, because a log that cannot be read is one of the reasons that people ask for.
"""

import asyncio

from magnetar.server.topics.publish_times import published_at
from magnetar.server.topics.subscriptions.outgoing_messages import messages_of, unacknowledged
from magnetar.server.topics.subscriptions.subscription import Subscription
from magnetar.server.why.reasons import duration
from magnetar.server.why.subscription_snapshot import OldestEntry
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.ids import Position

READ_ENTRIES = 100
READ_BYTES = 1 << 20
"""How many entries and bytes are read for one subscription at most."""

READ_SECONDS = 2.0
"""How long one read may take."""


async def oldest_entry(subscription: Subscription, until_s: float) -> OldestEntry | None:
    """Returns what the first unacknowledged entries show, or None when everything is acknowledged. Reads nothing when
    the read might last longer than until the loop's time is `until_s`."""
    ledger, cursor = subscription.topic.ledger, subscription.cursor
    first, backlog = cursor.next_unacked(cursor.mark_delete), cursor.backlog
    if not backlog:
        return None
    if asyncio.get_running_loop().time() + READ_SECONDS > until_s:
        return OldestEntry()
    try:
        async with asyncio.timeout(READ_SECONDS):
            run = await ledger.read(first, READ_ENTRIES, READ_BYTES)
    except TimeoutError:
        return OldestEntry(failure=f"the bookies did not answer within {duration(READ_SECONDS)}")
    except ManagedLedgerError as error:
        return OldestEntry(failure=str(error))
    if not run.entries or Position(run.ledger_id, run.first_entry_id) != first:
        return OldestEntry()  # the entry was acknowledged or trimmed meanwhile
    found = unacknowledged(messages_of(run), 0, cursor)
    exact = len(found) >= cursor.backlog
    messages = found.total if exact or not len(found) else round(found.total * backlog / len(found))
    return OldestEntry(published_at(run.entries[0][run.payload_offset :]), messages, exact)
