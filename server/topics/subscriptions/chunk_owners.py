"""Shared subscriptions: all chunks of a message go to the consumer that got the first chunk, because a consumer needs
all of them to assemble the message.

Plain data, no I/O. Source: SharedConsumerAssignor (PIP-37 on Shared subscriptions).
"""

from collections.abc import Iterator, Sequence

from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.redelivery import ReplayQueue
from pulsar_proto.records.payload import MessageChunk

MESSAGES_MAX = 1_000
"""How many incomplete messages are remembered. Beyond that the oldest one is forgotten, and its remaining chunks go to
any consumer."""


class ChunkOwners:
    """Remembers the consumer of each message whose chunks were sent only in part."""

    __slots__ = ("_owners", "waiting")

    def __init__(self) -> None:
        self._owners: dict[bytes, Consumer] = {}
        self.waiting: dict[Consumer, ReplayQueue] = {}
        """Owner -> its chunks that wait, because the owner could take nothing when they were due to be sent."""

    def owner(self, chunk: MessageChunk) -> Consumer | None:
        """Returns the consumer that got the first chunk of the message; None when the first chunk was not sent."""
        return self._owners.get(chunk.uuid)

    def sent(self, chunk: MessageChunk, consumer: Consumer) -> None:
        """Called when a chunk is sent to `consumer`, which owns the rest of the message from now on. The last chunk
        ends the ownership."""
        if chunk.is_last:
            self._owners.pop(chunk.uuid, None)
        elif chunk.uuid not in self._owners:
            if len(self._owners) >= MESSAGES_MAX:
                del self._owners[next(iter(self._owners))]
            self._owners[chunk.uuid] = consumer

    def wait(self, consumer: Consumer, ledger_id: int, entry_id: int) -> None:
        """Called when the owner of a chunk can take nothing now: the chunk waits until it can."""
        self.waiting.setdefault(consumer, ReplayQueue()).add(ledger_id, (entry_id,))

    def ready(self) -> Iterator[tuple[int, Sequence[int]]]:
        """Yields, as (ledger, entries), the chunks that need not wait any more because their owner takes messages
        again."""
        for consumer in list(self.waiting):
            if consumer.can_take:
                yield from self.waiting.pop(consumer).drain()
            else:
                consumer.watch_writable()

    def gone(self, consumer: Consumer) -> Iterator[tuple[int, Sequence[int]]]:
        """Called when a consumer has left: its messages have no owner any more. Yields the chunks that waited for the
        consumer; they go to any consumer."""
        self._owners = {uuid: owner for uuid, owner in self._owners.items() if owner is not consumer}
        queue = self.waiting.pop(consumer, None)
        if queue is not None:
            yield from queue.drain()

    def clear(self) -> None:
        self._owners.clear()
        self.waiting.clear()
