"""The interface through which acknowledgements in transactions change their subscription."""

from collections.abc import Collection, Sequence
from typing import Protocol

from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.pending_acks.pending_ack_rules import Held
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.ids import Position
from pulsar_proto.records.pending_ack_log import PendingPosition


class SubscriptionOfAcks(Protocol):
    """The subscription, as far as acknowledgements in transactions change it."""

    @property
    def cursor(self) -> Cursor: ...

    @property
    def last_position(self) -> Position:
        """The position of the topic's last message."""

    def acknowledged(self, consumer: Consumer, positions: Sequence[PendingPosition], messages: int) -> None:
        """Called when individual acknowledgements of so many messages are stored: takes the messages off the consumer
        that has them."""

    def commit_held(self, held: Held) -> None:
        """Acknowledges on the cursor what a committed transaction has held."""

    def give_back(self, entries: Collection[tuple[int, int]], *, again: bool) -> None:
        """Delivers entries (ledger, entry) that are held no more, unless a consumer has them. With `again`, their
        transaction was aborted: then consumers get them again in any case, with a higher redelivery count."""

    def lost_log(self, error: ManagedLedgerError) -> None:
        """Called when another broker has taken the log over."""
