"""The schema registry: which versions a schema id has, and which may come next. The shell around `compatibility`.

Every question reads the id's record, so that what another broker added is seen; versions themselves never change and
are kept. Changes of one id are made one after the other here, and by compare-and-set against other brokers.

Source: SchemaRegistryServiceImpl, SchemaRegistryServiceWithSchemaDataValidator, 4.0.7.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar
from weakref import WeakValueDictionary

from magnetar.server.schema import compatibility_rules
from magnetar.server.schema.definition_rules import validate
from magnetar.server.schema.schema_metrics import SchemaCounters
from magnetar.server.schema.schema_storage import Locator, SchemaRaceLost, SchemaStorage, SchemaStorageFault
from magnetar.server.schema.schema_types import Schema, SchemaConflict, SchemaFault, SchemaType, StoredSchema
from magnetar.server.schema.strategies import CompatibilityStrategy
from pulsar_proto.pb import managed_ledger_pb2 as records

log = logging.getLogger(__name__)

T = TypeVar("T")

CACHE_BYTES_MAX = 16 << 20
"""Definitions of versions kept; least recently used ones leave first."""

VERSIONS_MAX = 10_000
"""Of one schema id: they are listed in one record, at 60 bytes each. Deleting the storage makes room."""

ON_THE_LOOP_BYTES = 32 << 10
"""Definitions up to so much in all are compared on the loop, a millisecond or two; more of them on a thread."""

READS_AT_ONCE = 32
RACES_MAX = 20
"""How often a change looks again because another broker was faster."""

FORCE_DELETED = -1
"""The version that a deletion without a tombstone answers."""

NO_VERSION = -1


class SchemaRegistry:
    """`clock_ms` is the time of day. All calls on the loop's thread; each may raise SchemaStorageFault."""

    def __init__(self, storage: SchemaStorage, clock_ms: Callable[[], int]) -> None:
        self.counters = SchemaCounters()
        self._storage = storage
        self._clock_ms = clock_ms
        self._cache: OrderedDict[int, StoredSchema] = OrderedDict()
        self._cached_bytes = 0
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    # --- questions ---------------------------------------------------------------------------------------------------

    async def latest(self, schema_id: str) -> StoredSchema | None:
        """The newest version; None where there is none or it was deleted."""
        began = time.monotonic()
        locator = await self._storage.locate(schema_id)
        stored = None if locator is None else await self._read(locator.record.info)
        self.counters.got(schema_id, time.monotonic() - began)
        return None if stored is None or stored.schema.deleted else stored

    async def version(self, schema_id: str, version: int) -> StoredSchema | None:
        """That version, unless it is missing or older than the last deletion."""
        began = time.monotonic()
        found = next((each for each in await self.versions(schema_id) if each.version == version), None)
        self.counters.got(schema_id, time.monotonic() - began)
        return found

    async def versions(self, schema_id: str) -> list[StoredSchema]:
        """All since the last deletion, oldest first."""
        return await self._versions(await self._storage.locate(schema_id))

    async def has_schema(self, schema_id: str) -> bool:
        return await self.latest(schema_id) is not None

    async def locate(self, schema_id: str) -> Locator | None:
        """Where its versions are stored, for admins."""
        return await self._storage.locate(schema_id)

    async def ledgers(self, schema_id: str) -> list[tuple[int, int, int]]:
        """(ledger, entries, bytes) of the newest versions."""
        locator = await self._storage.locate(schema_id)
        return [] if locator is None else await self._storage.sizes(locator)

    async def find_version(self, schema_id: str, schema: Schema) -> int:
        """The version that has exactly this type and definition; -1 where none has. Raises InvalidSchema."""
        await _validate(schema)
        for stored in await self.versions(schema_id):
            if stored.schema.type is schema.type and stored.schema.data == schema.data:
                return stored.version
        return NO_VERSION

    async def check_compatible(self, schema_id: str, schema: Schema, strategy: CompatibilityStrategy) -> None:
        """Whether `put` would store it. Raises InvalidSchema, SchemaConflict."""
        await _validate(schema)
        versions = await self.versions(schema_id)
        check = partial(compatibility_rules.check_next_version, schema, versions, strategy)
        await self._judge(schema_id, schema, versions, check)

    async def check_consumer(self, schema_id: str, schema: Schema, strategy: CompatibilityStrategy) -> None:
        """Whether a consumer with that schema reads what is there. Raises InvalidSchema, SchemaConflict."""
        await _validate(schema)
        if strategy is not CompatibilityStrategy.ALWAYS_COMPATIBLE:
            versions = await self.versions(schema_id)
            check = partial(compatibility_rules.check_consumer, schema, versions, strategy)
            await self._judge(schema_id, schema, versions, check)

    # --- changes -----------------------------------------------------------------------------------------------------

    async def put(
        self, schema_id: str, schema: Schema, strategy: CompatibilityStrategy, *, may_add: bool = True
    ) -> int:
        """The version that is this schema, which is added where it is new. Raises InvalidSchema, SchemaConflict (also
        for a new one without `may_add`)."""
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
            log.info("schema %s: version %d added (%s)", schema_id, added.record.info.version, schema.type.name)
            return added.record.info.version

        return await self._change(schema_id, put)

    async def delete(self, schema_id: str, user: str = "") -> int:
        """Adds a tombstone, whose version is returned: what was before it does not count any more."""

        async def bury(locator: Locator | None) -> int:
            began = time.monotonic()
            tombstone = Schema(SchemaType.NONE, user=user, timestamp_ms=self._clock_ms(), deleted=True)
            added = await self._storage.append(schema_id, locator, tombstone, b"")
            self.counters.deleted(schema_id, time.monotonic() - began)
            log.info("schema %s: deleted with version %d", schema_id, added.record.info.version)
            return added.record.info.version

        return await self._change(schema_id, bury)

    async def delete_storage(self, schema_id: str) -> int:
        """Deletes record and ledgers, as when the topic is deleted. A schema that is gone is success. Returns -1."""

        async def delete(locator: Locator | None) -> int:
            if locator is not None:
                began = time.monotonic()
                await self._storage.delete(schema_id, locator)
                self.counters.deleted(schema_id, time.monotonic() - began)
                log.info("schema %s: deleted with its %d versions", schema_id, len(locator.record.index))
            return FORCE_DELETED

        return await self._change(schema_id, delete)

    # --- inside ------------------------------------------------------------------------------------------------------

    async def _change(self, schema_id: str, change: Callable[[Locator | None], Awaitable[T]]) -> T:
        lock = self._locks.setdefault(schema_id, asyncio.Lock())
        async with lock:
            for _ in range(RACES_MAX):
                try:
                    return await change(await self._storage.locate(schema_id))
                except SchemaRaceLost:
                    continue
        raise SchemaStorageFault(f"schema {schema_id}: lost {RACES_MAX} races in a row against other brokers")

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
            self._cache.move_to_end(ledger_id)
            return cached
        stored = await self._storage.read(entry)
        if self._cache.setdefault(ledger_id, stored) is stored:
            self._cached_bytes += _size(stored)
        while self._cached_bytes > CACHE_BYTES_MAX:
            self._cached_bytes -= _size(self._cache.popitem(last=False)[1])
        return stored

    async def _judge(
        self, schema_id: str, schema: Schema, versions: Sequence[StoredSchema], check: Callable[[], None]
    ) -> None:
        try:
            await _aside(schema, versions, check)
        except SchemaFault as error:
            self.counters.judged(schema_id, compatible=False)
            log.warning("schema %s: refused: %s", schema_id, " ".join(str(error).split()))
            raise
        self.counters.judged(schema_id, compatible=True)


async def _validate(schema: Schema) -> None:
    """Raises InvalidSchema."""
    await _aside(schema, (), partial(validate, schema))


async def _aside(schema: Schema, versions: Sequence[StoredSchema], work: Callable[[], T]) -> T:
    """What `work` on a schema and on versions returns or raises. Definitions are parsed for it, and many or long ones
    must not stop the loop."""
    size = len(schema.data) + sum(map(len, schema.properties.values()))
    if size + sum(len(stored.schema.data) for stored in versions) <= ON_THE_LOOP_BYTES:
        return work()
    return await asyncio.to_thread(work)


def since_last_deletion(versions: Sequence[StoredSchema]) -> list[StoredSchema]:
    last = max((at for at, each in enumerate(versions) if each.schema.deleted), default=-1)
    return list(versions[last + 1 :])


def _size(stored: StoredSchema) -> int:
    """About what it takes in memory."""
    properties = sum(len(key) + len(value) + 100 for key, value in stored.schema.properties.items())
    return len(stored.schema.data) + properties + 500
