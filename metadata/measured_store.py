"""A metadata store that measures how long the calls of another store take, for metrics.

Source: MetadataStoreStats of Pulsar, whose kinds of calls (get, put, del) and buckets it has.
"""

import time
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, TypeVar

from magnetar.metadata.store import (
    CancelWatch,
    Created,
    CreateOp,
    MetadataStore,
    Op,
    PutOp,
    Record,
    SessionCallback,
    Stat,
    WatchCallback,
)
from pulsar_proto.histogram import Histogram

T = TypeVar("T")

BOUNDS_MS = (1, 3, 5, 10, 20, 50, 100, 200, 500, 1000)


class MeasuredStore(MetadataStore):
    """Passes every call on to `store` and raises its errors. A call that fails because of the record, such as a missing
    record or another version, counts as a failed call, as with Apache's broker."""

    def __init__(self, store: MetadataStore) -> None:
        self.store = store
        self.latencies: dict[tuple[str, str], Histogram] = {
            (kind, status): Histogram(BOUNDS_MS) for kind in ("get", "put", "del") for status in ("success", "fail")
        }
        """The milliseconds that calls took, by kind and outcome."""
        self.put_bytes = 0
        """The size of all values that were written."""

    async def _measured(self, kind: str, call: Awaitable[T]) -> T:
        began_s = time.perf_counter()
        status = "fail"
        try:
            result = await call
            status = "success"
            return result
        finally:
            self.latencies[kind, status].add(1000 * (time.perf_counter() - began_s))

    @property
    def session_id(self) -> int:
        return self.store.session_id

    @property
    def is_connected(self) -> bool:
        return self.store.is_connected

    @property
    def is_answering(self) -> bool:
        return self.store.is_answering

    @property
    def is_remote(self) -> bool:
        return self.store.is_remote

    def on_session(self, callback: SessionCallback) -> CancelWatch:
        return self.store.on_session(callback)

    def get(self, path: str) -> Coroutine[Any, Any, Record | None]:
        return self._measured("get", self.store.get(path))

    def exists(self, path: str) -> Coroutine[Any, Any, Stat | None]:
        return self._measured("get", self.store.exists(path))

    def owns(self, path: str) -> Coroutine[Any, Any, bool]:
        return self._measured("get", self.store.owns(path))

    def children(self, path: str) -> Coroutine[Any, Any, list[str]]:
        return self._measured("get", self.store.children(path))

    def put(self, path: str, value: bytes, expected_version: int | None = None) -> Coroutine[Any, Any, Stat]:
        self.put_bytes += len(value)
        return self._measured("put", self.store.put(path, value, expected_version))

    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> Coroutine[Any, Any, Created]:
        self.put_bytes += len(value)
        created = self.store.create(path, value, ephemeral=ephemeral, sequential=sequential, make_parents=make_parents)
        return self._measured("put", created)

    def delete(self, path: str, expected_version: int | None = None) -> Coroutine[Any, Any, None]:
        return self._measured("del", self.store.delete(path, expected_version))

    def multi(self, ops: Sequence[Op]) -> Coroutine[Any, Any, list[Stat | None]]:
        self.put_bytes += sum(len(op.value) for op in ops if isinstance(op, CreateOp | PutOp))
        return self._measured("put", self.store.multi(ops))

    def watch(self, path: str, callback: WatchCallback, *, recursive: bool = False) -> CancelWatch:
        return self.store.watch(path, callback, recursive=recursive)

    async def close(self) -> None:
        await self.store.close()
