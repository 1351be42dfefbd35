"""What a dispatcher is made of: where a subscription's entries come from, and the next read of them."""

from collections.abc import Callable
from typing import NamedTuple

from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.topics.subscriptions.compacted_view import CompactedView
from magnetar.server.topics.subscriptions.delayed_delivery import DelayedDelivery
from magnetar.server.topics.subscriptions.dispatch_throttle_rules import Throttle
from magnetar.server.topics.subscriptions.outgoing_messages import OutgoingMessages
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.entry_run import EntryRun
from magnetar.storage.managed.managed_ledger import ManagedLedger
from pulsar_proto.ids import Position


class PlannedRead(NamedTuple):
    """The next read of a dispatcher."""

    position: Position
    entries_max: int
    again: bool
    """Whether these entries were sent before, or wait out of order, rather than being the next new ones."""


class DispatchSource(NamedTuple):
    """What a subscription gives to its dispatcher."""

    name: str
    """The subscription's, for logs."""
    ledger: ManagedLedger
    cursor: Cursor
    settings: TopicSettings
    messages_of: Callable[[EntryRun], OutgoingMessages]
    delayed: DelayedDelivery
    """The topic's."""
    limits: Callable[[], tuple[Throttle, ...]]
    """Returns the throttles for the dispatch rates that hold now."""
    compacted: Callable[[], CompactedView | None] = lambda: None
    """Returns the log as consumers with `read_compacted` see it; None for a topic that is never compacted."""
