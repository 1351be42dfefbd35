"""Several brokers share one changeable configuration."""

import asyncio
import json
from dataclasses import dataclass

import pytest

from magnetar.metadata import paths
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.broker.dynamic_configuration import ConfigurationRefused, DynamicConfiguration
from magnetar.server.config.topic_settings import TopicSettings
from tests.waiting import until

PARTITIONS = "defaultNumPartitions"


@dataclass
class OneBroker:
    configuration: DynamicConfiguration
    settings: TopicSettings
    told: list[set[str]]


async def broker(store: MemoryStore, **settings: int) -> OneBroker:
    told: list[set[str]] = []
    made = OneBroker(DynamicConfiguration(store), TopicSettings(**settings), told)  # type: ignore[arg-type]
    made.configuration.hold(made.settings, lambda changed: told.append(set(changed)))
    await made.configuration.start()
    return made


async def record(store: MemoryStore) -> object:
    found = await store.get(paths.CONFIGURATION)
    assert found is not None
    return json.loads(found.value)


class TestTwoBrokers:
    async def test_a_change_takes_hold_at_both_and_its_removal_restores_the_file(self) -> None:
        store = MemoryStore()
        first, second = await broker(store, default_num_partitions=7), await broker(store)
        assert await record(store) == {}
        await first.configuration.set(PARTITIONS, "3")
        assert first.settings.default_num_partitions == 3, "the broker that was asked has it when it answers"
        await until(lambda: second.settings.default_num_partitions == 3)
        assert await record(store) == {PARTITIONS: "3"}
        await second.configuration.remove(PARTITIONS)
        assert second.settings.default_num_partitions == 1
        await until(lambda: first.settings.default_num_partitions == 7)
        assert first.told == second.told == [{"default_num_partitions"}] * 2

    async def test_a_broker_that_starts_later_has_what_was_changed(self) -> None:
        store = MemoryStore()
        await (await broker(store)).configuration.set(PARTITIONS, "3")
        assert (await broker(store)).settings.default_num_partitions == 3

    async def test_changes_at_the_same_time_are_all_kept(self) -> None:
        store = MemoryStore()
        first, second = await broker(store), await broker(store)
        keys = ["maxTopicsPerNamespace", PARTITIONS, "maxNumPartitionsPerPartitionedTopic", "maxTenants"]
        changes = [
            each.configuration.set(key, "5") for key, each in zip(keys, (first, second, first, second), strict=True)
        ]
        await asyncio.gather(*changes)
        assert await record(store) == dict.fromkeys(keys, "5")
        assert first.configuration.in_force()["maxTopicsPerNamespace"] == "5"


class TestRefused:
    async def test_what_cannot_change_is_not_changed(self) -> None:
        store = MemoryStore()
        one = await broker(store)
        for key, text, why in (
            ("maxMessageSize", "1", "Can't update non-dynamic configuration"),
            (PARTITIONS, "abc", f"Invalid dynamic-config value: {PARTITIONS}=abc: expected a whole number"),
            ("dispatcherReadFailureBackoffInitialTimeInMs", "99999999", "must not exceed"),
        ):
            with pytest.raises(ConfigurationRefused, match=why):
                await one.configuration.set(key, text)
        with pytest.raises(ConfigurationRefused, match="Can't delete non-dynamic configuration"):
            await one.configuration.remove("maxMessageSize")
        assert await record(store) == {}
        assert one.told == []

    async def test_the_rest_of_a_record_with_faults_holds(self) -> None:
        """A Java broker stores values that it cannot read."""
        store = MemoryStore()
        one = await broker(store, max_topics_per_namespace=9)
        written = {PARTITIONS: "3", "maxTopicsPerNamespace": "abc", "noSuchKey": "1"}
        await store.put(paths.CONFIGURATION, json.dumps(written).encode())
        await until(lambda: one.settings.default_num_partitions == 3)
        assert one.settings.max_topics_per_namespace == 9
        await one.configuration.set("maxTenants", "2")
        assert await record(store) == {**written, "maxTenants": "2"}

    async def test_values_of_others_that_contradict_each_other_change_nothing(self) -> None:
        store = MemoryStore()
        one = await broker(store)
        await store.put(paths.CONFIGURATION, b'{"dispatcherReadFailureBackoffInitialTimeInMs":"99999999"}')
        await until(lambda: bool(one.configuration.values))
        assert one.settings.dispatcher_read_failure_backoff_initial_time_in_ms == 15_000
        assert one.told == []

    async def test_a_record_that_is_no_map_of_texts_leaves_the_last_one_in_force(self) -> None:
        store = MemoryStore()
        one = await broker(store)
        await one.configuration.set(PARTITIONS, "3")
        await store.put(paths.CONFIGURATION, b"[1]")
        await store.put(paths.CONFIGURATION, json.dumps({PARTITIONS: "5"}).encode())
        await until(lambda: one.settings.default_num_partitions == 5)


async def test_a_part_that_comes_later_has_what_was_changed_and_its_own_file_value_back() -> None:
    store = MemoryStore()
    one = await broker(store)
    await one.configuration.set(PARTITIONS, "3")
    later = TopicSettings(default_num_partitions=8)
    told: list[frozenset[str]] = []
    one.configuration.hold(later, told.append)
    one.configuration.hold(later, told.append)
    assert later.default_num_partitions == 3
    await one.configuration.remove(PARTITIONS)
    assert later.default_num_partitions == 8
    assert one.settings.default_num_partitions == 1
    assert len(told) == 3
