"""Which topics exist and which may be created: by namespace, name and limits; and the records of partitioned topics."""

import json
from typing import Any

import pytest

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import to_json
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.namespaces.partitioned_topics import PartitionedTopic, PartitionedTopics
from magnetar.server.topics.partitioned_deletion import delete_partitioned
from magnetar.server.topics.topic_deletion import TopicBusy
from pulsar_proto.errors import MetadataFault, NotAllowed, TopicNotFound
from pulsar_proto.names import TopicName
from tests.server.topics.broker_scene import Broker, make_broker, producer_on
from tests.server.topics.scene import FakeConnection

NAME = TopicName.parse("persistent://public/default/t")
PATH = paths.partitioned_topic_path("public/default", "persistent", "t")
PARTITIONED = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2}


async def with_policies(**policies: Any) -> Broker:
    broker = await make_broker()
    await broker.store.put(paths.policies_path("public/default"), to_json(policies))
    return broker


class TestAutoCreation:
    async def test_a_namespace_outranks_broker_conf(self) -> None:
        broker = await make_broker(allow_auto_topic_creation_type="partitioned", default_num_partitions=3)
        assert await broker.service.catalog.partitions_of(NAME, may_create=True) == 3
        override = {"allowAutoTopicCreation": True, "topicType": "non-partitioned"}
        await broker.store.put(paths.policies_path("public/default"), to_json({"autoTopicCreationOverride": override}))
        other = TopicName.parse("persistent://public/default/other")
        assert await broker.service.catalog.partitions_of(other, may_create=True) == 0

    async def test_partitions_come_with_the_record(self) -> None:
        broker = await with_policies(autoTopicCreationOverride=PARTITIONED)
        catalog = broker.service.catalog
        assert await catalog.partitions_of(NAME, may_create=True) == 2
        assert await catalog.topics_of("public/default") == [f"{NAME.full}-partition-0", f"{NAME.full}-partition-1"]
        assert not await catalog.topic_exists(NAME)
        with pytest.raises(NotAllowed, match="is a partitioned topic"):
            await broker.service.get_for_client(NAME)

    @pytest.mark.parametrize("name", ["t-s-DLQ", "t-s-RETRY", "__change_events", "t-partition-7"])
    async def test_some_names_are_never_partitioned(self, name: str) -> None:
        broker = await with_policies(autoTopicCreationOverride=PARTITIONED)
        topic = TopicName.parse(f"persistent://public/default/{name}")
        assert await broker.service.catalog.partitions_of(topic, may_create=True) == 0
        await broker.service.get_for_client(topic)
        assert await broker.service.catalog.topic_exists(topic)

    async def test_who_does_not_ask_for_it_creates_nothing(self) -> None:
        broker = await with_policies(autoTopicCreationOverride=PARTITIONED)
        with pytest.raises(TopicNotFound):
            await broker.service.catalog.partitions_of(NAME, may_create=False)
        with pytest.raises(TopicNotFound):
            await broker.service.get_for_client(NAME, create=False)
        assert await broker.service.catalog.topics_of("public/default") == []

    async def test_where_it_is_forbidden_only_partitions_and_the_system_s_topics_are_made(self) -> None:
        broker = await with_policies(autoTopicCreationOverride={"allowAutoTopicCreation": False})
        with pytest.raises(TopicNotFound):
            await broker.service.get_for_client(NAME)
        await broker.service.catalog.partitioned.create(NAME, 1)
        await broker.service.get_for_client(NAME.partition(0))
        with pytest.raises(NotAllowed, match="max allowed 1 partitions"):
            await broker.service.get_for_client(NAME.partition(1))
        await broker.service.get_for_client(TopicName.parse("persistent://public/default/__change_events"))

    async def test_nothing_is_made_in_a_namespace_that_is_being_deleted(self) -> None:
        broker = await with_policies(deleted=True)
        with pytest.raises(TopicNotFound):
            await broker.service.get_for_client(NAME)

    async def test_a_namespace_has_a_limit_of_topics_but_not_for_the_system(self) -> None:
        broker = await with_policies(max_topics_per_namespace=2)
        for name in ("a", "b", "__change_events"):
            await broker.service.get_for_client(TopicName.parse(f"persistent://public/default/{name}"))
        with pytest.raises(NotAllowed, match="Exceed maximum number of topics"):
            await broker.service.get_for_client(NAME)
        await broker.service.get_for_client(TopicName.parse("persistent://public/default/a"))


