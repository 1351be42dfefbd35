"""The schema registry on storage: versions, deletions, races, and the bytes that Apache's broker stores."""

import asyncio
import json
import threading
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from magnetar.metadata.paths import SCHEMAS
from magnetar.server.schema import compatibility_rules
from magnetar.server.schema.schema_metrics import SchemaCounters
from magnetar.server.schema.schema_registry import NO_VERSION, SchemaRegistry
from magnetar.server.schema.schema_storage import SchemaRaceLost, SchemaStorage, SchemaStorageFault
from magnetar.server.schema.schema_types import InvalidSchema, Schema, SchemaConflict, SchemaType, schema_of_record
from magnetar.server.schema.strategies import CompatibilityStrategy
from pulsar_proto.pb import managed_ledger_pb2 as records
from tests.pulsar_proto.vectors import load, unhex
from tests.storage.managed.fake_bookkeeper import World

ID = "public/default/t"
FULL = CompatibilityStrategy.FULL


def avro(*names: str) -> Schema:
    fields = [{"name": name, "type": ["null", "int"], "default": None} for name in names]
    return Schema(SchemaType.AVRO, json.dumps({"type": "record", "name": "A", "fields": fields}).encode())


class Broker:
    def __init__(self, world: World | None = None) -> None:
        self.world = world or World()
        session = self.world.session()
        self.storage = SchemaStorage(session.metadata(), session.as_client(), (1, 1, 1))
        self.registry = SchemaRegistry(self.storage, lambda: 1795223668957)

    def ledgers(self) -> set[int]:
        return set(self.world.ledgers)


async def test_versions_count_from_zero_and_are_found_again() -> None:
    registry = Broker().registry
    assert await registry.latest(ID) is None
    assert await registry.put(ID, avro("a"), FULL) == 0
    assert await registry.put(ID, avro("a", "b"), FULL) == 1
    assert await registry.put(ID, avro("a"), FULL) == 0
    latest = await registry.latest(ID)
    assert latest is not None
    assert (latest.version, latest.schema.data) == (1, avro("a", "b").data)
    assert latest.schema.timestamp_ms == 1795223668957
    assert await registry.version(ID, 2) is None
    assert [each.version for each in await registry.versions(ID)] == [0, 1]
    assert await registry.find_version(ID, avro("a", "b")) == 1
    assert await registry.find_version(ID, avro("z")) == NO_VERSION


async def test_what_is_incompatible_or_not_to_be_added_is_refused_and_not_stored() -> None:
    broker = Broker()
    await broker.registry.put(ID, avro("a"), FULL)
    before = broker.ledgers()
    required = Schema(SchemaType.AVRO, b'{"type":"record","name":"A","fields":[{"name":"q","type":"int"}]}')
    with pytest.raises(SchemaConflict, match="strategy FULL"):
        await broker.registry.put(ID, required, FULL)
    with pytest.raises(SchemaConflict, match="schema auto updating is disabled"):
        await broker.registry.put(ID, avro("a", "b"), FULL, may_add=False)
    assert await broker.registry.put(ID, avro("a"), FULL, may_add=False) == 0
    with pytest.raises(InvalidSchema):
        await broker.registry.put(ID, Schema(SchemaType.AVRO, b"{"), FULL)
    assert broker.ledgers() == before


async def test_a_deletion_is_a_version_behind_which_nothing_counts() -> None:
    registry = Broker().registry
    assert await registry.delete(ID) == 0
    assert await registry.put(ID, avro("a"), FULL) == 1
    assert await registry.delete(ID, "admin") == 2
    assert await registry.latest(ID) is None
    assert await registry.versions(ID) == []
    assert await registry.version(ID, 1) is None
    assert await registry.put(ID, Schema(SchemaType.STRING), FULL) == 3
    assert [each.version for each in await registry.versions(ID)] == [3]


async def test_deleting_the_storage_leaves_no_ledger() -> None:
    broker = Broker()
    await broker.registry.put(ID, avro("a"), FULL)
    await broker.registry.put(ID, avro("a", "b"), FULL)
    assert await broker.registry.delete_storage(ID) == -1
    assert broker.ledgers() == set()
    assert await broker.registry.delete_storage(ID) == -1
    assert await broker.registry.put(ID, avro("z"), FULL) == 0


async def test_many_at_once_get_one_version_each() -> None:
    registry = Broker().registry
    schemas = [avro(*"abcdefgh"[: 1 + at % 4]) for at in range(20)]
    numbers = await asyncio.gather(*(registry.put(ID, schema, FULL) for schema in schemas))
    assert sorted(set(numbers)) == [0, 1, 2, 3]
    assert len({(number, schema.data) for number, schema in zip(numbers, schemas, strict=True)}) == 4


async def test_two_brokers_agree() -> None:
    world = World()
    one, other = Broker(world), Broker(world)
    numbers: list[int] = await asyncio.gather(*(broker.registry.put(ID, avro("a"), FULL) for broker in (one, other)))
    assert numbers == [0, 0]
    one_version, other_version = await asyncio.gather(
        one.registry.put(ID, avro("a", "b"), FULL), other.registry.put(ID, avro("c"), FULL)
    )
    assert {one_version, other_version} == {1, 2}
    assert await one.registry.versions(ID) == await other.registry.versions(ID)
    assert len(world.ledgers) == 3  # the schemas that lost a race are gone


