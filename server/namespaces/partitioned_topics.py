"""The records of partitioned topics, at /admin/partitioned-topics/{tenant}/{namespace}/{domain}/{topic}. The records
are cached, watched, and changed by compare-and-set.

A partitioned topic consists of its record alone. Its partitions are topics of their own, with names that end in
`-partition-0`, `-partition-1` and so on.

Sources: NamespaceResources.PartitionedTopicResources, PartitionedTopicMetadata.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import partitioned_topic_value, to_json
from magnetar.metadata.compare_and_set import update_record
from magnetar.metadata.coordination.record_cache import RecordCache
from magnetar.metadata.errors import NodeExistsError, NoNodeError
from magnetar.metadata.long_lists import sorted_in_portions
from magnetar.metadata.store import MetadataStore
from magnetar.server.process.turns import in_slices
from pulsar_proto.errors import MetadataFault
from pulsar_proto.names import TopicName, decode_local, encode_local


@dataclass(frozen=True, slots=True)
class PartitionedTopic:
    """The record of one partitioned topic."""

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
    """The cached records of partitioned topics. One object serves the process. All calls are made on the loop's thread.
    All methods raise MetadataError when the store fails, and MetadataFault when a record cannot be decoded."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._records: RecordCache[PartitionedTopic] = RecordCache(store, paths.PARTITIONED_TOPICS, _parse)
        """The records by path, including the answer "is not partitioned"."""

    def start(self) -> None:
        """Begins to watch the records. Until then every `get` reads from the metadata store."""
        self._records.start()

    def close(self) -> None:
        self._records.close()

    async def get(self, name: TopicName) -> PartitionedTopic | None:
        """Returns the topic's record, or None when the topic is not partitioned or does not exist."""
        copy = await self._records.get(_path(name))
        return None if copy is None else copy.value

    async def create(self, name: TopicName, partitions: int, properties: Mapping[str, str] | None = None) -> bool:
        """Creates the record. Returns False when the topic has a record already."""
        path = _path(name)
        try:
            await self._store.create(path, partitioned_topic_value(partitions, properties), make_parents=True)
        except NodeExistsError:
            return False
        finally:
            self._records.forget(path)
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
            self._records.forget(path)
        return new

    async def delete(self, name: TopicName) -> None:
        """Deletes the record, but not the partitions. A missing record is no error."""
        path = _path(name)
        try:
            await self._store.delete(path)
        except NoNodeError:
            pass
        finally:
            self._records.forget(path)

    async def names(self, namespace: str, domain: str) -> list[str]:
        """Returns the full names of the namespace's partitioned topics, sorted."""
        try:
            children = await self._store.children(f"{paths.PARTITIONED_TOPICS}/{namespace}/{domain}")
        except NoNodeError:
            return []
        names: list[str] = []
        async for some in in_slices(children):
            names += [f"{domain}://{namespace}/{decode_local(child)}" for child in some]
        return await sorted_in_portions(names)


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
