"""Knows for each subscription of a topic when its oldest unacknowledged message was published. A message is read from
the log once; as long as it is the oldest, its time is remembered."""

from collections.abc import Callable, Mapping

from magnetar.server.topics.publish_times import OldestMessage
from magnetar.server.topics.subscriptions.subscription import Subscription
from magnetar.storage.managed.managed_ledger import ManagedLedger


class BacklogAges:
    """The oldest messages of the subscriptions of one topic."""

    __slots__ = ("_ledger", "_oldest", "_subscriptions")

    def __init__(self, ledger: ManagedLedger, subscriptions: Callable[[], Mapping[str, Subscription]]) -> None:
        """`subscriptions()` returns the subscriptions that exist now."""
        self._ledger = ledger
        self._subscriptions = subscriptions
        self._oldest: dict[Subscription, OldestMessage] = {}

    async def published_ms(self, subscription: Subscription) -> int | None:
        """Returns when the subscription's oldest unacknowledged message was published, in ms since the epoch, or None
        when all are acknowledged. Raises ManagedLedgerError when the log cannot be read."""
        if self._subscriptions().get(subscription.name) is not subscription:
            return None
        known = self._oldest.get(subscription)
        if known is None:
            cursor = subscription.cursor
            known = self._oldest[subscription] = OldestMessage(self._ledger, lambda: (cursor,))
        return await known.published_ms()

    def known_ms(self, subscription: Subscription) -> int | None:
        """Returns the time of `published_ms` without reading. Returns None when all messages are acknowledged, and
        when the oldest one has not been read yet."""
        known = self._oldest.get(subscription)
        return None if known is None else known.known_ms()

    async def refresh(self) -> None:
        """Learns the times of all durable subscriptions. Raises ManagedLedgerError when the log cannot be read."""
        current = list(self._subscriptions().values())
        self._oldest = {each: self._oldest[each] for each in current if each in self._oldest}
        for subscription in current:
            if subscription.cursor.durable:
                await self.published_ms(subscription)

    def forget(self, subscription: Subscription) -> None:
        """Called when a subscription has ended."""
        self._oldest.pop(subscription, None)
