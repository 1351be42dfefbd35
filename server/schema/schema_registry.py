"""The schema registry: knows which versions a schema id has, and adds versions. The rules by which a version may follow
others are in `compatibility_rules.py`; this module does the I/O.

Each call reads the record of the schema id from the metadata store, and therefore sees versions that another broker has
added. A version never changes, so versions are cached. This process makes the changes of one schema id one after the
other; compare-and-set on the record guards against changes by other brokers.

Sources: SchemaRegistryServiceImpl, SchemaRegistryServiceWithSchemaDataValidator, 4.0.7.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar
from weakref import WeakValueDictionary

from cachetools import LRUCache

from magnetar.metadata.compare_and_set import ATTEMPTS_MAX
from magnetar.server.schema import compatibility_rules
from magnetar.server.schema.definition_rules import validate
from magnetar.server.schema.schema_metrics import SchemaCounters
from magnetar.server.schema.schema_storage import Locator, SchemaRaceLost, SchemaStorage, SchemaStorageFault
from magnetar.server.schema.schema_types import Schema, SchemaConflict, SchemaFault, SchemaType, StoredSchema
from magnetar.server.schema.strategies import CompatibilityStrategy
from pulsar_proto.names import topic_of_schema
from pulsar_proto.pb import managed_ledger_pb2 as records

log = logging.getLogger(__name__)

T = TypeVar("T")

CACHE_BYTES_MAX = 16 << 20
"""The size of the cache of versions, in bytes; the least recently used versions leave the cache first."""

VERSIONS_MAX = 10_000
"""How many versions one schema id may have. One record lists all versions of the id, with 60 bytes for each version.
Further versions are refused until the schema is deleted with its storage."""

ON_THE_LOOP_BYTES = 32 << 10
"""If the definitions have at most this many bytes together, they are compared on the event loop, which takes a
millisecond or two. Larger definitions are compared on a thread."""

READS_AT_ONCE = 32
"""How many versions one call reads from ledgers at the same time."""
FORCE_DELETED = -1
"""The result of `delete_storage`, in place of a tombstone's version."""

NO_VERSION = -1
"""The result of `find_version` when no version has the definition."""


