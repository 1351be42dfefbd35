"""Shared subscriptions: all chunks of a message go to the consumer that got the first, which puts them together.

Plain data, no I/O. Source: SharedConsumerAssignor (PIP-37 on Shared subscriptions).
"""

from collections.abc import Iterator, Sequence

from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.redelivery import ReplayQueue
from pulsar_proto.records.payload import MessageChunk

MESSAGES_MAX = 1_000
"""Whose chunks are on their way. Beyond, the oldest one is forgotten: its rest goes to anybody."""


class ChunkOwners:
    __slots__ = ("_owners", "waiting")

    def __init__(self) -> None:
        self._owners: dict[bytes, Consumer] = {}
        self.waiting: dict[Consumer, ReplayQueue] = {}
        """Chunks whose owner took nothing when they were due to be sent."""

    def owner(self, chunk: MessageChunk) -> Consumer | None:
        return self._owners.get(chunk.uuid)

    def sent(self, chunk: MessageChunk, consumer: Consumer) -> None:
        if chunk.is_last:
            self._owners.pop(chunk.uuid, None)
        elif chunk.uuid not in self._owners:
            if len(self._owners) >= MESSAGES_MAX:
                del self._owners[next(iter(self._owners))]
            self._owners[chunk.uuid] = consumer

    def wait(self, consumer: Consumer, ledger_id: int, entry_id: int) -> None:
        self.waiting.setdefault(consumer, ReplayQueue()).add(ledger_id, (entry_id,))

    def ready(self) -> Iterator[tuple[int, Sequence[int]]]:
        """What waits no longer, because its owner takes something again."""
        for consumer in list(self.waiting):
            if consumer.can_take:
                yield from self.waiting.pop(consumer).drain()
            else:
                consumer.watch_writable()

    def gone(self, consumer: Consumer) -> Iterator[tuple[int, Sequence[int]]]:
        """What waited for a consumer that left goes to anybody."""
        self._owners = {uuid: owner for uuid, owner in self._owners.items() if owner is not consumer}
        queue = self.waiting.pop(consumer, None)
        if queue is not None:
            yield from queue.drain()

    def clear(self) -> None:
        self._owners.clear()
        self.waiting.clear()
