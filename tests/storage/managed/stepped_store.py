"""The metadata store of one process under test, see `fake_bookkeeper`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from magnetar.metadata.errors import OutcomeUnknownError
from magnetar.metadata.store import (
    CancelWatch,
    Created,
    MetadataStore,
    Op,
    Record,
    RecordEvent,
    SessionCallback,
    Stat,
    WatchCallback,
)

if TYPE_CHECKING:
    from tests.storage.managed.fake_bookkeeper import Steps, World

T = TypeVar("T")


def answer_lost(name: str) -> OutcomeUnknownError:
    return OutcomeUnknownError(name, "the answer was lost")


class SteppedStore(MetadataStore):
    """One process's session on the world's tree: every write is a step. Calls take effect in the order in which they
    are made."""

    def __init__(self, world: "World", steps: "Steps") -> None:
        self._world = world
        self._store = world.store
        self._steps = steps
        self._order = asyncio.Lock()

    async def get(self, path: str) -> Record | None:
        return await self._read(lambda: self._store.get(path))

    async def exists(self, path: str) -> Stat | None:
        return await self._read(lambda: self._store.exists(path))

    async def children(self, path: str) -> list[str]:
        return await self._read(lambda: self._store.children(path))

    async def put(self, path: str, value: bytes, expected_version: int | None = None) -> Stat:
        world = self._world
        if world.put_error is not None and not world.put_arrives:
            await self._steps.pause()
            raise world.put_error
        stat = await self._write(f"put {path}", lambda: self._store.put(path, value, expected_version))
        if world.put_error is not None:
            raise world.put_error
        return stat

    async def create(self, path: str, value: bytes = b"", **options: Any) -> Created:
        return await self._write(f"create {path}", lambda: self._store.create(path, value, **options))

    async def delete(self, path: str, expected_version: int | None = None) -> None:
        await self._write(f"delete {path}", lambda: self._store.delete(path, expected_version))

    async def multi(self, ops: Sequence[Op]) -> list[Stat | None]:
        return await self._write("multi", lambda: self._store.multi(ops))

    def watch(self, path: str, callback: WatchCallback, *, recursive: bool = False) -> Callable[[], None]:
        def of_the_living(event: RecordEvent) -> None:
            if self._world.watches_work and not self._steps.dead.is_set():
                callback(event)

        return self._store.watch(path, of_the_living, recursive=recursive)

    @property
    def session_id(self) -> int:
        return self._store.session_id

    @property
    def is_connected(self) -> bool:
        return self._store.is_connected

    def on_session(self, callback: SessionCallback) -> CancelWatch:
        return self._store.on_session(callback)

    async def close(self) -> None:
        """Does nothing, because the world's tree outlives its sessions."""

    async def _read(self, call: Callable[[], Awaitable[T]]) -> T:
        async with self._order:
            await self._steps.pause()
            if self._world.fails():
                raise answer_lost("a read")
            result = await call()
        await self._steps.pause()
        return result

    async def _write(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        async with self._order:
            return await self._steps.take(name, call, answer_lost)