class TestDeletion:
    async def test_it_takes_the_partitions_and_then_the_record(self) -> None:
        broker = await make_broker()
        catalog = broker.service.catalog
        await catalog.create_partitioned(NAME, 3)
        await broker.service.get_for_client(NAME.partition(1))
        await delete_partitioned(broker.service, NAME)
        assert await catalog.topics_of("public/default") == []
        assert await catalog.partitioned.get(NAME) is None
        with pytest.raises(TopicNotFound):
            await delete_partitioned(broker.service, NAME)

    async def test_one_in_use_stays_whole(self) -> None:
        broker = await make_broker()
        await broker.service.catalog.create_partitioned(NAME, 3)
        await producer_on(await broker.service.get_topic(NAME.partition(2), create=True), FakeConnection())
        with pytest.raises(TopicBusy):
            await delete_partitioned(broker.service, NAME)
        assert await broker.service.catalog.partitioned.get(NAME) == PartitionedTopic(3)
        assert len(await broker.service.catalog.topics_of("public/default")) == 3
        await delete_partitioned(broker.service, NAME, force=True)

    async def test_a_partition_of_one_that_is_being_deleted_is_not_made_again(self) -> None:
        broker = await make_broker()
        await broker.service.catalog.partitioned.create(NAME, 1)
        await broker.service.catalog.partitioned.update(NAME, deleted=True)
        with pytest.raises(TopicNotFound):
            await broker.service.get_for_client(NAME.partition(0))


class TestRecords:
    async def test_answers_are_kept_until_the_record_changes(self) -> None:
        store = MemoryStore()
        await store.create(paths.PARTITIONED_TOPICS, make_parents=True)
        topics = PartitionedTopics(store)
        topics.start()
        assert await topics.get(NAME) is None
        await store.create(PATH, b'{"partitions":2,"deleted":false}', make_parents=True)
        kept: list[Any] = []

        async def look() -> None:
            kept[:] = [await topics.get(NAME)]

        await until_async(look, lambda: kept == [PartitionedTopic(2)])
        await store.put(PATH, b'{"partitions":5,"deleted":false}')
        await until_async(look, lambda: kept == [PartitionedTopic(5)])

    async def test_a_change_keeps_what_it_does_not_name(self) -> None:
        store = MemoryStore()
        value = b'{"partitions":2,"deleted":false,"properties":{"a":"1","b":"2"},"later":[1]}'
        await store.create(PATH, value, make_parents=True)
        topics = PartitionedTopics(store)
        await topics.update(NAME, partitions=4, properties={"a": None, "c": "3"})
        record = await store.get(PATH)
        assert record is not None
        assert json.loads(record.value) == {
            "partitions": 4,
            "deleted": False,
            "properties": {"b": "2", "c": "3"},
            "later": [1],
        }
        await topics.update(NAME, partitions=1)
        assert (await topics.get(NAME) or PartitionedTopic(0)).partitions == 4, "it never shrinks"
        assert await topics.update(NAME.base.partition(0), partitions=9) is None

    async def test_it_is_made_once(self) -> None:
        store = MemoryStore()
        topics = PartitionedTopics(store)
        assert await topics.create(NAME, 2, {"a": "b"})
        assert not await topics.create(NAME, 3)
        assert await topics.get(NAME) == PartitionedTopic(2, properties={"a": "b"})
        assert await topics.names("public/default", "persistent") == [NAME.full]
        assert await topics.names("public/nope", "persistent") == []
        await topics.delete(NAME)
        await topics.delete(NAME)
        assert await topics.get(NAME) is None

    @pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"partitions":"x"}', b"\xff"])
    async def test_a_damaged_record_is_told(self, value: bytes) -> None:
        store = MemoryStore()
        await store.create(PATH, value, make_parents=True)
        with pytest.raises(MetadataFault, match="not the record of a partitioned topic"):
            await PartitionedTopics(store).get(NAME)


async def until_async(look: Any, condition: Any) -> None:
    for _ in range(1_000):
        await look()
        if condition():
            return
    raise AssertionError("it never came")
