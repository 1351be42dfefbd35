"""Chooses which consumer of a subscription gets a message of a non-persistent topic. If no consumer can take the
message now, the message is dropped and no consumer ever gets it.

A consumer without permits, or whose connection takes no more bytes, gets nothing. The messages meant for that consumer
are dropped, so that the producer never has to wait. The consumer is chosen by the same rules as in a persistent
subscription.

Sources: NonPersistentDispatcherSingleActiveConsumer, NonPersistentDispatcherMultipleConsumers,
NonPersistentStickyKeyDispatcherMultipleConsumers.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.topics.subscriptions.consumer import Consumer, SubType
from magnetar.server.topics.subscriptions.key_shared_rules import KeySharedPolicy, Selector, selector_for
from magnetar.server.topics.subscriptions.outgoing_messages import OutgoingMessages
from magnetar.server.topics.subscriptions.read_size_rules import entries_within
from magnetar.server.topics.subscriptions.shared_rules import RoundRobin
from magnetar.server.topics.subscriptions.single_active_rules import Candidate, choose_active


class Receivers(ABC):
    """The connected consumers of one subscription. All of them use the same subscription type."""

    @abstractmethod
    def add(self, consumer: Consumer) -> None:
        """Adds a consumer. Raises ConsumerAssignFault when a Key_Shared subscription has no hash slots for the
        consumer."""

    @abstractmethod
    def remove(self, consumer: Consumer) -> None: ...

    @abstractmethod
    def send(self, messages: OutgoingMessages) -> int:
        """Gives messages to the consumers. Returns how many messages no consumer took."""

    @property
    def active(self) -> Consumer | None:
        """Returns the consumer that gets all messages, or None for the subscription types that share messages among
        consumers."""
        return None


class OneActive(Receivers):
    """The receivers of an Exclusive or Failover subscription: the active consumer gets all messages."""

    def __init__(self, sub_type: SubType.ValueType, topic: str, partition_index: int, settings: TopicSettings) -> None:
        self._is_failover = sub_type == SubType.Failover
        self._topic = topic
        self._partition_index = partition_index
        self._always_hash = settings.active_consumer_failover_consistent_hashing
        self._consumers: list[Consumer] = []
        self._active: Consumer | None = None

    @property
    def active(self) -> Consumer | None:
        return self._active

    def add(self, consumer: Consumer) -> None:
        self._consumers.append(consumer)
        self._choose(consumer)

    def remove(self, consumer: Consumer) -> None:
        self._consumers.remove(consumer)
        self._choose(None)

    def _choose(self, newcomer: Consumer | None) -> None:
        """Chooses the active consumer. In a Failover subscription, tells every consumer whether it is active when the
        active consumer has changed; otherwise tells only the newcomer."""
        previous = self._active
        if self._consumers:
            candidates = [Candidate(each.name, each.priority) for each in self._consumers]
            index = choose_active(candidates, self._topic, self._partition_index, always_hash=self._always_hash)
            self._active = self._consumers[index]
        else:
            self._active = None
        if self._is_failover:
            told = self._consumers if self._active is not previous else [newcomer] if newcomer is not None else []
            for consumer in told:
                consumer.tell_active(consumer is self._active)

    def send(self, messages: OutgoingMessages) -> int:
        active = self._active
        if active is None or not active.can_take:
            return messages.total
        return give(active, messages)


class InTurns(Receivers):
    """The receivers of a Shared subscription: each entry goes to the consumer whose turn it is."""

    def __init__(self) -> None:
        self._consumers: RoundRobin[Consumer] = RoundRobin()

    def add(self, consumer: Consumer) -> None:
        self._consumers.add(consumer, consumer.priority)

    def remove(self, consumer: Consumer) -> None:
        self._consumers.remove(consumer)

    def send(self, messages: OutgoingMessages) -> int:
        if len(self._consumers) == 1:
            consumer = self._consumers.pick()
            return messages.total if consumer is None else give(consumer, messages)
        dropped = 0
        for index in range(len(messages)):
            consumer = self._consumers.pick()
            if consumer is None:
                return dropped + sum(messages.counts[index:])
            dropped += give(consumer, messages.pick(range(index, index + 1)))
        return dropped


class ByKey(Receivers):
    """The receivers of a Key_Shared subscription: each entry goes to the consumer that owns the entry's key."""

    def __init__(self, policy: KeySharedPolicy, settings: TopicSettings) -> None:
        self.policy = policy
        self._selector: Selector[Consumer] = selector_for(
            policy,
            consistent_hashing=settings.subscription_key_shared_use_consistent_hashing,
            points=settings.subscription_key_shared_consistent_hashing_replica_points,
        )

    def add(self, consumer: Consumer) -> None:
        self._selector.add(consumer, consumer.name, consumer.hash_ranges)

    def remove(self, consumer: Consumer) -> None:
        self._selector.remove(consumer)

    def send(self, messages: OutgoingMessages) -> int:
        slot_of, owner = self._selector.slot_of, self._selector.owner
        shares: dict[int, tuple[Consumer, list[int]]] = {}
        dropped = 0
        for index, key_hash in enumerate(messages.key_hashes):
            consumer = owner(slot_of(key_hash))
            if consumer is None or not consumer.can_take:
                dropped += messages.counts[index]
            else:
                shares.setdefault(id(consumer), (consumer, []))[1].append(index)
        for consumer, indexes in shares.values():
            dropped += give(consumer, _part(messages, indexes))
        return dropped


def _part(messages: OutgoingMessages, indexes: Sequence[int]) -> OutgoingMessages:
    return messages if len(indexes) == len(messages) else messages.pick(indexes)


def give(consumer: Consumer, messages: OutgoingMessages) -> int:
    """Sends a consumer as many entries as it has permits for, in one write. Returns how many messages the consumer did
    not get."""
    count = entries_within(messages.counts, messages.total, 0, consumer.permits)
    taken = 0
    if count:
        taken = consumer.take(messages, 0, count)
        consumer.write(messages, 0, count)
    return messages.total - taken
