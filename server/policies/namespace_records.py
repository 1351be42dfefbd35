"""The records of namespaces, /admin/policies/{tenant}/{namespace}: they are cached, watched, and changed by
compare-and-set.

The JSON is that of Apache's class Policies. A change leaves all other keys of the record as they are, including keys
that this version does not know.

Sources: NamespaceResources, PoliciesUtil.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import to_json
from magnetar.metadata.compare_and_set import update_record
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.store import MetadataStore, Record, RecordEvent
from pulsar_proto.errors import MetadataFault

log = logging.getLogger(__name__)

A_NAMESPACE = "the record of a namespace"

NamespaceChange = Callable[[dict[str, Any]], None]
"""A function that changes the record's JSON in place. When another writer was faster, the function is called again with
the newer record. If it raises, the record stays unchanged."""


class NamespaceNotFound(Exception):
    """Raised when there is no namespace of that name."""


class NamespaceRecords:
    """Reads, caches and changes the records of namespaces. One object serves the process; it is used on the loop's
    thread only. `on_change(namespace)` is called after a cached record was replaced or removed, no matter which broker
    changed the namespace."""

    def __init__(self, store: MetadataStore, on_change: Callable[[str], None]) -> None:
        self._store = store
        self._on_change = on_change
        self._cached: dict[str, Record] = {}
        """The records of namespaces that exist and that somebody has asked for."""
        self._parsed: dict[str, dict[str, Any]] = {}
        """The JSON of the records in `_cached`."""
        self._reloading: dict[str, asyncio.Task[None]] = {}
        self._dirty: set[str] = set()
        """Namespaces whose record has changed since it was cached."""
        self._cancel_watch: Callable[[], None] | None = None

    def start(self) -> None:
        """Begins to watch the records. Until then every `get` reads from the metadata store."""
        if self._cancel_watch is None:
            self._cancel_watch = self._store.watch(paths.POLICIES, self._event, recursive=True)

    def close(self) -> None:
        if self._cancel_watch is not None:
            self._cancel_watch()
            self._cancel_watch = None
        for task in self._reloading.values():
            task.cancel()

    def cached(self, namespace: str) -> dict[str, Any] | None:
        """Returns the cached record, which the caller must not change, or None when the record is not cached: it was
        never asked for, or the namespace is gone."""
        return self._parsed.get(namespace)

    async def get(self, namespace: str) -> dict[str, Any] | None:
        """Returns the namespace's record, which the caller must not change, or None when there is no such namespace.
        Raises MetadataError, MetadataFault."""
        known = self._parsed.get(namespace)
        if known is not None and self._cancel_watch is not None and namespace not in self._dirty:
            return known
        return await self._load(namespace)

    async def refresh(self, namespace: str) -> None:
        """Reads the record from the metadata store at once, without waiting for its watch. Raises MetadataError,
        MetadataFault."""
        await self._load(namespace)

    async def update(self, namespace: str, change: NamespaceChange) -> dict[str, Any]:
        """Applies `change` to the record and returns once it is stored and cached. Raises NamespaceNotFound,
        MetadataError, and the exceptions of `change`."""
        path = paths.policies_path(namespace)
        value: dict[str, Any] = {}

        def change_record(old: bytes | None) -> bytes | None:
            nonlocal value
            if old is None:
                raise NamespaceNotFound(namespace)
            value = parse_object(path, old, A_NAMESPACE)
            change(value)
            return to_json(value) if value != parse_object(path, old, A_NAMESPACE) else None

        record = await update_record(self._store, path, change_record)
        assert record is not None, "a missing record raises"
        self._keep(namespace, record)
        return value

    def _event(self, event: RecordEvent) -> None:
        namespace = event.path.removeprefix(f"{paths.POLICIES}/")
        if namespace.count("/") != 1 or namespace not in self._parsed:
            return
        self._dirty.add(namespace)
        if namespace not in self._reloading:
            task = self._reloading[namespace] = asyncio.get_running_loop().create_task(self._reload(namespace))
            task.add_done_callback(lambda _: self._reloading.pop(namespace, None))

    async def _reload(self, namespace: str) -> None:
        while namespace in self._dirty:
            try:
                await self._load(namespace)
            except (MetadataError, MetadataFault) as error:
                log.warning("%s: its policies cannot be read, the last ones stay: %s", namespace, error)
                return  # the namespace is still in `_dirty`, so the next `get` reads the record again

    async def _load(self, namespace: str) -> dict[str, Any] | None:
        self._dirty.discard(namespace)
        path = paths.policies_path(namespace)
        try:
            record = await self._store.get(path)
            if record is not None:
                self._keep(namespace, record)
        except BaseException:
            if namespace in self._parsed:
                self._dirty.add(namespace)
            raise
        if record is not None:
            return self._parsed[namespace]
        if self._parsed.pop(namespace, None) is not None:
            del self._cached[namespace]
            self._on_change(namespace)
        return None

    def _keep(self, namespace: str, record: Record) -> None:
        known = self._cached.get(namespace)
        if known is not None and (record.stat.created_ms, record.stat.version) <= (
            known.stat.created_ms,
            known.stat.version,
        ):
            return  # this read was slow: a newer record is cached already
        self._parsed[namespace] = parse_object(paths.policies_path(namespace), record.value, A_NAMESPACE)
        self._cached[namespace] = record
        self._on_change(namespace)


def parse_object(path: str, value: bytes, what: str) -> dict[str, Any]:
    """Parses a record that holds a JSON object; an empty record counts as an empty object. Raises MetadataFault, which
    says that the record at `path` is not `what`."""
    if not value:
        return {}
    try:
        parsed = json.loads(value)
    except ValueError as error:
        raise MetadataFault(f"{path} is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise MetadataFault(f"{path} is not {what}")
    return parsed
