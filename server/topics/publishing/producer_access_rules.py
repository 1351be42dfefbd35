"""Who may produce to a topic: shared, exclusive, fencing and waiting producers. Rules only.

| mode | granted when | else |
|--|--|--|
| Shared | nobody is exclusive, nobody waits | ProducerBusy |
| Exclusive | there is nobody at all | ProducerFenced |
| ExclusiveWithFencing | always: those who wait are fenced, all others closed | |
| WaitForExclusive | there is nobody at all | waits its turn |

The topic's epoch grows with each exclusive producer that brings none of its own; one that brings an older epoch than
the topic's was replaced meanwhile and is fenced. Source: AbstractTopic.incrementTopicEpochIfNeeded; facts 4.1.
"""

from enum import Enum
from typing import Generic, TypeVar

from pulsar_proto.errors import ProducerBusy, ProducerFenced
from pulsar_proto.pb import pulsar_api_pb2 as pb

WAITING_MAX = 10_000
"""Producers that wait for exclusive access; the next one is refused as busy."""

T = TypeVar("T")


class AccessVerdict(Enum):
    GRANT = "grant"
    FENCE_OTHERS = "fence others"
    """Granted, after everybody else was fenced."""
    WAIT = "wait"


class ProducerAccess(Generic[T]):
    """`T` is what stands for a waiting producer. The topic's other producers are known by their number only."""

    __slots__ = ("epoch", "exclusive_name", "waiting")

    def __init__(self, epoch: int | None) -> None:
        self.epoch = epoch
        """As stored with the topic; None until the first exclusive producer."""
        self.exclusive_name: str | None = None
        self.waiting: list[T] = []

    def judge(self, mode: int, connected: int, epoch: int | None) -> AccessVerdict:
        """`connected`: how many producers the topic has; `epoch`: the one that the client knows. Changes nothing.
        Raises ProducerBusy, ProducerFenced."""
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
        if mode == pb.WaitForExclusive and (self.exclusive_name is not None or connected):
            if len(self.waiting) >= WAITING_MAX:
                raise ProducerBusy(f"{WAITING_MAX} producers wait for exclusive access already")
            return AccessVerdict.WAIT
        if epoch is not None and self.epoch is not None and epoch < self.epoch:
            raise ProducerFenced(f"Topic epoch has already moved. Current epoch: {self.epoch}, Producer epoch: {epoch}")
        return AccessVerdict.FENCE_OTHERS if mode == pb.ExclusiveWithFencing else AccessVerdict.GRANT

    def next_epoch(self, epoch: int | None) -> int:
        """The topic's epoch with the exclusive producer that knows `epoch`."""
        if epoch is not None:
            return epoch
        return 0 if self.epoch is None else self.epoch + 1

    def next_waiting(self) -> T | None:
        """When the last producer has left: whose turn it is."""
        return self.waiting.pop(0) if self.waiting else None
