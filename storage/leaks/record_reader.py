"""Reads everything in a cluster's metadata store that refers to ledgers.

The readers go down the whole trees and read every record, many at once. A record that vanishes meanwhile is passed
over; a record that cannot be read becomes a `BlindSpot`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from magnetar.metadata import paths
from magnetar.metadata.errors import NoNodeError
from magnetar.metadata.store import MetadataStore, Record
from magnetar.storage.leaks.orphan_rules import BlindSpot, OwnedBundle, Picture
from magnetar.storage.leaks.reference_rules import (
    COMPACTION_CURSOR,
    references_of_cursor,
    references_of_log_segment,
    references_of_managed_ledger,
    references_of_schema,
)
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.names import NON_PERSISTENT, PERSISTENT, decode_local

AT_ONCE = 64
"""How many records are asked for at the same time."""
PART = 16
"""After how many items other tasks may run: a look is also taken inside a server that serves clients."""
LOG_NAMESPACES = ("/pulsar/functions", "/pulsar/packages", "/stream")
"""Where the functions worker and BookKeeper's stream storage keep the namespaces of DistributedLog by default."""
SERVICE_UNITS = "/service_unit_state"
"""Where Apache's ExtensibleLoadManager keeps owners of bundles when it does not keep them in a topic."""
UNIT_TOPIC = "pulsar/system/persistent/loadbalancer-service-unit-state"
"""The topic in which Apache's ExtensibleLoadManager keeps the owners of bundles."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class CursorLedger:
    """The ledger of a cursor that may name a compacted ledger in its entries, as the cursor's record named it."""

    store: MetadataStore
    path: str
    version: int
    """The version of the cursor's record."""
    owner: str
    ledger_id: int

    async def is_current(self) -> bool:
        """Returns whether the cursor's record is still the one that was read."""
        stat = await self.store.exists(self.path)
        return stat is not None and stat.version == self.version


async def read_references(store: MetadataStore, picture: Picture) -> list[CursorLedger]:
    """Adds to the picture what one cluster's store says. Returns the ledgers of cursors whose entries refer to further
    ledgers, for `entry_reader`. Raises MetadataError."""
    compactions: list[CursorLedger] = []
    async for path, record in walk(store, paths.MANAGED_LEDGERS):
        cursor = _add_managed(picture, path, record.value)
        if cursor is not None and path.endswith(f"/{COMPACTION_CURSOR}"):
            owner = path.removeprefix(f"{paths.MANAGED_LEDGERS}/").rpartition("/")[0]
            compactions.append(CursorLedger(store, path, record.stat.version, owner, cursor))
    async for path, record in walk(store, paths.SCHEMAS):
        if record.value:
            _add_schema(picture, path, record.value)
    for root in LOG_NAMESPACES:
        async for path, record in walk(store, root):
            picture.add(references_of_log_segment(path, record.value))
    async for path, _ in walk(store, paths.NAMESPACE_OWNERS):
        if (bundle := owned_bundle(path)) is not None:
            picture.owned.append(bundle)
    if await store.exists(SERVICE_UNITS) is not None or any(name.startswith(UNIT_TOPIC) for name in picture.cursors):
        picture.owners_known = False
    return compactions


def _add_managed(picture: Picture, path: str, value: bytes) -> int | None:
    """Adds the record of a managed ledger or a cursor: what it is follows from its place behind the domain. Returns the
    ledger of a cursor, if the record names one."""
    names = path.removeprefix(f"{paths.MANAGED_LEDGERS}/").split("/")
    at = next((place for place in (2, 3) if names[place : place + 1] in ([PERSISTENT], [NON_PERSISTENT])), None)
    depth = None if at is None else len(names) - at
    owner = "/".join(names) if at is None else "/".join(names[: at + 2])
    try:
        if depth == 2:
            picture.cursors.setdefault(owner, set())
            picture.add(references_of_managed_ledger(path, value))
        elif depth == 3:
            picture.cursors.setdefault(owner, set()).add(decode_local(names[-1]))
            cursor = references_of_cursor(path, value)
            picture.add(cursor.references)
            return cursor.ledger_id
        elif value:
            raise MalformedRecord("a record at a place where Pulsar keeps none")
    except MalformedRecord as error:
        picture.blind.append(BlindSpot(path, owner, str(error)))
    return None


def _add_schema(picture: Picture, path: str, value: bytes) -> None:
    schema_id = path.removeprefix(f"{paths.SCHEMAS}/")
    picture.schemas.add(schema_id)
    try:
        picture.add(references_of_schema(path, value))
    except MalformedRecord as error:
        picture.blind.append(BlindSpot(path, schema_id, str(error)))


def owned_bundle(path: str) -> OwnedBundle | None:
    """Returns the bundle of a record like `/namespace/public/default/0x00000000_0x40000000`; None for other records."""
    tenant_and_namespace, _, bundle = path.removeprefix(f"{paths.NAMESPACE_OWNERS}/").rpartition("/")
    low, _, high = bundle.partition("_")
    try:
        return OwnedBundle(tenant_and_namespace, int(low, 16), int(high, 16))
    except ValueError:
        return None


async def read_tenants(store: MetadataStore) -> set[str]:
    """Returns the tenants that a configuration store, or the store of a cluster with data of tenants, knows."""
    found: set[str] = set()
    for root in (paths.POLICIES, paths.MANAGED_LEDGERS):
        found.update(await children_of(store, root))
    return found


async def walk(store: MetadataStore, root: str) -> AsyncIterator[tuple[str, Record]]:
    """Yields all records below `root`, with their paths; parents come before their children."""
    level = [root]
    while level:
        below: list[str] = []
        named = await at_once(lambda path: children_of(store, path), level)
        async for path, names in in_parts(zip(level, named, strict=True)):
            below.extend([f"{path}/{name}" async for name in in_parts(names)])
        for start in range(0, len(below), AT_ONCE):
            part = below[start : start + AT_ONCE]
            async for path, record in in_parts(zip(part, await at_once(store.get, part), strict=True)):
                if record is not None:
                    yield path, record
        level = below


async def in_parts(items: Iterable[T]) -> AsyncIterator[T]:
    """Yields the items, and lets other tasks run after every PART of them."""
    for number, item in enumerate(items, start=1):
        yield item
        if number % PART == 0:
            await asyncio.sleep(0)


async def at_once(ask: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """Returns the answers for all items, in their order, with at most AT_ONCE questions under way."""
    waiting: Sequence[T] = list(items)
    answers: list[R] = []
    for start in range(0, len(waiting), AT_ONCE):
        answers += await asyncio.gather(*map(ask, waiting[start : start + AT_ONCE]))
    return answers


async def children_of(store: MetadataStore, path: str) -> list[str]:
    """Returns the names of the children; nothing when the record is not there."""
    try:
        return await store.children(path)
    except NoNodeError:
        return []
