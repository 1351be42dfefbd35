"""The records of partitioned topics, at /admin/partitioned-topics/{tenant}/{namespace}/{domain}/{topic}: they are
cached, watched, and changed by compare-and-set.

A partitioned topic consists of its record alone. Its partitions are topics of their own, with names that end in
`-partition-0`, `-partition-1` and so on.

Sources: NamespaceResources.PartitionedTopicResources, PartitionedTopicMetadata.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cachetools import LRUCache

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import partitioned_topic_value, to_json
from magnetar.metadata.compare_and_set import update_record
from magnetar.metadata.errors import NodeExistsError, NoNodeError
from magnetar.metadata.store import CancelWatch, MetadataStore, RecordEvent
from pulsar_proto.errors import MetadataFault
from pulsar_proto.names import TopicName, decode_local, encode_local

CACHED_MAX = 10_000
"""How many answers are cached, including the answer "is not partitioned". A full cache drops the least recently used
answer."""


@dataclass(frozen=True, slots=True)
class PartitionedTopic:
    """One record."""

    partitions: int
    deleted: bool = False
    """Whether the topic is being deleted: its partitions are deleted one by one, and no partition is created any
    more."""
    properties: Mapping[str, str] | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)
    """The record's keys that this version does not know. They are written back unchanged."""

    def value(self) -> bytes:
        """Returns the record's bytes."""
        known: dict[str, Any] = {"partitions": self.partitions, "deleted": self.deleted}
        if self.properties is not None:
            known["properties"] = dict(self.properties)
        return to_json({**known, **self.unknown})


class PartitionedTopics:
    """The cached records of partitioned topics. One object serves the process; it is used on the loop's thread only.
    All methods raise MetadataError when the store fails, and MetadataFault when a record cannot be decoded."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._cached: LRUCache[str, PartitionedTopic | None] = LRUCache(CACHED_MAX)
        """Answers by path. No answer is cached until `start` has set the watch."""
        self._changes = 0
        """How many changes were seen. An answer that was read while this number grew may be outdated, and is not
        cached."""
        self._cancel_watch: CancelWatch | None = None

    def start(self) -> None:
        """Begins to watch the records. Until then every `get` reads from the metadata store."""
        if self._cancel_watch is None:
            self._cancel_watch = self._store.watch(paths.PARTITIONED_TOPICS, self._event, recursive=True)

    def close(self) -> None:
        if self._cancel_watch is not None:
            self._cancel_watch()
            self._cancel_watch = None

    async def get(self, name: TopicName) -> PartitionedTopic | None:
        """Returns the topic's record, or None when the topic is not partitioned or does not exist."""
        path = _path(name)
        if path in self._cached:
            return self._cached[path]
        changes = self._changes
        record = await self._store.get(path)
        topic = None if record is None else _parse(path, record.value)
        if self._cancel_watch is not None and changes == self._changes:
            self._cached[path] = topic
        return topic

    async def create(self, name: TopicName, partitions: int, properties: Mapping[str, str] | None = None) -> bool:
        """Creates the record. Returns False when the topic has a record already."""
        path = _path(name)
        try:
            await self._store.create(path, partitioned_topic_value(partitions, properties), make_parents=True)
        except NodeExistsError:
            return False
        finally:
            self._forget(path)
        return True

    async def update(
        self,
        name: TopicName,
        *,
        partitions: int | None = None,
        deleted: bool | None = None,
        properties: Mapping[str, str | None] | None = None,
    ) -> PartitionedTopic | None:
        """Changes the given parts and returns the new record, or None when the topic is not partitioned. A smaller
        number of partitions is ignored. Properties that are not named stay; a property with a value of None is
        removed."""
        path = _path(name)
        new: PartitionedTopic | None = None

        def change(value: bytes | None) -> bytes | None:
            nonlocal new
            if value is None:
                new = None
                return None
            old = _parse(path, value)
            new = PartitionedTopic(
                max(old.partitions, partitions or 0),
                old.deleted if deleted is None else deleted,
                old.properties if properties is None else _merged(old.properties or {}, properties),
                old.unknown,
            )
            return new.value()

        try:
            await update_record(self._store, path, change)
        finally:
            self._forget(path)
        return new

    async def delete(self, name: TopicName) -> None:
        """Deletes the record, but not the partitions. A missing record is no error."""
        path = _path(name)
        try:
            await self._store.delete(path)
        except NoNodeError:
            pass
        finally:
            self._forget(path)

    async def names(self, namespace: str, domain: str) -> list[str]:
        """Returns the full names of the namespace's partitioned topics, sorted."""
        try:
            children = await self._store.children(f"{paths.PARTITIONED_TOPICS}/{namespace}/{domain}")
        except NoNodeError:
            return []
        return sorted(f"{domain}://{namespace}/{decode_local(child)}" for child in children)

    def _event(self, event: RecordEvent) -> None:
        self._forget(event.path)

    def _forget(self, path: str) -> None:
        self._changes += 1
        self._cached.pop(path, None)


def _merged(old: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**old, **changes}.items() if value is not None}


def _path(name: TopicName) -> str:
    return paths.partitioned_topic_path(name.namespace, name.domain, encode_local(name.local_name))


def _parse(path: str, value: bytes) -> PartitionedTopic:
    try:
        record = dict(json.loads(value))
        partitions = int(record.pop("partitions"))
        deleted = bool(record.pop("deleted", False))
        properties = record.pop("properties", None)
    except (ValueError, KeyError, TypeError) as error:
        raise MetadataFault(f"{path} is not the record of a partitioned topic") from error
    return PartitionedTopic(partitions, deleted, properties, record)
