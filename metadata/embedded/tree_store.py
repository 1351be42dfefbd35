"""The asyncio part of the memory store and of the embedded store; the rules of the record tree are in
`metadata.tree_rules`.

The writes of one turn of the loop, BATCH_WRITES_MAX at most, are staged together as one `Batch`. The subclass makes the
batch durable as a whole, and only then the batch becomes visible: readers, watchers and the writers themselves never
see a change that could still be lost. While a batch is being made durable, the next writes wait; they are checked
against the state after that batch.
"""

import asyncio
import logging
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from magnetar.metadata.errors import MetadataError, StoreClosedError, StoreOverloadedError, StoreWriteError
from magnetar.metadata.long_lists import sorted_in_portions
from magnetar.metadata.record_watches import Watches
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
from magnetar.metadata.tree_rules import Batch, Tree, check_path

log = logging.getLogger(__name__)

WRITES_WAITING_MAX = 65_536
"""How many writes may wait for a commit. A further write is refused with StoreOverloadedError."""

BATCH_WRITES_MAX = 64
"""How many writes share a commit. Many more may have come while the disk was slow, such as those of a thousand topics
that are created at once: to stage them, to make them visible and to wake all writers in one turn of the loop took up to
60 ms, for which messages waited. With 32 to a commit, creating topics took a tenth more CPU."""

