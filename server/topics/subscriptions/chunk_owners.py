"""Remembers, for a Shared subscription, which consumer gets the chunks of a message: all chunks go to the consumer that
got the first chunk, because a consumer needs all chunks to assemble the message.

Plain data, no I/O. Source: SharedConsumerAssignor (PIP-37 on Shared subscriptions).
"""

from collections.abc import Iterator, Sequence

from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.redelivery import ReplayQueue
from pulsar_proto.records.payload import MessageChunk

MESSAGES_MAX = 1_000
"""How many incomplete messages are remembered. Beyond this number the oldest message is forgotten, and the remaining
chunks of that message go to any consumer."""


class ChunkOwners:
    """Remembers the consumer of each message whose chunks were sent only in part."""

    __slots__ = ("_owners", "waiting")

    def __init__(self) -> None:
        self._owners: dict[bytes, Consumer] = {}
        self.waiting: dict[Consumer, ReplayQueue] = {}
        """Owner -> the chunks that wait for this owner, because the owner could take nothing when the chunks were due
        to be sent."""

    def owner(self, chunk: MessageChunk) -> Consumer | None:
        """Returns the consumer that got the first chunk of the message, or None when the first chunk was not sent or is
        forgotten."""
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
        """Called when the owner of a chunk can take nothing now: the chunk waits until the owner takes messages
        again."""
        self.waiting.setdefault(consumer, ReplayQueue()).add(ledger_id, (entry_id,))

    def ready(self) -> Iterator[tuple[int, Sequence[int]]]:
        """Yields (ledger, entries) for the chunks that need not wait any more because their owner takes messages
        again."""
        for consumer in list(self.waiting):
            if consumer.can_take:
                yield from self.waiting.pop(consumer).drain()
            else:
                consumer.watch_writable()

    def gone(self, consumer: Consumer) -> Iterator[tuple[int, Sequence[int]]]:
        """Called when a consumer has left: messages whose first chunks were sent to this consumer have no owner any
        more. Yields (ledger, entries) for the chunks that waited for the consumer; the caller sends these chunks to any
        consumer."""
        self._owners = {uuid: owner for uuid, owner in self._owners.items() if owner is not consumer}
        queue = self.waiting.pop(consumer, None)
        if queue is not None:
            yield from queue.drain()

    def clear(self) -> None:
        self._owners.clear()
        self.waiting.clear()
