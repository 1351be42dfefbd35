"""Helpers of the ZooKeeper tests: they record the events of a session, and end a session as another client."""

import asyncio

from magnetar.metadata.store import SessionEvent
from magnetar.metadata.zookeeper import jute_codec as zk_codec
from magnetar.metadata.zookeeper.session_rules import ZkSession
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore

DEADLINE_SECONDS = 60.0


class SessionRecorder:
    """Keeps the session's events, each with the loop's time."""

    def __init__(self, store: ZooKeeperStore) -> None:
        self.events: list[SessionEvent] = []
        self.times: list[float] = []
        self._grew = asyncio.Event()
        store.on_session(self._add)

    def _add(self, event: SessionEvent) -> None:
        self.events.append(event)
        self.times.append(asyncio.get_running_loop().time())
        self._grew.set()

    async def until(self, event: SessionEvent, since: int = 0) -> float:
        """Waits for the event at or after position `since`; returns its time."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while event not in self.events[since:]:
                self._grew.clear()
                await self._grew.wait()
        return self.times[self.events.index(event, since)]


async def end_session(store: ZooKeeperStore, port: int) -> None:
    """Closes the store's session from elsewhere, as the servers do when its time has passed. The store must be cut off
    meanwhile, else it takes its session back."""
    own = store._client._session
    session: ZkSession[str] = ZkSession(own.timeout_ms)
    session.session_id, session.password, session.last_zxid = own.session_id, own.password, 0
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(session.dial(0.0) + zk_codec.frame(zk_codec.close_body(), 1))
    await reader.read()
    writer.close()
