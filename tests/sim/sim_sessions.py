"""Processes with sessions of one metadata store, over links that break: answers and events are late or lost, sessions
end, and processes die without a word.

A `SimStore` is one process's store. Its requests take effect in order, and what comes back, answers and events, comes
in order too, as on ZooKeeper's one connection. After a break an exact watch hears what it missed, and a recursive one
hears CHANGED of its own path, as `MetadataStore.watch` promises.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import copy_context
from itertools import count
from random import Random
from typing import Any, TypeVar

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.errors import MetadataError, OutcomeUnknownError, StoreUnavailableError, StoreWriteError
from magnetar.metadata.store import (
    CancelWatch,
    Created,
    EventType,
    MetadataStore,
    Op,
    Record,
    RecordEvent,
    SessionCallback,
    SessionEvent,
    Stat,
    WatchCallback,
)
from tests.sim.processes import PROCESS

T = TypeVar("T")

WAY_SECONDS_MAX = 0.02
"""The longest time that a request or an answer travels."""

CALL_SECONDS = 1.0
"""The time after which a request that was not sent fails."""


class Servers:
    """The records, and the moments at which they were changed: each change has a date of its own."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self._dates = count(1)
        self.date = 0
        self.records = MemoryStore(clock_ms=self._next_date)
        self.context = copy_context()
        """What the servers do, they do in this context: it belongs to no process."""

    def _next_date(self) -> int:
        self.date = next(self._dates)
        return self.date


class _Request:
    def __init__(self, path: str, work: Callable[[], Awaitable[Any]], is_write: bool) -> None:
        self.path = path
        self.work = work
        self.is_write = is_write
        self.future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class _Watch:
    def __init__(self, path: str, callback: WatchCallback, recursive: bool) -> None:
        self.path = path
        self.callback = callback
        self.recursive = recursive
        self.was_there: bool | None = None
        self.children = (0, 0)
        """What told the list of children when the link broke."""
        self.cancel: CancelWatch = lambda: None


