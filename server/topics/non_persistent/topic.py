"""A non-persistent topic: producers at one end, subscriptions at the other, and nothing in between.

A group of SENDs is given to every subscription and then answered, in the same turn of the event loop. No SEND is
therefore ever pending, and the broker's limit of messages in flight on a connection
(`maxConcurrentNonPersistentMessagePerConnection`) is never reached. All messages have the id 0:0, as in Apache's
broker.

Source: NonPersistentTopic.
"""

import logging
from collections.abc import Callable

from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.topics.base_topic import BaseTopic, TopicState
from magnetar.server.topics.inactivity_rules import TopicUse
from magnetar.server.topics.non_persistent.producers import NO_POSITION, NonPersistentProducers
from magnetar.server.topics.non_persistent.subscription import NonPersistentSubscription
from magnetar.server.topics.subscriptions.outgoing_messages import ENTRY_MESSAGES_MAX, OutgoingMessages
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import MalformedFrame, MetadataFault, NotAllowed, SubscriptionNotFound
from pulsar_proto.ids import Position
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import message_count

log = logging.getLogger(__name__)


class NonPersistentTopic(BaseTopic):
    """A non-persistent topic, which exists only in this process's memory. `NonPersistentTopics` creates the topic."""

    def __init__(
        self,
        name: TopicName,
        settings: TopicSettings,
        *,
        new_producer_name: Callable[[], str],
        policies: EffectivePolicies | None = None,
    ) -> None:
        super().__init__(name, settings, policies)
        self.subscriptions: dict[str, NonPersistentSubscription] = {}
        self.publishing = NonPersistentProducers(name.full, self, new_producer_name, self.send)
        self.dropped = 0
        """How many messages were dropped because the topic had no subscription."""
        self.apply_send_policies()

    @property
    def is_terminated(self) -> bool:
        return False

    def use(self) -> TopicUse:
        """Returns how the topic is used. A subscription without consumers holds no messages, so such a subscription
        does not keep its topic loaded. (In Apache's broker the subscription ends when its last consumer leaves:
        NonPersistentSubscription.removeConsumer.)"""
        used = sum(1 for each in self.subscriptions.values() if each.consumers)
        return super().use()._replace(subscriptions=used)

    # --- consumers ---------------------------------------------------------------------------------------------------

    async def _subscription_for(self, command: pb.CommandSubscribe) -> NonPersistentSubscription:
        existing = self.subscriptions.get(command.subscription)
        if existing is not None:
            return existing
        if command.durable and not self.policies.allow_auto_subscription_creation:
            raise SubscriptionNotFound(f"Subscription {command.subscription} does not exist")
        properties = {pair.key: pair.value for pair in command.subscription_properties}
        return self.add_subscription(command.subscription, durable=command.durable, properties=properties)

    def check_takes_producers(self) -> None:
        """Always passes, because a non-persistent topic has no backlog."""

    async def make_subscription(self, name: str) -> None:
        self.add_subscription(name)

    def add_subscription(
        self, name: str, *, durable: bool = True, properties: dict[str, str] | None = None
    ) -> NonPersistentSubscription:
        """Returns the subscription of that name, and creates a missing subscription. Raises NotAllowed when the topic
        has as many subscriptions as policies allow."""
        existing = self.subscriptions.get(name)
        if existing is not None:
            return existing
        self._check_may_add_subscription()
        made = NonPersistentSubscription(self, name, durable=durable, properties=properties or {})
        self.subscriptions[name] = made
        log.info("%s: created", made)
        return made

    def forget(self, subscription: NonPersistentSubscription) -> None:
        """Removes a subscription that has ended from the topic. Idempotent."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]
            subscription.disconnect_all()
            self._removed(subscription)

    # --- messages ----------------------------------------------------------------------------------------------------

    def send(self, payloads: list[bytes]) -> None:
        """Gives the messages to every subscription. A consumer that cannot take the messages now does not get them
        later either."""
        subscriptions = list(self.subscriptions.values())
        sizes = [_messages_in(payload) for payload in payloads]
        if not subscriptions:
            self.dropped += sum(sizes)
            return
        ledger_id, entry_id = NO_POSITION
        messages = OutgoingMessages(ledger_id, [entry_id] * len(payloads), payloads, sizes)
        for subscription in subscriptions:
            subscription.send(messages)

    async def last_message_id(self) -> tuple[Position, int]:
        raise MetadataFault("getLastMessageId is not supported on non-persistent topic")

    def roll_storage(self, elapsed_s: float) -> None:
        """Has no effect, because the topic stores nothing."""

    # --- the whole topic ---------------------------------------------------------------------------------------------

    def lost_ledger(self, error: ManagedLedgerError) -> None:
        raise AssertionError("a non-persistent topic has no log to lose")

    async def terminate(self) -> Position:
        raise NotAllowed("Termination of a non-persistent topic is not allowed")

    def detach(self) -> None:
        if self.is_open:
            self.state = TopicState.CLOSING
            self.publishing.close()
            for subscription in list(self.subscriptions.values()):
                subscription.disconnect_all()

    async def close(self) -> None:
        self.detach()
        self._become_closed()


def _messages_in(payload: bytes) -> int:
    try:
        return min(max(1, message_count(payload)), ENTRY_MESSAGES_MAX)
    except MalformedFrame:
        return 1
