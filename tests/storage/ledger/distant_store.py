"""A metadata store that takes a while to reach and may lose its answers."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from magnetar.metadata.errors import MetadataError
from magnetar.metadata.store import (
    CancelWatch,
    Created,
    MetadataStore,
    Op,
    Record,
    SessionCallback,
    Stat,
    WatchCallback,
)

T = TypeVar("T")


class DistantStore(MetadataStore):
    """One client's way to the store. `delay()` returns the seconds that each way takes. With `lose_answers` a call has
    its effect and fails afterwards, so the caller cannot know whether it had."""

    def __init__(self, store: MetadataStore, delay: Callable[[], float]) -> None:
        self._store = store
        self._delay = delay
        self.lose_answers = False
        self.connected = True
        """What `is_connected` says, as long as the store behind says so too. Calls are made in either case."""

    async def get(self, path: str) -> Record | None:
        return await self._call(path, lambda: self._store.get(path))

    async def exists(self, path: str) -> Stat | None:
        return await self._call(path, lambda: self._store.exists(path))

    async def children(self, path: str) -> list[str]:
        return await self._call(path, lambda: self._store.children(path))

    async def put(self, path: str, value: bytes, expected_version: int | None = None) -> Stat:
        return await self._call(path, lambda: self._store.put(path, value, expected_version))

    async def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> Created:
        def make() -> Awaitable[Created]:
            return self._store.create(
                path, value, ephemeral=ephemeral, sequential=sequential, make_parents=make_parents
            )

        return await self._call(path, make)

    async def delete(self, path: str, expected_version: int | None = None) -> None:
        await self._call(path, lambda: self._store.delete(path, expected_version))

    async def multi(self, ops: Sequence[Op]) -> list[Stat | None]:
        return await self._call("", lambda: self._store.multi(ops))

    def watch(self, path: str, callback: WatchCallback, *, recursive: bool = False) -> CancelWatch:
        return self._store.watch(path, callback, recursive=recursive)

    @property
    def session_id(self) -> int:
        return self._store.session_id

    @property
    def is_connected(self) -> bool:
        return self.connected and self._store.is_connected

    def on_session(self, callback: SessionCallback) -> CancelWatch:
        return self._store.on_session(callback)

    async def close(self) -> None:
        await self._store.close()

    async def _call(self, path: str, call: Callable[[], Awaitable[T]]) -> T:
        lost = self.lose_answers
        work = asyncio.ensure_future(self._work(call))
        result = await asyncio.shield(work)
        if lost:
            raise MetadataError(path, "the answer was lost")
        return result

    async def _work(self, call: Callable[[], Awaitable[T]]) -> T:
        """Makes the call and continues even when the caller gives up, because a request that was sent cannot be
        recalled."""
        await asyncio.sleep(self._delay())
        try:
            return await call()
        finally:
            await asyncio.sleep(self._delay())