Result = TypeVar("Result")
Done = Callable[[Callable[[], MetadataError] | None], None]
"""The function by which `_persist` reports its end: the argument is None for success, or a function that makes the
error. Each writer gets an error of its own, since an exception cannot be raised in several tasks."""
WriteOutcome = tuple["asyncio.Future[Any]", Any, Exception | None]
"""A tuple (the writer's future, result, error). An error, too, is reported only after the commit, because another
change of the same batch may be its cause."""


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class TreeStore(MetadataStore):
    """One session on a tree. The subclass makes batches durable. All calls are made on the loop's thread."""

    def __init__(self, name: str, tree: Tree, watches: Watches, session: int, clock_ms: Callable[[], int]) -> None:
        """`name` is for messages. `session` is the id (> 0) of the owner of ephemeral records that are created here."""
        self._name = name
        self._tree = tree
        self._watches = watches
        self._session = session
        self._clock_ms = clock_ms
        self._waiting: deque[tuple[asyncio.Future[Any], Callable[[Batch], Any]]] = deque()
        self._flush_scheduled = False
        self._committing = False
        self._cancels: dict[object, CancelWatch] = {}
        self._closed: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None

    async def get(self, path: str) -> Record | None:
        self._check(path)
        node = self._tree.find(path)
        return None if node is None else Record(node.value, node.stat())

    async def exists(self, path: str) -> Stat | None:
        self._check(path)
        node = self._tree.find(path)
        return None if node is None else node.stat()

    async def children(self, path: str) -> list[str]:
        self._check(path)
        return await sorted_in_portions(list(self._tree.get(path).children or ()))

    async def put(self, path: str, value: bytes, expected_version: int | None = None) -> Stat:
        self._check(path)
        return await self._submit(lambda batch: batch.put(path, value, expected_version))

    async def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> Created:
        self._check(f"{path}0" if sequential else path)
        return await self._submit(
            lambda batch: batch.create(
                path, value, ephemeral=ephemeral, sequential=sequential, make_parents=make_parents
            )
        )

    async def delete(self, path: str, expected_version: int | None = None) -> None:
        self._check(path)
        await self._submit(lambda batch: batch.delete(path, expected_version))

    async def multi(self, ops: Sequence[Op]) -> list[Stat | None]:
        for op in ops:
            self._check(op.path)
        return await self._submit(lambda batch: batch.multi(ops))

    def watch(self, path: str, callback: WatchCallback, *, recursive: bool = False) -> CancelWatch:
        self._check(path)
        key = object()
        cancel_in_registry = self._watches.add(path, callback, recursive)
        self._cancels[key] = cancel_in_registry

        def cancel() -> None:
            self._cancels.pop(key, None)
            cancel_in_registry()

        return cancel

    async def close(self) -> None:
        """Waits until the writes that were accepted are done, and ends the session."""
        if self._closed is not None:
            await asyncio.shield(self._closed)
            return
        loop = asyncio.get_running_loop()
        self._closed = loop.create_future()
        try:
            if self._waiting or self._committing:
                self._drained = loop.create_future()
                await self._drained
            self._end_session()
            await self._release()
        finally:
            self._closed.set_result(None)

    @property
    def session_id(self) -> int:
        return self._session

    @property
    def is_connected(self) -> bool:
        return self._closed is None

    def on_session(self, callback: SessionCallback) -> CancelWatch:
        """Never calls `callback`, because the session lasts as long as the store."""
        return lambda: None

    @abstractmethod
    def _persist(self, batch: Batch, done: Done) -> None:
        """Makes the batch durable, all or nothing, and calls `done` on the loop, at once or later.

        During the call the tree still has the state before the batch.
        """

    @abstractmethod
    async def _release(self) -> None:
        """Closes files and ends threads. It is called once, when nothing is under way any more."""

    def _check(self, path: str) -> None:
        check_path(path)
        if self._closed is not None:
            raise StoreClosedError(path, f"the metadata store {self._name} is closed")

    async def _submit(self, change: Callable[[Batch], Result]) -> Result:
        if len(self._waiting) >= WRITES_WAITING_MAX:
            raise StoreOverloadedError(self._name, f"{WRITES_WAITING_MAX} writes are waiting already")
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((future, change))
        self._schedule_flush()
        try:
            return await future
        finally:
            del future  # A refusal refers to this frame, and the future to the refusal.

    def _schedule_flush(self) -> None:
        """Schedules the flush behind all callbacks of this turn of the loop, so that their writes share the commit."""
        if not self._flush_scheduled and not self._committing:
            self._flush_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        waiting = self._waiting
        batch = Batch(self._tree, owner=self._session, now_ms=self._clock_ms())
        outcomes: list[WriteOutcome] = []
        while waiting and len(outcomes) < BATCH_WRITES_MAX:
            future, change = waiting.popleft()
            if future.cancelled():
                continue  # the caller gave up before anything was staged
            try:
                outcomes.append((future, change(batch), None))
            except MetadataError as error:
                # Where a change is refused tells nothing, and with it the refusal would refer to this frame and thereby
                # to itself, so that only a garbage collection would free the whole batch.
                outcomes.append((future, None, error.with_traceback(None)))
            except Exception as error:
                outcomes.append((future, None, error))
        self._committing = True
        try:
            self._persist(batch, lambda make_error: self._finish(batch, outcomes, make_error))
        except Exception as error:
            # This is a bug in Magnetar. Nothing of the batch was taken, and the writes after the batch must not wait
            # for ever.
            log.exception("metadata store %s: a change could not be prepared", self._name)
            reason = f"the change could not be prepared: {error!r}"
            self._finish(batch, outcomes, lambda: StoreWriteError(self._name, reason))

    def _finish(
        self, batch: Batch, outcomes: list[WriteOutcome], make_error: Callable[[], MetadataError] | None
    ) -> None:
        self._committing = False
        if make_error is None:
            self._tree.apply(batch.staged)
            self._watches.fire(batch.merged_events())
        for future, result, own_error in outcomes:
            if future.done():
                continue  # the writer was cancelled meanwhile; the change stands, but nobody waits for it
            if make_error is not None:
                future.set_exception(make_error())
            elif own_error is not None:
                future.set_exception(own_error)
            else:
                future.set_result(result)
        if self._waiting:
            self._schedule_flush()
        elif self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _end_session(self) -> None:
        for cancel in list(self._cancels.values()):
            cancel()
        self._cancels.clear()
        batch = Batch(self._tree, owner=self._session, now_ms=self._clock_ms())
        for path in sorted(self._tree.ephemerals.get(self._session, ())):
            batch.delete(path)
        self._tree.apply(batch.staged)
        self._watches.fire(batch.merged_events())
