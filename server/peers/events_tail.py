"""Reads one `__change_events` topic, or one of its partitions, from the beginning on and for ever."""

from collections.abc import Awaitable, Callable

from magnetar.server.peers.entry_messages_rules import PeerMessage
from magnetar.server.peers.peer_client import PeerClient
from magnetar.server.peers.peer_errors import PeerTimeoutError
from magnetar.server.peers.read_window_rules import MessagePlace
from pulsar_proto.names import TopicName

SUBSCRIPTION_PREFIX = "__system_reader"
"""The prefix of the names of brokers' subscriptions (SystemTopicNames.SYSTEM_READER_PREFIX)."""
CATCH_UP_SECONDS = 1.0
"""If no message comes for this time although the topic seems to have more, the reader asks for the topic's end again,
because compaction may have removed the last messages."""
TAIL_SECONDS = 3600.0
"""How long one call waits for the next event. After that the call is repeated; the limit only serves to give every wait
a bound."""


class EventsTail:
    """One reader of events. `apply` is awaited for each message, one after the other."""

    def __init__(
        self, client: PeerClient, topic: TopicName, apply: Callable[[TopicName, PeerMessage], Awaitable[None]]
    ) -> None:
        self.topic = topic
        self._apply = apply
        self._reader = client.reader(
            topic, read_compacted=True, subscription_prefix=SUBSCRIPTION_PREFIX, creates_topic=False
        )

    async def read_to_end(self) -> None:
        """Applies all messages that the topic has now. Raises PulsarError when the reader gave up, and PeerError when
        the topic's broker does not answer."""
        while not await self._reader.is_at_end():
            end = await self._reader.last_place()
            while not self._reader.is_behind(end):
                try:
                    message = await self._reader.read(CATCH_UP_SECONDS)
                except PeerTimeoutError:
                    break
                await self._apply(self.topic, message)

    async def follow(self) -> None:
        """Applies each message that comes from now on, and never returns. Raises the errors of `read_to_end`."""
        while True:
            try:
                message = await self._reader.read(TAIL_SECONDS)
            except PeerTimeoutError:
                continue
            await self._apply(self.topic, message)

    async def last_place(self) -> MessagePlace:
        """Returns the place of the topic's last message."""
        return await self._reader.last_place()

    async def close(self) -> None:
        await self._reader.close()
