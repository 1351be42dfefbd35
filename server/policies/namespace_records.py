"""Caches and watches the records of namespaces (/admin/policies/{tenant}/{namespace}), and changes them by
compare-and-set.

The JSON is that of Apache's class Policies. A change leaves all other keys of the record as they are, including keys
that this version does not know.

Sources: NamespaceResources, PoliciesUtil.
"""

import json
from collections.abc import Callable
from typing import Any

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import to_json
from magnetar.metadata.compare_and_set import update_record
from magnetar.metadata.coordination.record_cache import RecordCache
from magnetar.metadata.store import MetadataStore
from pulsar_proto.errors import MetadataFault

A_NAMESPACE = "the record of a namespace"

NamespaceChange = Callable[[dict[str, Any]], None]
"""A function that changes the record's JSON in place. When another writer was faster, the function is called again with
the newer record. If the function raises, the record stays unchanged."""


class NamespaceNotFound(Exception):
    """Raised when there is no namespace of that name."""


class NamespaceRecords:
    """Reads, caches and changes the records of namespaces. One object serves the whole process. Every method is called
    on the loop's thread. `on_change(namespace)` is called after a cached record was replaced or removed, no matter
    which broker changed the namespace."""

    def __init__(self, store: MetadataStore, on_change: Callable[[str], None]) -> None:
        self._store = store
        self._on_change = on_change
        self._records: RecordCache[dict[str, Any]] = RecordCache(
            store, paths.POLICIES, _parse, on_change=self._changed, cached_max=None
        )
        """The records of existing namespaces that were asked for. No record is dropped from this cache, because the
        policies of loaded topics depend on the records."""

    def start(self) -> None:
        """Begins to watch the records. Until then every `get` reads from the metadata store."""
        self._records.start()

    def close(self) -> None:
        self._records.close()

    def cached(self, namespace: str) -> dict[str, Any] | None:
        """Returns the cached record, which the caller must not change. Returns None when the record is not cached,
        because the record was never asked for or the namespace does not exist any more."""
        copy = self._records.cached(paths.policies_path(namespace))
        return None if copy is None else copy.value

    def fresh(self, namespace: str) -> dict[str, Any] | None:
        """Returns the record that `get` would return without asking the metadata store, or None when `get` would have
        to ask. The caller must not change the record."""
        copy = self._records.fresh(paths.policies_path(namespace))
        return None if copy is None else copy.value

    async def get(self, namespace: str) -> dict[str, Any] | None:
        """Returns the namespace's record, which the caller must not change, or None when there is no such namespace.
        Raises MetadataError when the metadata store fails, and MetadataFault when the record is malformed."""
        copy = await self._records.get(paths.policies_path(namespace))
        return None if copy is None else copy.value

    async def refresh(self, namespace: str) -> None:
        """Reads the record from the metadata store at once, without waiting for the watch. Raises MetadataError when
        the metadata store fails, and MetadataFault when the record is malformed."""
        await self._records.refresh(paths.policies_path(namespace))

    async def update(self, namespace: str, change: NamespaceChange) -> dict[str, Any]:
        """Applies `change` to the record, and returns the new record once the record is stored and cached. Raises
        NamespaceNotFound, MetadataError when the metadata store fails, and the exceptions of `change`."""
        path = paths.policies_path(namespace)
        value: dict[str, Any] = {}

        def change_record(old: bytes | None) -> bytes | None:
            nonlocal value
            if old is None:
                raise NamespaceNotFound(namespace)
            value = _parse(path, old)
            change(value)
            return to_json(value) if value != _parse(path, old) else None

        record = await update_record(self._store, path, change_record)
        assert record is not None, "a missing record raises"
        self._records.wrote(path, record)
        return value

    def _changed(self, path: str) -> None:
        self._on_change(path.removeprefix(f"{paths.POLICIES}/"))


def _parse(path: str, value: bytes) -> dict[str, Any]:
    return parse_object(path, value, A_NAMESPACE)


def parse_object(path: str, value: bytes, what: str) -> dict[str, Any]:
    """Parses a record that holds a JSON object; an empty record counts as an empty object. Raises MetadataFault with
    the text that the record at `path` is not `what`."""
    if not value:
        return {}
    try:
        parsed = json.loads(value)
    except ValueError as error:
        raise MetadataFault(f"{path} is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise MetadataFault(f"{path} is not {what}")
    return parsed
