"""`PersistentSubscriptionTopic`: what the subscriptions of a persistent topic use of the topic."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from magnetar.server.compaction.topic_compaction import TopicCompaction
from magnetar.server.topics.subscriptions.base_subscription import SubscriptionTopic
from magnetar.server.topics.subscriptions.delayed_delivery import DelayedDelivery
from magnetar.server.topics.subscriptions.dispatch_limits import DispatchLimits
from magnetar.server.topics.subscriptions.outgoing_messages import OutgoingMessages
from magnetar.server.topics.subscriptions.pending_acks.pending_ack_log import PendingAckLogs
from magnetar.server.topics.transactions.readable_log import ReadableLog
from magnetar.storage.managed.entry_run import EntryRun
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.ids import Position, TxnId

if TYPE_CHECKING:
    from magnetar.server.topics.subscriptions.subscription import Subscription


class PersistentSubscriptionTopic(SubscriptionTopic, Protocol):
    """The subscriptions of a persistent topic use the topic through this interface."""

    @property
    def ledger(self) -> ManagedLedger: ...

    @property
    def readable_log(self) -> ReadableLog:
        """The log as far as consumers may read it."""

    def is_aborted(self, txn_id: TxnId) -> bool:
        """Whether the messages of a transaction are left out because it was aborted."""

    @property
    def delayed(self) -> DelayedDelivery: ...

    @property
    def dispatch_limits(self) -> DispatchLimits: ...

    @property
    def compaction(self) -> TopicCompaction | None: ...

    @property
    def is_terminated(self) -> bool: ...

    @property
    def pending_ack_logs(self) -> PendingAckLogs | None:
        """Opens and deletes the logs of acknowledgements in transactions. None for a topic of the system, whose
        subscriptions never have such logs."""

    def lost_ledger(self, error: ManagedLedgerError) -> None:
        """Called when another broker has taken over a log of this topic."""

    @property
    def messages_of(self) -> Callable[[EntryRun], OutgoingMessages]:
        """A function that returns the entries of a run, ready to be sent. A run (a group of consecutive entries) is
        prepared only once for all subscriptions."""

    async def delete_cursor(self, subscription: "Subscription") -> None:
        """Deletes the subscription's cursor, then removes the subscription from the topic. Raises ManagedLedgerError
        when the cursor cannot be deleted; nothing has changed then."""

    def forget(self, subscription: "Subscription") -> None:
        """Removes a subscription that has ended from the topic."""

    async def first_published_at(self, publish_time_ms: int) -> Position:
        """Returns the position of the first message that was published at that time or later. Raises ManagedLedgerError
        when the log cannot be read."""

    async def sought(self, position: Position, publish_time_ms: int | None) -> Position:
        """Returns where a consumer with `read_compacted` reads on after a seek that moves the cursor to `position`.
        Raises ManagedLedgerError when the log cannot be read."""
