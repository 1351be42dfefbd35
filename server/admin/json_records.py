"""Reads and changes records of the metadata store that hold one JSON object."""

from collections.abc import Callable
from typing import Any

from magnetar.metadata.cluster_init import to_json
from magnetar.metadata.errors import BadVersionError, MetadataError, NodeExistsError, NoNodeError
from magnetar.metadata.store import MetadataStore
from magnetar.server.policies.namespace_records import parse_object

_LOST = (BadVersionError, NodeExistsError, NoNodeError)
"""What a write raises when another writer was faster."""

ATTEMPTS_MAX = 20
"""The number of rounds of compare-and-set after which a change fails, when another writer was faster in each."""


async def read(store: MetadataStore, path: str) -> dict[str, Any] | None:
    """Returns the object in a record, or None when there is no record. Raises MetadataError, and MetadataFault when the
    record does not hold an object."""
    record = await store.get(path)
    return None if record is None else parse_object(path, record.value, "an object")


async def children(store: MetadataStore, path: str) -> list[str]:
    """Returns the names of the records below a record, sorted; none when the record does not exist. Raises
    MetadataError."""
    try:
        return await store.children(path)
    except NoNodeError:
        return []


async def update(
    store: MetadataStore, path: str, change: Callable[[dict[str, Any]], None], *, create: bool = False
) -> bool:
    """Applies `change` to the object in a record and stores it by compare-and-set; when another writer was faster, it
    reads the record again and applies `change` to that. A missing record is made when `create` is set; otherwise False
    is returned. Raises MetadataError, MetadataFault when the record does not hold an object, and what `change`
    raises."""
    for _ in range(ATTEMPTS_MAX):
        record = await store.get(path)
        value = {} if record is None else parse_object(path, record.value, "an object")
        change(value)
        try:
            if record is not None:
                await store.put(path, to_json(value), record.stat.version)
            elif not create:
                return False
            else:
                await store.create(path, to_json(value), make_parents=True)
            return True
        except MetadataError as error:
            if not isinstance(error, _LOST):
                raise
    raise MetadataError(path, f"lost {ATTEMPTS_MAX} compare-and-set rounds in a row")
