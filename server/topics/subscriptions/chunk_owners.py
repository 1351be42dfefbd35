"""Shared subscriptions: all chunks of a message go to the consumer that got the first one, because that consumer puts
them together.

Plain data, no I/O. Source: SharedConsumerAssignor (PIP-37 on Shared subscriptions).
"""

from collections.abc import Iterator, Sequence

from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.redelivery import ReplayQueue
from pulsar_proto.records.payload import MessageChunk

MESSAGES_MAX = 1_000
"""How many messages may have chunks on their way. Beyond that the oldest one is forgotten: its remaining chunks go to
any consumer."""


class ChunkOwners:
    """Which consumer gets the chunks of each message that is on its way."""

    __slots__ = ("_owners", "waiting")

    def __init__(self) -> None:
        self._owners: dict[bytes, Consumer] = {}
        self.waiting: dict[Consumer, ReplayQueue] = {}
        """Chunks whose owner took nothing when they were due to be sent."""

    def owner(self, chunk: MessageChunk) -> Consumer | None:
        """Returns the consumer that has the first chunk of the message; None when the first chunk was not sent."""
        return self._owners.get(chunk.uuid)

    def sent(self, chunk: MessageChunk, consumer: Consumer) -> None:
        """The chunk goes to `consumer`, which owns the rest of the message from now on. The last chunk ends that."""
        if chunk.is_last:
            self._owners.pop(chunk.uuid, None)
        elif chunk.uuid not in self._owners:
            if len(self._owners) >= MESSAGES_MAX:
                del self._owners[next(iter(self._owners))]
            self._owners[chunk.uuid] = consumer

    def wait(self, consumer: Consumer, ledger_id: int, entry_id: int) -> None:
        """The owner of a chunk takes nothing now: the chunk waits until it does."""
        self.waiting.setdefault(consumer, ReplayQueue()).add(ledger_id, (entry_id,))

    def ready(self) -> Iterator[tuple[int, Sequence[int]]]:
        """Yields the chunks that wait no longer, because their owner takes messages again, as (ledger, entries)."""
        for consumer in list(self.waiting):
            if consumer.can_take:
                yield from self.waiting.pop(consumer).drain()
            else:
                consumer.watch_writable()

    def gone(self, consumer: Consumer) -> Iterator[tuple[int, Sequence[int]]]:
        """The consumer left: its messages have no owner any more. Yields the chunks that waited for it; they go to any
        consumer."""
        self._owners = {uuid: owner for uuid, owner in self._owners.items() if owner is not consumer}
        queue = self.waiting.pop(consumer, None)
        if queue is not None:
            yield from queue.drain()

    def clear(self) -> None:
        self._owners.clear()
        self.waiting.clear()
