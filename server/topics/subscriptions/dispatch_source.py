"""`DispatchSource`, from which a dispatcher gets a subscription's entries, `PlannedRead`, which describes a
dispatcher's next read, and `ReadUnderWay`, which describes the read that has begun."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

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


class DispatchSource(Protocol):
    """A subscription, as its dispatcher uses it. Log lines call the subscription by its text. A dispatcher holds this
    one object instead of a function for each of its parts, because a broker has many subscriptions."""

    @property
    def ledger(self) -> ReadableLog: ...

    @property
    def cursor(self) -> Cursor: ...

    @property
    def settings(self) -> TopicSettings: ...

    @property
    def messages_of(self) -> Callable[[EntryRun], OutgoingMessages]:
        """A function that returns the entries of a run, ready to be sent."""

    @property
    def delayed(self) -> DelayedDelivery:
        """The topic's delayed delivery."""

    def throttles(self) -> tuple[Throttle, ...]:
        """Returns the throttles for the dispatch rates that hold now."""

    def compacted_view(self) -> CompactedView | None:
        """Returns the log as consumers with `read_compacted` see the log, or None for a topic that is never
        compacted."""

    def is_aborted(self, txn_id: TxnId) -> bool:
        """Whether the messages of a transaction are left out because it was aborted."""

    def deliverable(self, acks: AckView) -> AckView:
        """Returns the acknowledgements together with what transactions withhold from consumers."""