class SimStore(MetadataStore):
    """One process's store."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self._rng = servers.rng
        self.inner = servers.records.session()
        self._connected = True
        self.has_died = False
        self._session_ended = False
        self._requests: deque[_Request] = deque()
        self._incoming: deque[Callable[[], None]] = deque()
        self._watches: dict[object, _Watch] = {}
        self._callbacks: dict[object, SessionCallback] = {}
        self._heard_until = 0
        self._link = 0
        """Counts the links; what belongs to an earlier one is lost."""
        self.is_silent = False
        """Whether nothing gets through, while this process still takes the link for a sound one."""
        self.doubled_share = 0.0
        """The share of events and of answers to reads that come twice."""
        self.cut_after_write = False
        """Whether the link breaks before the answer to the next write arrives."""
        self._passable = asyncio.Event()
        self._wake = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._send()), loop.create_task(self._receive())]

    # What a process sees

    @property
    def session_id(self) -> int:
        return self.inner.session_id

    @property
    def is_connected(self) -> bool:
        return self._connected

    @property
    def is_quiet(self) -> bool:
        """Whether the process is connected, and nothing is on its way to or from it."""
        return (
            self._connected and not self._is_stalled and not self._requests and not self._incoming and not self.has_died
        )

    @property
    def _is_stalled(self) -> bool:
        """Whether the link is dead and this process has not noticed."""
        return self._connected and (self.is_silent or self._session_ended)

    @property
    def session_lives(self) -> bool:
        return not self._session_ended

    def on_session(self, callback: SessionCallback) -> CancelWatch:
        key = object()
        self._callbacks[key] = callback
        return lambda: self._callbacks.pop(key, None) and None

    async def get(self, path: str) -> Record | None:
        return await self._ask(path, lambda: self.inner.get(path))

    async def exists(self, path: str) -> Stat | None:
        return await self._ask(path, lambda: self.inner.exists(path))

    async def children(self, path: str) -> list[str]:
        return await self._ask(path, lambda: self.inner.children(path))

    async def put(self, path: str, value: bytes, expected_version: int | None = None) -> Stat:
        return await self._ask(path, lambda: self.inner.put(path, value, expected_version), is_write=True)

    async def create(self, path: str, value: bytes = b"", **options: Any) -> Created:
        return await self._ask(path, lambda: self.inner.create(path, value, **options), is_write=True)

    async def delete(self, path: str, expected_version: int | None = None) -> None:
        await self._ask(path, lambda: self.inner.delete(path, expected_version), is_write=True)

    async def multi(self, ops: Sequence[Op]) -> list[Stat | None]:
        return await self._ask("multi", lambda: self.inner.multi(ops), is_write=True)

    def watch(self, path: str, callback: WatchCallback, *, recursive: bool = False) -> CancelWatch:
        watch = _Watch(path, callback, recursive)
        key = object()
        self._watches[key] = watch
        self._arm(watch)

        def cancel() -> None:
            self._watches.pop(key, None)
            watch.cancel()
            watch.callback = lambda _: None

        return cancel

    async def close(self) -> None:
        self.die()
        await self.inner.close()

    # What the history does

    def cut(self) -> None:
        """Breaks the link."""
        if not self._connected or self.has_died:
            return
        self._connected = False
        self._link += 1
        for watch in self._watches.values():
            watch.children = (-1, -1) if self._incoming else self._children(watch.path)
        self._incoming.clear()
        self._passable.set()
        self._tell(SessionEvent.DISCONNECTED)

    async def end_session(self) -> None:
        """Lets the session's time pass. A process that has not noticed that its link is broken goes on as if nothing
        had happened, but nothing gets through any more until it is told by `cut`."""
        if not self._session_ended:
            self._session_ended = True
            await self.inner.close()

    def reconnect(self) -> None:
        """Mends the link, in a new session if the old one has ended."""
        if self._connected or self.has_died:
            return
        self._connected, self.is_silent = True, False
        is_new = self._session_ended
        if is_new:
            self._session_ended = False
            self._tell(SessionEvent.EXPIRED)
            self.inner = self._servers.records.session()
            for watch in self._watches.values():
                self._arm(watch)
        self._tell(SessionEvent.NEW_SESSION if is_new else SessionEvent.CONNECTED)
        for watch in list(self._watches.values()):
            self._report_missed(watch)
        self._wake.set()

    def die(self) -> None:
        """Stops the process. Its session lives on until `end_session`."""
        self.has_died = True
        self._connected = False
        self._link += 1
        for task in self._tasks:
            task.cancel()

    # Requests

    async def _ask(self, path: str, work: Callable[[], Awaitable[T]], *, is_write: bool = False) -> T:
        request = _Request(path, work, is_write)
        self._requests.append(request)
        self._wake.set()
        asyncio.get_running_loop().call_later(CALL_SECONDS, self._give_up, request)
        result: T = await request.future
        return result

    def _give_up(self, request: _Request) -> None:
        if request in self._requests:
            error = StoreWriteError if request.is_write else StoreUnavailableError
            _settle(request.future, None, error(request.path, "no answer in time"))

    async def _send(self) -> None:
        while True:
            while not self._requests or not self._connected:
                self._wake.clear()
                await self._wake.wait()
            if self._requests[0].future.done():
                self._requests.popleft()
                continue
            link = self._link
            await self._travel()
            if link != self._link or self._requests[0].future.done():
                continue  # the request got lost, and goes out again on the next link
            request = self._requests[0]
            try:
                if not request.is_write and self._is_doubled():
                    await self._served(request)
                result, error = await self._served(request), None
            except MetadataError as refused:
                result, error = None, refused
            self._requests.popleft()
            if request.is_write and self.cut_after_write:
                self.cut_after_write = False
                self.cut()
            if link != self._link:
                self._answer_lost(request, result, error)
            else:
                self._incoming.append(lambda r=request, v=result, e=error: _settle(r.future, v, e))  # type: ignore[misc]
                # A link that breaks before the answer arrives leaves the caller without it.
                self._guard(request, result, error, link)
            self._wake_receiver()

    async def _served(self, request: _Request) -> Any:
        """Has the servers do the work. They go on with it if this process is killed or paused."""
        if PROCESS.get() is None:
            return await request.work()
        return await self._servers.context.run(asyncio.ensure_future, request.work())

    def _is_doubled(self) -> bool:
        return self.doubled_share > 0 and self._rng.random() < self.doubled_share

    def _guard(self, request: _Request, result: Any, error: Exception | None, link: int) -> None:
        def look() -> None:
            if link == self._link and not request.future.done():
                asyncio.get_running_loop().call_later(WAY_SECONDS_MAX, look)
            elif not request.future.done():
                self._answer_lost(request, result, error)

        look()

    def _answer_lost(self, request: _Request, result: Any, error: Exception | None) -> None:
        """Reads are sent again. Writes are found out about, or their outcome stays unknown."""
        if self.has_died:
            return
        if not request.is_write:
            self._requests.appendleft(request)
            self._wake.set()
        elif self._rng.random() < 0.5:
            _settle(request.future, None, OutcomeUnknownError(request.path, "the answer was lost"))
        else:
            _settle(request.future, result, error)

    # What comes back

    async def _receive(self) -> None:
        self._arrived = asyncio.Event()
        while True:
            while not self._incoming:
                self._arrived.clear()
                await self._arrived.wait()
            link = self._link
            await self._travel()
            for _ in range(self._rng.choice((1, 1, 2, 5))):  # what comes in one read of a socket is seen in one turn
                if link == self._link and self._incoming:
                    self._incoming.popleft()()
                    if not self._incoming:
                        self._heard_until = self._servers.date

    def _wake_receiver(self) -> None:
        arrived = getattr(self, "_arrived", None)
        if arrived is not None:
            arrived.set()

    def _arm(self, watch: _Watch) -> None:
        def happened(event: RecordEvent) -> None:
            if self._connected and watch in self._watches.values():
                for _ in range(2 if self._is_doubled() else 1):
                    self._incoming.append(lambda: self._call(watch, event))
                self._wake_receiver()

        watch.cancel = self.inner.watch(watch.path, happened, recursive=watch.recursive)

    def _call(self, watch: _Watch, event: RecordEvent) -> None:
        if event.path == watch.path and event.type is not EventType.CHILDREN_CHANGED:
            watch.was_there = event.type is not EventType.DELETED
        watch.callback(event)

    def _report_missed(self, watch: _Watch) -> None:
        if watch.recursive:
            self._report(watch, EventType.CHANGED)
            return
        node = self._servers.records._tree.find(watch.path)
        if node is None:
            if watch.was_there is not False:
                self._report(watch, EventType.DELETED)
            return
        if node.created_ms > self._heard_until:
            if watch.was_there:
                self._report(watch, EventType.DELETED)
            self._report(watch, EventType.CREATED)
        if node.modified_ms > max(self._heard_until, node.created_ms):
            self._report(watch, EventType.CHANGED)
        if self._children(watch.path) != watch.children:
            self._report(watch, EventType.CHILDREN_CHANGED)

    def _children(self, path: str) -> tuple[int, int]:
        node = self._servers.records._tree.find(path)
        return (0, 0) if node is None else (node.sequence, node.child_count)

    def _report(self, watch: _Watch, event: EventType) -> None:
        self._incoming.append(lambda: self._call(watch, RecordEvent(event, watch.path)))
        self._wake_receiver()

    def _tell(self, event: SessionEvent) -> None:
        for callback in list(self._callbacks.values()):
            callback(event)

    async def _travel(self) -> None:
        await asyncio.sleep(self._rng.uniform(0, WAY_SECONDS_MAX))
        while self._is_stalled:
            self._passable.clear()
            await self._passable.wait()


def _settle(future: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
