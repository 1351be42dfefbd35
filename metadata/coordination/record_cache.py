"""Keeps parsed copies of the records below one root, and follows changes of these records by one recursive watch.

A record is read when a caller first asks for it, and again after the store reports a change. Until the new copy has
arrived, `cached` returns the old one. After a lost connection every record is read again, because the store does not
tell which changes were missed (Java's AbstractMetadataStore and MetadataCacheImpl empty their caches instead). While
the store cannot be reached, callers get the existing copies.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from magnetar.metadata.coordination.cache_rules import Answer, Copy, CopyTable
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.store import CancelWatch, EventType, MetadataStore, Record, RecordEvent
from pulsar_proto.errors import MetadataFault

log = logging.getLogger(__name__)

T = TypeVar("T")

CACHED_MAX = 10_000
"""How many answers a cache keeps, including the answer "there is no record". A full cache drops the least recently used
answer."""

READS_AT_ONCE = 64
"""How many changed records a cache reads in parallel."""

RETRY_SECONDS = 5.0
"""The pause before a changed record is read again after that failed."""


class RecordCache(Generic[T]):
    """The copies of the records below one root. All calls are made on the loop's thread.

    Callers get MetadataError when the store fails, and MetadataFault when a record cannot be parsed.
    """

    def __init__(
        self,
        store: MetadataStore,
        root: str,
        parse: Callable[[str, bytes], T],
        *,
        on_change: Callable[[str], None] | None = None,
        cached_max: int | None = CACHED_MAX,
    ) -> None:
        """`parse(path, value)` raises MetadataFault for a record that it cannot read.

        With `on_change`, a changed record that has a copy is read again at once, and `on_change(path)` is called after
        a copy was made, replaced, removed, or dropped for lack of room. Without `on_change`, a changed record is read
        again when a caller asks for it.

        When the cache has more than `cached_max` answers, it drops a copy and ignores the changes of that record until
        a caller asks for the record again. With a `cached_max` of None no copy is dropped while its record exists;
        callers that have to hear of every change pass None, and ask only for records that they have to keep.
        """
        self._store = store
        self._root = root
        self._parse = parse
        self._on_change = on_change
        self._table: CopyTable[T] = CopyTable(root, cached_max)
        self._due: dict[str, None] = {}
        """The paths to read again at once."""
        self._reading: asyncio.Task[None] | None = None
        self._cancel_watch: CancelWatch | None = None

    def start(self) -> None:
        """Begins to watch the records. Until then every `get` reads from the store."""
        if self._cancel_watch is None:
            self._cancel_watch = self._store.watch(self._root, self._heard, recursive=True)
            self._heard(RecordEvent(EventType.CHANGED, self._root))  # earlier copies may be outdated

    def close(self) -> None:
        """Ends the watch. Every `get` reads from the store again."""
        if self._cancel_watch is not None:
            self._cancel_watch()
            self._cancel_watch = None
        self._due.clear()
        if self._reading is not None:
            self._reading.cancel()

    def cached(self, path: str) -> Copy[T] | None:
        """Returns the present copy without asking the store. Returns None when there is no record, or when no caller
        has asked for the record so far."""
        return self._table.find(path)

    def fresh(self, path: str) -> Copy[T] | None:
        """Returns the copy that `get` would return without asking the store. Returns None when there is no such copy;
        `get` then finds out whether there is a record."""
        entry = self._table.entry(path)
        return entry.copy if entry is not None and self._may_serve(entry) else None

    def _may_serve(self, entry: Answer[T]) -> bool:
        """Whether an answer may be given again without asking the store: the records are watched, and the answer is not
        known to be outdated, unless the store cannot be reached."""
        return self._cancel_watch is not None and not (entry.is_stale and self._store.is_connected)

    def __len__(self) -> int:
        """The number of copies, including the answers that a record does not exist."""
        return len(self._table)

    async def get(self, path: str) -> Copy[T] | None:
        """Returns the record, or None when there is none. A copy that is known to be outdated is read again, unless the
        store cannot be reached."""
        entry = self._table.entry(path)
        if entry is not None and self._may_serve(entry):
            return entry.copy
        return await self.refresh(path)

    async def refresh(self, path: str) -> Copy[T] | None:
        """Reads the record from the store now, without waiting for its watch."""
        reading = self._table.begin(path)
        try:
            record = await self._store.get(path)
            copy = None if record is None else Copy(self._parse(path, record.value), record.stat)
            self._answered(path, self._table.answered(reading, copy))
        finally:
            self._table.end(reading)
        return copy

    def wrote(self, path: str, record: Record | None) -> None:
        """Stores a copy of the record that the caller has just written, or notes with None that the caller has deleted
        the record."""
        copy = None if record is None else Copy(self._parse(path, record.value), record.stat)
        reading = self._table.begin(path)
        self._answered(path, self._table.answered(reading, copy))
        self._table.end(reading)

    def forget(self, path: str) -> None:
        """Drops the copy of a record that the caller has changed, or tried to change, so that the next `get` reads the
        record."""
        self._table.drop(path)

    def _answered(self, path: str, is_change: bool) -> None:
        dropped = self._table.dropped()
        if self._on_change is None:
            return
        for changed in (*dropped, *((path,) if is_change else ())):
            try:
                self._on_change(changed)
            except Exception:
                log.exception("a callback failed on the change of %s", changed)

    def _heard(self, event: RecordEvent) -> None:
        self._read_soon(self._table.heard(event))

    def _read_soon(self, paths: list[str]) -> None:
        if self._on_change is None or not paths:
            return
        self._due.update(dict.fromkeys(paths))
        if self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_again())

    async def _read_again(self) -> None:
        try:
            while self._due:
                paths = list(self._due)[:READS_AT_ONCE]
                for path in paths:
                    del self._due[path]
                await asyncio.gather(*map(self._read_one, paths))
        finally:
            self._reading = None

    async def _read_one(self, path: str) -> None:
        if not self._table.is_stale(path):
            return
        try:
            await self.refresh(path)
        except MetadataFault as error:
            log.warning("the last copy of %s stays: %s", path, error)
        except MetadataError as error:
            log.warning("%s cannot be read, its last copy stays meanwhile: %s", path, error)
            asyncio.get_running_loop().call_later(RETRY_SECONDS, self._read_later, path)

    def _read_later(self, path: str) -> None:
        if self._cancel_watch is not None and self._table.is_stale(path):
            self._read_soon([path])
