"""`DispatchSource`, from which a dispatcher gets a subscription's entries, `PlannedRead`, which describes a
dispatcher's next read, and `ReadUnderWay`, which describes the read that has begun."""

from collections.abc import Callable
from typing import NamedTuple

from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.topics.subscriptions.compacted_view import CompactedView
from magnetar.server.topics.subscriptions.delayed_delivery import DelayedDelivery
from magnetar.server.topics.subscriptions.dispatch_throttle_rules import Throttle
from magnetar.server.topics.subscriptions.outgoing_messages import AckView, OutgoingMessages
from magnetar.server.topics.transactions.readable_log import ReadableLog
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.entry_run import EntryRun
from pulsar_proto.ids import Position, TxnId


class PlannedRead(NamedTuple):
    """The next read of a dispatcher."""

    position: Position
    entries_max: int
    again: bool
    """True if the read returns entries that were sent before or that wait out of order, False if the read returns the
    next new entries."""


class ReadUnderWay(NamedTuple):
    """A read of the log that was begun and has not ended."""

    position: Position
    """The first entry that the read asks for."""
    began_s: float
    """When the read began, by the loop's clock."""


class DispatchSource(NamedTuple):
    """The parts of a subscription that the subscription's dispatcher uses."""

    name: str
    """The subscription's name, for logs."""
    ledger: ReadableLog
    cursor: Cursor
    settings: TopicSettings
    messages_of: Callable[[EntryRun], OutgoingMessages]
    delayed: DelayedDelivery
    """The topic's delayed delivery."""
    limits: Callable[[], tuple[Throttle, ...]]
    """A function that returns the throttles for the dispatch rates that hold now."""
    compacted: Callable[[], CompactedView | None] = lambda: None
    """A function that returns the log as consumers with `read_compacted` see the log, or None for a topic that is never
    compacted."""
    is_aborted: Callable[[TxnId], bool] = lambda txn_id: False
    """A function that says whether the messages of a transaction are left out because it was aborted."""
    deliverable: Callable[[AckView], AckView] = lambda acks: acks
    """A function that adds to acknowledgements what transactions withhold from consumers."""
