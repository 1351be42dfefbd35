"""Applies ACKs of single messages to a cursor and to the dispatcher that sent the messages.

Clients of Shared subscriptions acknowledge every message by its id, so this module is compiled, unlike the
subscription.
"""

from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.dispatcher import Dispatcher
from magnetar.server.topics.subscriptions.outgoing_messages import bits_set
from magnetar.server.topics.subscriptions.shared_dispatcher import SharedDispatcher
from magnetar.storage.managed.bitmap_ranges import ENTRY_ID_END
from magnetar.storage.managed.cursor import Cursor
from pulsar_proto.wire.plain_ack import Ack


def ack_individual(
    cursor: Cursor,
    dispatcher: Dispatcher | None,
    consumer: Consumer,
    acks: list[Ack],
    words_max: int,
) -> None:
    """Acknowledges these messages, and tells a dispatcher that remembers who holds which message. An ack set of more
    than `words_max` words that leaves messages of its batch unacknowledged is ignored."""
    kept: list[Ack] = []
    partial = False
    for ack in acks:
        ack_set = ack[2]
        if ack[1] >= ENTRY_ID_END:
            continue  # no ledger has an entry with this id
        if ack_set is not None:
            if len(ack_set) > words_max and bits_set(ack_set):
                continue
            partial = True
        kept.append(ack)
    cursor.ack(kept)
    if not isinstance(dispatcher, SharedDispatcher):
        return
    if partial:
        for ledger_id, entry_id, _ in kept:
            dispatcher.settle(consumer, ledger_id, entry_id, _remaining(cursor, ledger_id, entry_id))
    else:
        _settle_whole(dispatcher, consumer, kept)
    dispatcher.settled()


def _settle_whole(dispatcher: SharedDispatcher, consumer: Consumer, acks: list[Ack]) -> None:
    """Settles entries that are acknowledged as a whole: those of a ledger, which nearly always are all, together."""
    of_ledger = -1
    entry_ids: list[int] = []
    for ledger_id, entry_id, _ in acks:
        if ledger_id != of_ledger:
            if entry_ids:
                dispatcher.settle_all(consumer, of_ledger, entry_ids)
            of_ledger, entry_ids = ledger_id, []
        entry_ids.append(entry_id)
    if entry_ids:
        dispatcher.settle_all(consumer, of_ledger, entry_ids)


def _remaining(cursor: Cursor, ledger_id: int, entry_id: int) -> int:
    """Returns how many messages of an entry are unacknowledged after an ack of some of them."""
    if cursor.is_acked(ledger_id, entry_id):
        return 0
    words = cursor.ack_set_of(ledger_id, entry_id)
    return 0 if words is None else bits_set(words)
