"""Records of the metadata store that hold one JSON object: read, made, changed by compare-and-set, deleted."""

from collections.abc import Callable
from typing import Any

from magnetar.metadata.cluster_init import to_json
from magnetar.metadata.errors import BadVersionError, MetadataError, NodeExistsError, NoNodeError
from magnetar.metadata.store import MetadataStore
from magnetar.server.policies.namespace_records import parse_object

_LOST = (BadVersionError, NodeExistsError, NoNodeError)
"""Another writer was faster."""

ATTEMPTS_MAX = 20
"""Compare-and-set rounds lost in a row to other writers of one record."""


async def read(store: MetadataStore, path: str) -> dict[str, Any] | None:
    """None where there is no record. Raises MetadataError, MetadataFault."""
    record = await store.get(path)
    return None if record is None else parse_object(path, record.value, "an object")


async def children(store: MetadataStore, path: str) -> list[str]:
    """Sorted; none where there is no record."""
    try:
        return await store.children(path)
    except NoNodeError:
        return []


async def update(
    store: MetadataStore, path: str, change: Callable[[dict[str, Any]], None], *, create: bool = False
) -> bool:
    """Applies `change`, again when another writer was faster. False: there is no such record (with `create` there
    is one then). Raises MetadataError, MetadataFault, and what `change` raises."""
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
