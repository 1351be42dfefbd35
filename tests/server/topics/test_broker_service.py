"""A broker's topics are loaded once, found by their records, closed and deleted."""

import asyncio
import re

import pytest

from magnetar.metadata import paths
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.topics.topic_deletion import TopicBusy
from magnetar.storage.managed.managed_ledger_errors import AppendFault, ManagedLedgerFenced
from magnetar.storage.managed.managed_ledger_errors import MetaStoreFault as StoreFault
from pulsar_proto.errors import MetadataFault, NotAllowed, PulsarError, ServiceNotReady, TopicNotFound, UnknownFault
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.broker_scene import NAME, Broker, make_broker, producer_on
from tests.server.topics.scene import FakeConnection, in_virtual_time, settle


async def test_a_topic_is_loaded_once_however_many_ask() -> None:
    broker = await make_broker()
    broker.factory.gate = asyncio.Event()
    asking = [asyncio.ensure_future(broker.service.get_topic(NAME, create=True)) for _ in range(5)]
    await settle()
    asking[0].cancel()
    broker.factory.gate.set()
    topics = [await each for each in asking[1:]]
    assert len(set(topics)) == 1
    assert broker.factory.opened == ["public/default/persistent/t"]
    assert broker.service.loaded(NAME) is topics[0]
    assert await broker.service.get_topic(NAME, create=False) is topics[0]


async def test_what_does_not_exist_is_not_found() -> None:
    broker = await make_broker()
    with pytest.raises(TopicNotFound, match=re.escape("Topic persistent://public/default/t not found")):
        await broker.service.get_topic(NAME, create=False)
    with pytest.raises(TopicNotFound, match="Namespace not found"):
        await broker.service.get_topic(TopicName.parse("persistent://no/where/t"), create=True)
    with pytest.raises(NotAllowed):
        await broker.service.get_topic(TopicName.parse("non-persistent://public/default/t"), create=True)
    assert broker.factory.opened == []


async def test_a_stored_topic_is_found_without_creation() -> None:
    broker = await make_broker()
    await broker.store.create(paths.managed_ledger_path(NAME.managed_ledger_name), make_parents=True)
    assert await broker.service.catalog.topic_exists(NAME)
    assert (await broker.service.get_topic(NAME, create=False)).name is NAME


async def test_one_who_may_not_create_is_not_kept_from_a_topic_that_is_being_created() -> None:
    broker = await make_broker()
    broker.factory.gate = asyncio.Event()
    creating = asyncio.ensure_future(broker.service.get_topic(NAME, create=True))
    await settle()
    other = asyncio.ensure_future(broker.service.get_topic(NAME, create=False))
    await settle()
    broker.factory.gate.set()
    assert await other is await creating


async def test_a_load_that_fails_is_told_and_tried_again_by_the_next_one() -> None:
    broker = await make_broker()
    broker.factory.failure = AppendFault("t", "disk full")
    with pytest.raises(PulsarError, match="disk full"):
        await broker.service.get_topic(NAME, create=True)
    broker.factory.failure = None
    assert (await broker.service.get_topic(NAME, create=True)).is_open


@in_virtual_time
async def test_who_waits_too_long_is_told_to_come_again_while_the_load_goes_on() -> None:
    broker = await make_broker(topic_load_timeout_seconds=5)
    broker.factory.gate = asyncio.Event()
    with pytest.raises(UnknownFault, match="Failed to load topic within timeout"):
        await broker.service.get_topic(NAME, create=True)
    broker.factory.gate.set()
    await settle()
    assert broker.service.loaded(NAME) is not None


async def test_topics_of_a_namespace_are_listed_by_their_full_names() -> None:
    broker = await make_broker()
    assert await broker.service.catalog.topics_of("public/default") == []
    for name in ("b c", "a-partition-1", "ä"):
        full = TopicName.parse(f"persistent://public/default/{name}")
        await broker.service.get_topic(full, create=True)
    assert await broker.service.catalog.topics_of("public/default") == [
        "persistent://public/default/a-partition-1",
        "persistent://public/default/b c",
        "persistent://public/default/ä",
    ]


async def test_partitions_are_those_of_the_record() -> None:
    broker = await make_broker(allow_auto_topic_creation=False)
    catalog = broker.service.catalog
    with pytest.raises(TopicNotFound):
        await catalog.partitions_of(NAME, may_create=True)
    path = paths.partitioned_topic_path("public/default", "persistent", "t")
    await broker.store.create(path, b'{"partitions":3,"deleted":false}', make_parents=True)
    assert await catalog.partitions_of(NAME, may_create=False) == 3
    await broker.store.put(path, b"[]")
    with pytest.raises(MetadataFault):
        await catalog.partitions_of(NAME, may_create=False)


async def test_generated_names_are_unique_over_restarts() -> None:
    broker = await make_broker()
    await broker.service.warm_up()
    names = [broker.service.new_producer_name() for _ in range(2)]
    assert names == ["standalone-0-0", "standalone-0-1"]
    again = Broker(broker.store)
    await again.service.warm_up()
    assert again.service.new_producer_name() == "standalone-1-0"
    await broker.service.close()
    await again.service.close()


async def test_unloading_disconnects_clients_who_then_load_it_anew() -> None:
    broker, cnx = await make_broker(), FakeConnection()
    topic = await broker.service.get_topic(NAME, create=True)
    await producer_on(topic, cnx)
    unloading = asyncio.ensure_future(broker.service.unload(topic))
    await asyncio.sleep(0)
    coming_back = asyncio.ensure_future(broker.service.get_topic(NAME, create=True))
    await unloading
    assert cnx.kinds == ["CLOSE_PRODUCER"]
    with pytest.raises(ServiceNotReady):
        await producer_on(topic, cnx)
    again = await coming_back
    assert again is not topic
    assert again.is_open
    await broker.service.unload(topic)
    assert broker.service.loaded(NAME) is again


