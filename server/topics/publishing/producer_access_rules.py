"""Decides who may produce to a topic, by the access mode that a producer asks for.

| mode | granted when | else |
|--|--|--|
| Shared | no producer is exclusive and none waits | refused as ProducerBusy |
| Exclusive | no producer is connected or waits | refused as ProducerFenced |
| ExclusiveWithFencing | always; waiting producers are refused as fenced, all others are closed | |
| WaitForExclusive | no producer is connected or waits | the producer waits for its turn |

A topic has an epoch, which grows by one with each exclusive producer that does not bring an epoch itself. If a producer
brings an epoch that is older than the topic's, another producer has replaced this producer meanwhile, and this producer
is refused as fenced.

Source: AbstractTopic.incrementTopicEpochIfNeeded.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

from pulsar_proto.errors import ProducerBusy, ProducerFenced
from pulsar_proto.pb import pulsar_api_pb2 as pb

WAITING_MAX = 10_000
"""How many producers may wait for exclusive access to a topic; further producers are refused as ProducerBusy."""

TOPIC_EPOCH = "pulsar.topic.epoch"
"""The property of the managed ledger that holds the topic's epoch, as a decimal number."""

T = TypeVar("T")


class AccessVerdict(Enum):
    GRANT = "grant"
    FENCE_OTHERS = "fence others"
    """Access is granted after all other producers were fenced."""
    WAIT = "wait"


class ProducerAccess(Generic[T]):
    """Decides about the access to one topic. `T` is the type that stands for a waiting producer. This class knows the
    name of the exclusive producer but keeps no list of the connected producers; callers pass the number of connected
    producers."""

    __slots__ = ("epoch", "exclusive_name", "waiting")

    def __init__(self, epoch: int | None) -> None:
        self.epoch = epoch
        """The epoch that is stored with the topic; None as long as the topic has never had an exclusive producer."""
        self.exclusive_name: str | None = None
        """The name of the exclusive producer, if there is one."""
        self.waiting: list[T] = []
        """Producers that wait for exclusive access, in the order in which they will get access."""

    def judge(self, mode: int, connected: int, epoch: int | None) -> AccessVerdict:
        """Returns how a producer that asks for access is treated. Changes nothing. `connected` is how many producers
        the topic has, and `epoch` is the topic's epoch as the producer knows it. Raises ProducerBusy or ProducerFenced
        when the producer is refused."""
        held = f"Topic has an existing exclusive producer: {self.exclusive_name}"
        if mode == pb.Shared:
            if self.exclusive_name is not None or self.waiting:
                raise ProducerBusy(held)
            return AccessVerdict.GRANT
        if mode == pb.Exclusive:
            if self.exclusive_name is not None or self.waiting:
                raise ProducerFenced(held)
            if connected:
                raise ProducerFenced("Topic has existing shared producers")
        if mode == pb.WaitForExclusive and (self.exclusive_name is not None or connected or self.waiting):
            if len(self.waiting) >= WAITING_MAX:
                raise ProducerBusy(f"{WAITING_MAX} producers wait for exclusive access already")
            return AccessVerdict.WAIT
        if epoch is not None and self.epoch is not None and epoch < self.epoch:
            raise ProducerFenced(f"Topic epoch has already moved. Current epoch: {self.epoch}, Producer epoch: {epoch}")
        return AccessVerdict.FENCE_OTHERS if mode == pb.ExclusiveWithFencing else AccessVerdict.GRANT

    def next_epoch(self, epoch: int | None) -> int:
        """Returns the topic's epoch once a producer that brings `epoch` is exclusive."""
        if epoch is not None:
            return epoch
        return 0 if self.epoch is None else self.epoch + 1

    def next_waiting(self) -> T | None:
        """Called when the last producer has left. Takes the first waiting producer out of the queue and returns it."""
        return self.waiting.pop(0) if self.waiting else None


def stored_epoch(properties: Mapping[str, str]) -> int | None:
    """Returns the topic's epoch from the properties of its managed ledger, or None when there is none yet."""
    text = properties.get(TOPIC_EPOCH)
    return int(text) if text is not None and text.isdecimal() else None