class SchemaRegistry:
    """Answers which versions a schema id has, and adds versions. `clock_ms` returns the time of day. All methods are
    called on the loop's thread, and each may raise SchemaStorageFault."""

    def __init__(self, storage: SchemaStorage, clock_ms: Callable[[], int]) -> None:
        self.counters = SchemaCounters()
        self._storage = storage
        self._clock_ms = clock_ms
        self._cache: LRUCache[int, StoredSchema] = LRUCache(CACHE_BYTES_MAX, getsizeof=_size)
        """Ledger id -> the version that the ledger holds."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    # --- questions ---------------------------------------------------------------------------------------------------

    async def latest(self, schema_id: str) -> StoredSchema | None:
        """Returns the newest version, or None when there is no version or the schema was deleted."""
        began = time.monotonic()
        locator = await self._storage.locate(schema_id)
        stored = None if locator is None else await self._read(locator.record.info)
        self.counters.got(schema_id, time.monotonic() - began)
        return None if stored is None or stored.schema.deleted else stored

    async def version(self, schema_id: str, version: int) -> StoredSchema | None:
        """Returns that version, or None when the version is missing or older than the last deletion."""
        began = time.monotonic()
        found = next((each for each in await self.versions(schema_id) if each.version == version), None)
        self.counters.got(schema_id, time.monotonic() - began)
        return found

    async def versions(self, schema_id: str) -> list[StoredSchema]:
        """Returns all versions since the last deletion, from the oldest on."""
        return await self._versions(await self._storage.locate(schema_id))

    async def has_schema(self, schema_id: str) -> bool:
        return await self.latest(schema_id) is not None

    async def locate(self, schema_id: str) -> Locator | None:
        """Returns where the schema's versions are stored, for the admin API, or None when the schema has no
        versions."""
        return await self._storage.locate(schema_id)

    async def ledgers(self, schema_id: str) -> list[tuple[int, int, int]]:
        """Returns (ledger id, entries, bytes) of the ledgers that hold the newest versions."""
        locator = await self._storage.locate(schema_id)
        return [] if locator is None else await self._storage.sizes(locator)

    async def find_version(self, schema_id: str, schema: Schema) -> int:
        """Returns the version that has exactly this type and definition, or NO_VERSION. Raises InvalidSchema when the
        definition is not valid."""
        await _validate(schema)
        for stored in await self.versions(schema_id):
            if stored.schema.type is schema.type and stored.schema.data == schema.data:
                return stored.version
        return NO_VERSION

    async def check_compatible(self, schema_id: str, schema: Schema, strategy: CompatibilityStrategy) -> None:
        """Raises InvalidSchema when the definition is not valid, and SchemaConflict when the schema may not follow the
        existing versions. Unlike `put`, also checks a schema that equals an existing version."""
        await _validate(schema)
        versions = await self.versions(schema_id)
        check = partial(compatibility_rules.check_next_version, schema, versions, strategy)
        await self._judge(schema_id, schema, versions, check)

    async def check_consumer(self, schema_id: str, schema: Schema, strategy: CompatibilityStrategy) -> None:
        """Raises InvalidSchema or SchemaConflict when a consumer with this schema cannot read data of the stored
        versions."""
        await _validate(schema)
        if strategy is not CompatibilityStrategy.ALWAYS_COMPATIBLE:
            versions = await self.versions(schema_id)
            check = partial(compatibility_rules.check_consumer, schema, versions, strategy)
            await self._judge(schema_id, schema, versions, check)

    # --- changes -----------------------------------------------------------------------------------------------------

    async def put(
        self, schema_id: str, schema: Schema, strategy: CompatibilityStrategy, *, may_add: bool = True
    ) -> int:
        """Returns the version whose schema equals `schema`; a new schema is added as a version. Raises InvalidSchema
        when the definition is not valid. Raises SchemaConflict when the schema may not follow the existing versions, or
        when the schema is new and `may_add` is not set."""
        await _validate(schema)

        async def put(locator: Locator | None) -> int:
            versions = await self._versions(locator)
            known = await _aside(schema, versions, partial(compatibility_rules.version_of, schema, versions))
            if known is not None:
                return known
            if not may_add:
                raise SchemaConflict("Schema not found and schema auto updating is disabled.")
            if locator is not None and len(locator.record.index) >= VERSIONS_MAX:
                raise SchemaConflict(f"The topic has {VERSIONS_MAX} versions of its schema, no more are taken")
            if versions:
                check = partial(compatibility_rules.check_next_version, schema, versions, strategy)
                await self._judge(schema_id, schema, versions, check)
            began = time.monotonic()
            dated = replace(schema, timestamp_ms=self._clock_ms())
            added = await self._storage.append(schema_id, locator, dated, schema.hash)
            self.counters.put(schema_id, time.monotonic() - began)
            topic, version = topic_of_schema(schema_id), added.record.info.version
            log.info("%s: schema version %d added (%s)", topic, version, schema.type.name)
            return version

        return await self._change(schema_id, put)

    async def delete(self, schema_id: str, user: str = "") -> int:
        """Adds a tombstone and returns its version. Versions before the tombstone do not count any more."""

        async def bury(locator: Locator | None) -> int:
            began = time.monotonic()
            tombstone = Schema(SchemaType.NONE, user=user, timestamp_ms=self._clock_ms(), deleted=True)
            added = await self._storage.append(schema_id, locator, tombstone, b"")
            self.counters.deleted(schema_id, time.monotonic() - began)
            log.info("%s: schema deleted with version %d", topic_of_schema(schema_id), added.record.info.version)
            return added.record.info.version

        return await self._change(schema_id, bury)

    async def delete_storage(self, schema_id: str) -> int:
        """Deletes the schema's record and ledgers. Called when the topic is deleted, among others. A schema that does
        not exist is no error. Returns FORCE_DELETED."""

        async def delete(locator: Locator | None) -> int:
            if locator is not None:
                began = time.monotonic()
                await self._storage.delete(schema_id, locator)
                self.counters.deleted(schema_id, time.monotonic() - began)
                log.info(
                    "%s: schema deleted with its %d versions", topic_of_schema(schema_id), len(locator.record.index)
                )
            return FORCE_DELETED

        return await self._change(schema_id, delete)

    # --- inside ------------------------------------------------------------------------------------------------------

    async def _change(self, schema_id: str, change: Callable[[Locator | None], Awaitable[T]]) -> T:
        """Runs a change on the schema's record, and runs it again on the newer record when another broker was faster.
        Returns the result of `change`.

        The helper in `metadata/compare_and_set.py` is not enough for such a change, because the change reads versions
        and writes a ledger before it writes the record.
        """
        lock = self._locks.setdefault(schema_id, asyncio.Lock())
        async with lock:
            for _ in range(ATTEMPTS_MAX):
                try:
                    return await change(await self._storage.locate(schema_id))
                except SchemaRaceLost:
                    continue
        raise SchemaStorageFault(
            f"schema of {topic_of_schema(schema_id)}: lost {ATTEMPTS_MAX} races in a row against other brokers"
        )

    async def _versions(self, locator: Locator | None) -> list[StoredSchema]:
        if locator is None:
            return []
        limit = asyncio.Semaphore(READS_AT_ONCE)

        async def read(entry: records.SchemaIndexEntry) -> StoredSchema:
            async with limit:
                return await self._read(entry)

        index = locator.record.index
        if all(entry.position.ledgerId in self._cache for entry in index):
            stored = [await self._read(entry) for entry in index]
        else:
            stored = await asyncio.gather(*map(read, index))
        return since_last_deletion(stored)

    async def _read(self, entry: records.SchemaIndexEntry) -> StoredSchema:
        ledger_id = entry.position.ledgerId
        cached = self._cache.get(ledger_id)
        if cached is not None:
            return cached
        stored = await self._storage.read(entry)
        if _size(stored) <= CACHE_BYTES_MAX:
            self._cache[ledger_id] = stored
        return stored

    async def _judge(
        self, schema_id: str, schema: Schema, versions: Sequence[StoredSchema], check: Callable[[], None]
    ) -> None:
        """Runs a check and counts whether the schema passed. Raises the check's SchemaFault when the schema is
        refused."""
        try:
            await _aside(schema, versions, check)
        except SchemaFault as error:
            self.counters.judged(schema_id, compatible=False)
            log.warning("%s: schema refused: %s", topic_of_schema(schema_id), " ".join(str(error).split()))
            raise
        self.counters.judged(schema_id, compatible=True)


async def _validate(schema: Schema) -> None:
    """Checks the definition of a schema. Raises InvalidSchema when the definition is not valid."""
    await _aside(schema, (), partial(validate, schema))


async def _aside(schema: Schema, versions: Sequence[StoredSchema], work: Callable[[], T]) -> T:
    """Runs `work`, which parses the schema and the versions, and returns the result of `work` or raises its error. If
    there is much to parse, runs `work` on a thread, so that the event loop is not blocked."""
    size = len(schema.data) + sum(map(len, schema.properties.values()))
    if size + sum(len(stored.schema.data) for stored in versions) <= ON_THE_LOOP_BYTES:
        return work()
    return await asyncio.to_thread(work)


def since_last_deletion(versions: Sequence[StoredSchema]) -> list[StoredSchema]:
    """Returns the versions after the last tombstone."""
    last = max((at for at, each in enumerate(versions) if each.schema.deleted), default=-1)
    return list(versions[last + 1 :])


def _size(stored: StoredSchema) -> int:
    """Returns an estimate of how many bytes of memory the version takes."""
    properties = sum(len(key) + len(value) + 100 for key, value in stored.schema.properties.items())
    return len(stored.schema.data) + properties + 500