async def test_a_topic_whose_log_was_lost_is_closed_and_loaded_anew() -> None:
    broker, cnx = await make_broker(), FakeConnection()
    topic = await broker.service.get_topic(NAME, create=True)
    await producer_on(topic, cnx)
    topic.lost_ledger(ManagedLedgerFenced("t", "owned by another broker"))
    assert broker.service.loaded(NAME) is None
    assert (await broker.service.get_topic(NAME, create=True)) is not topic
    assert cnx.kinds == ["CLOSE_PRODUCER"]


async def test_only_an_unused_topic_is_deleted_without_force() -> None:
    broker, cnx = await make_broker(), FakeConnection()
    with pytest.raises(TopicNotFound):
        await broker.service.delete_topic(NAME)
    topic = await broker.service.get_topic(NAME, create=True)
    producer = await producer_on(topic, cnx)
    with pytest.raises(TopicBusy):
        await broker.service.delete_topic(NAME)
    producer.close()
    subscribe = pb.CommandSubscribe(
        topic=NAME.full, subscription="s", subType=pb.CommandSubscribe.Exclusive, consumer_id=1, request_id=1
    )
    await topic.subscribe(cnx, subscribe)
    with pytest.raises(TopicBusy):
        await broker.service.delete_topic(NAME)
    await broker.service.delete_topic(NAME, force=True)
    assert cnx.kinds == ["CLOSE_CONSUMER"]
    assert not await broker.service.catalog.topic_exists(NAME)


async def test_a_topic_that_is_asked_for_while_it_is_deleted_is_a_new_one() -> None:
    broker = await make_broker()
    topic = await broker.service.get_topic(NAME, create=True)
    deleting = asyncio.ensure_future(broker.service.delete_topic(NAME))
    await asyncio.sleep(0)
    again = await broker.service.get_topic(NAME, create=True)
    await deleting
    assert again is not topic
    assert await broker.factory.exists(NAME.managed_ledger_name)


async def test_who_may_not_create_does_not_bring_a_topic_back_that_is_being_deleted() -> None:
    """When a namespace is deleted by force, its clients come back at once, while their topic is being deleted."""
    broker = await make_broker()
    await broker.service.get_topic(NAME, create=True)
    deleting = asyncio.ensure_future(broker.service.delete_topic(NAME))
    await settle(1)
    with pytest.raises(TopicNotFound):
        await broker.service.get_topic(NAME, create=False)
    await deleting
    assert not await broker.factory.exists(NAME.managed_ledger_name)
    assert broker.service.loaded(NAME) is None


async def test_a_topic_that_was_loaded_while_somebody_looked_whether_it_exists_is_not_loaded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = await make_broker()
    await broker.store.create(paths.managed_ledger_path(NAME.managed_ledger_name), make_parents=True)
    looked, go_on = broker.service.catalog.topic_exists, asyncio.Event()

    async def slowly(name: TopicName) -> bool:
        found = await looked(name)
        await go_on.wait()
        return found

    monkeypatch.setattr(broker.service.catalog, "topic_exists", slowly)
    late = asyncio.ensure_future(broker.service.get_topic(NAME, create=False))
    await settle()
    monkeypatch.setattr(broker.service.catalog, "topic_exists", looked)
    topic = await broker.service.get_topic(NAME, create=False)
    go_on.set()
    assert await late is topic
    assert broker.factory.opened == [NAME.managed_ledger_name]


async def test_a_topic_that_cannot_be_deleted_is_told_and_can_be_loaded(caplog: pytest.LogCaptureFixture) -> None:
    broker = await make_broker()
    await broker.service.get_topic(NAME, create=True)

    async def fail(name: str) -> None:
        raise StoreFault(name, "disk full")

    broker.factory.delete = fail  # type: ignore[method-assign]
    with pytest.raises(MetadataFault, match="disk full"):
        await broker.service.delete_topic(NAME)
    assert "closing failed" in caplog.text
    assert (await broker.service.get_topic(NAME, create=False)).is_open


async def test_closing_closes_all_topics_and_loads_no_more() -> None:
    broker = await make_broker()
    await broker.service.warm_up()
    for name in ("a", "b"):
        await broker.service.get_topic(TopicName.parse(name), create=True)
    broker.factory.gate = asyncio.Event()
    late = asyncio.ensure_future(broker.service.get_topic(TopicName.parse("late"), create=True))
    await settle()
    closing = asyncio.ensure_future(broker.service.close())
    await settle()
    broker.factory.gate.set()
    await closing
    with pytest.raises(ServiceNotReady):
        await late
    with pytest.raises(ServiceNotReady):
        await broker.service.get_topic(NAME, create=True)
    assert sorted(broker.factory.closed) == [f"public/default/persistent/{name}" for name in ("a", "b", "late")]
    await broker.service.close()


async def test_the_metadata_s_fault_is_told() -> None:
    broker = await make_broker()
    await broker.store.close()
    with pytest.raises(MetadataFault):
        await broker.service.get_topic(NAME, create=True)


async def test_settings_are_checked() -> None:
    with pytest.raises(ValueError, match="dispatcher_max_read_batch_size is 0"):
        TopicSettings(dispatcher_max_read_batch_size=0)
    with pytest.raises(ValueError, match="max_producers_per_topic is -1"):
        TopicSettings(max_producers_per_topic=-1)
    with pytest.raises(ValueError, match="unknown types: Round"):
        TopicSettings(subscription_types_enabled=("Shared", "Round"))
