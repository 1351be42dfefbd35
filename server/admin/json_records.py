"""Reads and changes records of the metadata store that hold one JSON object."""

from collections.abc import AsyncIterator, Callable
from typing import Any

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import to_json
from magnetar.metadata.compare_and_set import update_record
from magnetar.metadata.errors import NoNodeError
from magnetar.metadata.store import MetadataStore
from magnetar.server.policies.namespace_records import parse_object
from magnetar.server.process.turns import in_portions


async def read(store: MetadataStore, path: str) -> dict[str, Any] | None:
    """Returns the object in a record, or None when there is no record. Raises MetadataError, and MetadataFault when the
    record does not hold an object."""
    record = await store.get(path)
    return None if record is None else parse_object(path, record.value, "an object")


async def children(store: MetadataStore, path: str) -> list[str]:
    """Returns the names of the records below a record, sorted. Returns an empty list when the record does not exist.
    Raises MetadataError."""
    try:
        return await store.children(path)
    except NoNodeError:
        return []


async def all_namespaces(store: MetadataStore) -> AsyncIterator[str]:
    """Yields the names of all namespaces. Other tasks run now and then, also when the store answers at once. Raises
    MetadataError."""
    for tenant in await children(store, paths.POLICIES):
        async for namespace in in_portions(await children(store, paths.tenant_path(tenant))):
            yield f"{tenant}/{namespace}"


async def update(
    store: MetadataStore, path: str, change: Callable[[dict[str, Any]], None], *, create: bool = False
) -> bool:
    """Applies `change` to the object in a record and stores the result by compare-and-set. When another writer was
    faster, the record is read again and `change` is applied to the newer object. If the record is missing, the function
    creates it when `create` is set, and otherwise returns False. Raises MetadataError, MetadataFault when the record
    does not hold an object, and what `change` raises."""

    def change_record(old: bytes | None) -> bytes | None:
        value = {} if old is None else parse_object(path, old, "an object")
        change(value)
        return None if old is None and not create else to_json(value)

    return await update_record(store, path, change_record) is not None
