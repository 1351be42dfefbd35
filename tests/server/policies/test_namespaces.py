"""Records of namespaces are cached, follow changes that others make, and keep fields that this server does not know
when it changes them."""

import json
from typing import Any

import pytest

from magnetar.metadata import paths
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.policies.namespace_records import NamespaceNotFound, NamespaceRecords
from pulsar_proto.errors import MetadataFault
from tests.waiting import until

NAME = "public/default"
PATH = paths.policies_path(NAME)


class Records:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.changed: list[str] = []
        self.records = NamespaceRecords(self.store, self.changed.append)

    async def create(self, value: bytes = b'{"unknown":{"a":[1]},"x":1}') -> "Records":
        await self.store.create(PATH, value, make_parents=True)
        self.records.start()
        return self


async def test_a_change_keeps_what_it_does_not_name() -> None:
    scene = await Records().create()
    await scene.records.update(NAME, lambda record: record.update(y=2))
    record = await scene.store.get(PATH)
    assert record is not None
    assert record.value == b'{"unknown":{"a":[1]},"x":1,"y":2}'
    assert scene.records.cached(NAME) == {"unknown": {"a": [1]}, "x": 1, "y": 2}
    assert scene.changed == [NAME]


async def test_a_change_by_another_broker_is_followed() -> None:
    scene = await Records().create()
    assert await scene.records.get(NAME) == {"unknown": {"a": [1]}, "x": 1}
    await scene.store.put(PATH, b'{"x":5}')
    await until(lambda: scene.records.cached(NAME) == {"x": 5})
    await scene.store.delete(PATH)
    await until(lambda: scene.records.cached(NAME) is None)
    assert await scene.records.get(NAME) is None
    assert len(scene.changed) == 3


async def test_two_writers_lose_nothing() -> None:
    scene = await Records().create()
    raced: list[Any] = []

    def change(record: dict[str, Any]) -> None:
        if not raced:
            raced.append(scene.store.put(PATH, b'{"x":7}'))
        record["mine"] = True

    original = scene.store.put

    async def put(path: str, value: bytes, expected_version: int | None = None) -> Any:
        if expected_version is not None and raced:
            await raced.pop()
            raced.append(None)
            scene.store.put = original  # type: ignore[method-assign]
        return await original(path, value, expected_version)

    scene.store.put = put  # type: ignore[method-assign]
    await scene.records.update(NAME, change)
    record = await scene.store.get(PATH)
    assert record is not None
    assert json.loads(record.value) == {"x": 7, "mine": True}


async def test_what_is_refused_changes_nothing() -> None:
    scene = await Records().create()

    def refuse(record: dict[str, Any]) -> None:
        record.clear()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await scene.records.update(NAME, refuse)
    assert await scene.records.get(NAME) == {"unknown": {"a": [1]}, "x": 1}


async def test_missing_and_damaged_records_are_told() -> None:
    scene = await Records().create(b"[]")
    with pytest.raises(NamespaceNotFound):
        await scene.records.update("public/nope", lambda record: None)
    assert await scene.records.get("public/nope") is None
    with pytest.raises(MetadataFault, match="not the record of a namespace"):
        await scene.records.get(NAME)