async def test_versions_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("magnetar.server.schema.schema_registry.VERSIONS_MAX", 2)
    registry = Broker().registry
    await registry.put(ID, avro("a"), FULL)
    await registry.put(ID, avro("b"), FULL)
    with pytest.raises(SchemaConflict, match="2 versions"):
        await registry.put(ID, avro("c"), FULL)
    assert await registry.put(ID, avro("a"), FULL) == 0
    await registry.delete_storage(ID)
    assert await registry.put(ID, avro("c"), FULL) == 0


async def test_many_definitions_are_compared_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Broker().registry
    assert await registry.put(ID, avro("a"), FULL) == 0
    threads = []
    for name in ("version_of", "check_next_version"):
        compare = getattr(compatibility_rules, name)

        def watched(*arguments: Any, compare: Any = compare) -> Any:
            threads.append(threading.current_thread())
            return compare(*arguments)

        monkeypatch.setattr(compatibility_rules, name, watched)
    assert await registry.put(ID, avro("a", "b"), FULL) == 1
    assert set(threads) == {threading.main_thread()}
    threads.clear()
    monkeypatch.setattr("magnetar.server.schema.schema_registry.ON_THE_LOOP_BYTES", 100)
    assert await registry.put(ID, avro("a", "b", "c"), FULL) == 2
    with pytest.raises(SchemaConflict):
        await registry.put(ID, Schema(SchemaType.AVRO, b'"int"'), FULL)
    assert len(threads) == 4
    assert threading.main_thread() not in threads


async def test_a_lost_race_is_told() -> None:
    broker = Broker()
    await broker.registry.put(ID, avro("a"), FULL)
    locator = await broker.storage.locate(ID)
    await broker.registry.put(ID, avro("b"), FULL)
    with pytest.raises(SchemaRaceLost):
        await broker.storage.append(ID, locator, avro("c"), avro("c").hash)


async def test_what_another_process_finds_after_a_restart() -> None:
    world = World()
    await Broker(world).registry.put(ID, avro("a"), FULL)
    await world.bury()
    latest = await Broker(world).registry.latest(ID)
    assert latest is not None
    assert latest.schema.data == avro("a").data


@pytest.mark.parametrize("after_effect", [False, True])
async def test_a_death_at_any_step_leaves_whole_versions(after_effect: bool) -> None:
    for step in range(1, 30):
        world = World()
        await Broker(world).registry.put(ID, avro("a"), FULL)
        dying = Broker(world)
        world.steps.die_at, world.steps.die_after_effect = world.steps.taken + step, after_effect
        adding = asyncio.ensure_future(dying.registry.put(ID, avro("a", "b"), FULL))
        dead = asyncio.ensure_future(world.steps.dead.wait())
        await asyncio.wait([adding, dead], return_when=asyncio.FIRST_COMPLETED)
        survived = not dead.done()
        dead.cancel()
        adding.cancel()
        await world.bury()
        registry = Broker(world).registry
        assert [each.schema.data for each in await registry.versions(ID)] in (
            [avro("a").data],
            [avro("a").data, avro("a", "b").data],
        )
        assert await registry.put(ID, avro("a", "b"), FULL) == 1
        if survived:
            return
    raise AssertionError("a put takes fewer steps")


async def test_a_record_that_is_none_is_told() -> None:
    broker = Broker()
    session = broker.world.session()
    await session.metadata().create(f"{SCHEMAS}/{ID}", b"\xff\xff", make_parents=True)
    with pytest.raises(SchemaStorageFault, match="is not the record of a schema"):
        await broker.registry.latest(ID)


async def test_records_and_entries_are_byte_for_byte_apaches() -> None:
    """Two versions of one topic, captured from 4.0.7, are stored again in the same order and give the same bytes."""
    entries = [item for item in load("pulsar_entries.json") if item.get("of") == "public/default/javro"]
    locator = next(item for item in load("pulsar_records.json") if item["path"] == "/schemas/public/default/javro")
    assert len(entries) == 2
    broker = Broker()
    broker.world.ids = count(59)
    for item in sorted(entries, key=lambda item: int(item["ledger"])):
        stored = records.SchemaEntry.FromString(unhex(item["hex"]))
        schema = schema_of_record(stored.schema_data)
        await broker.registry.put("public/default/javro", replace(schema, timestamp_ms=0), FULL)
    record = await broker.world.session().metadata().get("/schemas/public/default/javro")
    assert record is not None
    assert record.value == unhex(locator["hex"])
    first: Any = await broker.storage.locate("public/default/javro")
    assert first.ledger_ids == [59, 60]


def test_operations_are_counted_by_namespace() -> None:
    counters = SchemaCounters()
    counters.got("public/default/t", 0.25)
    counters.got("public/default/u", 0.5)
    counters.got("public/other/u", 1.0)
    latency = counters.operations["get", "public/default"]
    assert (latency.count, latency.seconds) == (2, 0.75)
