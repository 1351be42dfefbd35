"""The rules of SUBSCRIBE, readers, and how a subscription ends (ServerCnx.handleSubscribe,
PersistentTopic.internalSubscribe)."""

import asyncio
from typing import Any, cast

import pytest

from magnetar.server.stats.domain_stats import topic_stats
from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.subscription import Subscription
from magnetar.server.topics.topic import Topic
from magnetar.storage.managed.managed_ledger_errors import MetaStoreFault as StoreFault
from pulsar_proto.errors import (
    ConsumerBusy,
    MetadataFault,
    NotAllowed,
    ProducerBusy,
    PulsarError,
    ServiceNotReady,
    SubscriptionNotFound,
)
from pulsar_proto.ids import EARLIEST, Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.scene import (
    LATEST_INITIAL,
    FakeConnection,
    Scene,
    bodies,
    message_id,
    payload,
    payloads,
    subscription_of,
)


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"subscription": ""}, ProducerBusy, "Empty subscription name"),
        ({"subscription": "  "}, ProducerBusy, "Empty subscription name"),
        ({"subscription": "pulsar.dedup"}, ProducerBusy, "Subscription with reserved subscription name attempted"),
        ({"subscription": "__compaction"}, ProducerBusy, "Subscription with reserved subscription name attempted"),
        ({"subscription": "pulsar.repl.x"}, ProducerBusy, "Subscription with reserved subscription name attempted"),
        ({"sub_type": "Failover"}, NotAllowed, "doesn't support {Failover} sub type"),
        (
            {"sub_type": "Shared", "read_compacted": True},
            NotAllowed,
            "readCompacted only allowed on failover or exclusive subscriptions",
        ),
    ],
)
async def test_what_is_refused(fields: dict[str, object], error: type[PulsarError], text: str) -> None:
    scene = Scene(subscription_types_enabled=("Exclusive", "Shared", "Key_Shared"))
    with pytest.raises(error, match=text):
        await scene.consumer(FakeConnection(), **fields)  # type: ignore[arg-type]
    assert scene.topic.subscriptions == {}


async def test_the_initial_position_matters_only_when_the_subscription_is_created() -> None:
    scene, early, late = Scene(), FakeConnection(), FakeConnection()
    scene.ledger.append_now(payloads(b"a"))
    first = await scene.consumer(early)
    second = await scene.consumer(late, subscription="late", initialPosition=LATEST_INITIAL)
    first.flow(9)
    second.flow(9)
    scene.ledger.append_now(payloads(b"b"))
    first.flow(9)
    second.flow(9)
    assert (bodies(early), bodies(late)) == ([b"a", b"b"], [b"b"])
    second.close()
    again = FakeConnection()
    (await scene.consumer(again, subscription="late")).flow(9)
    assert bodies(again) == [b"b"]


async def test_properties_come_to_a_subscription_that_has_none_and_stay_then() -> None:
    scene = Scene()
    (await scene.consumer(FakeConnection())).close()
    for value in ("first", "second"):
        properties = [pb.KeyValue(key="k", value=value)]
        (await scene.consumer(FakeConnection(), subscription_properties=properties)).close()
    assert scene.topic.subscriptions["s"].cursor.properties == {"k": "first"}


async def test_that_its_state_is_replicated_is_remembered_over_a_seek() -> None:
    scene = Scene()
    scene.ledger.append_now(payloads(b"a", b"b"))

    def told() -> object:
        return cast(Any, topic_stats(scene.topic))["subscriptions"]["s"]["isReplicated"]

    (await scene.consumer(FakeConnection(), replicate_subscription_state=True)).close()
    assert told() is True
    await scene.topic.subscriptions["s"].reset(Position(10, 1))
    (await scene.consumer(FakeConnection())).close()
    assert told() is True
    assert scene.topic.subscriptions["s"].cursor.position_properties == {"pulsar.replicated.subscription": 1}
    (await scene.consumer(FakeConnection(), replicate_subscription_state=False)).close()
    assert told() is False


async def test_more_properties_than_a_subscriptions_record_has_room_for_are_refused() -> None:
    scene = Scene()
    too_large = [pb.KeyValue(key="k", value="v" * 70_000)]
    too_many = [pb.KeyValue(key=str(number), value="") for number in range(1_001)]
    for properties in (too_large, too_many):
        with pytest.raises(NotAllowed, match="properties"):
            await scene.consumer(FakeConnection(), subscription_properties=properties)
    assert not scene.topic.subscriptions


async def test_subscriptions_and_their_properties_are_found_again() -> None:
    scene = Scene()
    properties = [pb.KeyValue(key="k", value="v")]
    await scene.consumer(FakeConnection(), subscription_properties=properties)
    await scene.ledger.open_cursor("pulsar.dedup")
    await scene.ledger.open_cursor("__compaction")
    topic = scene.load()
    assert list(topic.subscriptions) == ["s"]
    assert topic.subscriptions["s"].cursor.properties == {"k": "v"}


async def test_a_subscription_is_made_once_however_many_ask_at_the_same_time() -> None:
    scene = Scene()
    consumers = await asyncio.gather(*(scene.consumer(FakeConnection(), "Shared") for _ in range(5)))
    assert len({consumer.subscription for consumer in consumers}) == 1
    assert len(subscription_of(consumers[0]).consumers) == 5


async def test_without_auto_creation_a_missing_subscription_is_not_found() -> None:
    scene = Scene(allow_auto_subscription_creation=False)
    with pytest.raises(SubscriptionNotFound):
        await scene.consumer(FakeConnection())
    await scene.topic.create_subscription("s", EARLIEST)
    await scene.consumer(FakeConnection())


async def test_limits_of_consumers_and_subscriptions() -> None:
    scene = Scene(max_consumers_per_subscription=1, max_consumers_per_topic=2, max_subscriptions_per_topic=2)
    await scene.consumer(FakeConnection(), "Shared")
    with pytest.raises(ConsumerBusy, match="Subscription reached max consumers limit"):
        await scene.consumer(FakeConnection(), "Shared")
    await scene.consumer(FakeConnection(), "Shared", subscription="other")
    with pytest.raises(ConsumerBusy, match="Topic reached max consumers limit"):
        await scene.consumer(FakeConnection(), "Shared", subscription="third")
    with pytest.raises(NotAllowed, match="maximum number of subscriptions"):
        await scene.topic.create_subscription("third", EARLIEST)


async def test_consumers_of_dead_clients_do_not_count_for_the_limits() -> None:
    scene = Scene(max_consumers_per_subscription=1, max_consumers_per_topic=2)
    dead, alive = FakeConnection("/dead"), FakeConnection("/alive")
    first = await scene.consumer(dead, "Shared")
    dead.is_alive = False
    second = await scene.consumer(alive, "Shared")
    assert first.is_closed
    assert subscription_of(second).consumers == [second]
    dead = FakeConnection("/dead again")
    await scene.consumer(dead, "Shared", subscription="other")
    dead.is_alive = False
    third = await scene.consumer(alive, "Shared", subscription="third")
    assert scene.topic.consumer_count == 2
    assert subscription_of(third).consumers == [third]
    with pytest.raises(ConsumerBusy, match="Topic reached max consumers limit"):
        await scene.consumer(FakeConnection(), "Shared", subscription="fourth")


async def test_a_connection_that_closed_meanwhile_gets_no_consumer() -> None:
    scene, cnx = Scene(), FakeConnection()
    coming = asyncio.ensure_future(scene.consumer(cnx))
    await asyncio.sleep(0)
    cnx.close("gone")
    with pytest.raises(ServiceNotReady):
        await coming
    assert scene.topic.subscriptions["s"].consumers == []


async def test_a_cursor_that_cannot_be_made_is_told() -> None:
    scene = Scene()

    async def fail(*_: object) -> None:
        raise StoreFault("t", "disk full")

    scene.ledger.open_cursor = fail  # type: ignore[assignment]
    with pytest.raises(MetadataFault, match="disk full"):
        await scene.consumer(FakeConnection())
    assert scene.topic.subscriptions == {}


async def test_the_tail_is_cached_only_while_somebody_is_connected() -> None:
    scene = Scene()
    consumer = await scene.consumer(FakeConnection())
    assert scene.ledger.active == {consumer.subscription.cursor}
    consumer.close()
    assert scene.ledger.active == set()


# --- readers


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (message_id(-1, -1), [b"a", b"b", b"c"]),
        (message_id(10, 1), [b"b", b"c"]),
        (message_id(10, 1, batch_index=3), [b"b", b"c"]),
        (message_id(10, 77), []),
        (message_id(99, 0), []),
        (message_id(2**63 - 1, 2**63 - 1), []),
        (message_id(2**63 - 1, 2**48 - 1), []),
        (None, []),
    ],
)
async def test_a_reader_begins_where_it_says(start: pb.MessageIdData | None, expected: list[bytes]) -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b", b"c"))
    consumer = await scene.consumer(cnx, durable=False, start_message_id=start, initialPosition=LATEST_INITIAL)
    consumer.flow(10)
    assert bodies(cnx) == expected
    scene.ledger.append_now(payloads(b"new"))
    consumer.flow(1)
    assert bodies(cnx) == [*expected, b"new"]


async def test_a_reader_s_subscription_ends_with_it() -> None:
    scene = Scene()
    consumer = await scene.consumer(FakeConnection(), durable=False)
    assert scene.ledger.cursors == {}
    await consumer._durable()
    consumer.close()
    assert scene.topic.subscriptions == {}
    assert scene.ledger.released == [consumer.subscription.cursor]


async def test_a_reader_that_was_refused_leaves_nothing_behind() -> None:
    scene, cnx = Scene(), FakeConnection()
    coming = asyncio.ensure_future(scene.consumer(cnx, durable=False))
    cnx.close("gone")
    with pytest.raises(ServiceNotReady):
        await coming
    assert scene.topic.subscriptions == {}


async def test_a_reader_that_its_subscription_does_not_take_leaves_no_subscription(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(self: Subscription, consumer: Consumer) -> None:
        raise ServiceNotReady("not now")

    scene = Scene()
    monkeypatch.setattr(Subscription, "add_consumer", refuse)
    with pytest.raises(ServiceNotReady):
        await scene.consumer(FakeConnection(), durable=False)
    assert scene.topic.subscriptions == {}
    with pytest.raises(ServiceNotReady):
        await scene.consumer(FakeConnection(), subscription="kept")
    assert list(scene.topic.subscriptions) == ["kept"]


async def test_the_last_message_of_a_compacted_reader_is_asked_for_with_its_start_and_cursor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[object, object]] = []

    async def answer(self: Topic, start: Position | None, cursor: object) -> tuple[Position, int, Position]:
        asked.append((start, cursor))
        return Position(10, 4), 2, Position(10, 1)

    scene = Scene()
    start = message_id(10, 3)
    consumer = await scene.consumer(FakeConnection(), durable=False, read_compacted=True, start_message_id=start)
    monkeypatch.setattr(Topic, "last_message_id_compacted", answer)
    assert await consumer.last_message_id() == (Position(10, 4), -1, 2, Position(10, 1))
    assert asked == [(Position(10, 3), consumer.subscription.cursor)]


@pytest.mark.parametrize(("initial", "opened"), [(pb.CommandSubscribe.Earliest, 1), (LATEST_INITIAL, 0)])
async def test_a_compacted_subscription_from_the_beginning_has_a_ledger_to_begin_in(initial: int, opened: int) -> None:
    scene = Scene()
    await scene.consumer(FakeConnection(), read_compacted=True, initialPosition=initial)
    assert scene.ledger.opened == opened
    scene.ledger.open_failure = StoreFault("t", "store gone")
    if opened:
        with pytest.raises(MetadataFault, match="store gone"):
            await scene.consumer(FakeConnection(), subscription="t", read_compacted=True, initialPosition=initial)
        assert "t" not in scene.topic.subscriptions


async def test_durable_and_not_durable_do_not_mix_under_one_name() -> None:
    scene = Scene()
    await scene.consumer(FakeConnection(), "Shared")
    with pytest.raises(NotAllowed, match="Durable subscription with the same name already exists"):
        await scene.consumer(FakeConnection(), "Shared", durable=False)
    await scene.consumer(FakeConnection(), "Shared", durable=False, subscription="r")
    with pytest.raises(NotAllowed, match="NonDurable subscription with the same name already exists"):
        await scene.consumer(FakeConnection(), "Shared", subscription="r")


async def test_a_reader_may_begin_some_time_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("magnetar.server.topics.topic.now_ms", lambda: 100_000)
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_now([payload(b"%d" % at, publish_time=at) for at in (10_000, 50_000, 90_000)])
    consumer = await scene.consumer(cnx, durable=False, start_message_rollback_duration_sec=50)
    consumer.flow(10)
    assert bodies(cnx) == [b"50000", b"90000"]


# --- unsubscribe


async def test_unsubscribing_deletes_the_cursor() -> None:
    scene = Scene()
    consumer = await scene.consumer(FakeConnection())
    await consumer.unsubscribe()
    assert scene.ledger.cursors == {}
    assert scene.topic.subscriptions == {}
    consumer.flow(1)
    consumer.close()
    again = await scene.consumer(FakeConnection())
    assert again.subscription is not consumer.subscription


async def test_only_a_single_consumer_may_unsubscribe_unless_it_forces_the_others_out() -> None:
    scene, mine, other = Scene(), FakeConnection(), FakeConnection()
    consumer = await scene.consumer(mine, "Shared")
    await scene.consumer(other, "Shared")
    with pytest.raises(MetadataFault, match="Unconnected or shared consumer attempting to unsubscribe"):
        await consumer.unsubscribe()
    await consumer.unsubscribe(force=True)
    assert other.kinds == ["CLOSE_CONSUMER"]
    assert mine.kinds == []
    assert scene.topic.subscriptions == {}


async def test_a_cursor_that_cannot_be_deleted_stays_and_the_consumer_comes_back() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await scene.consumer(cnx)
    scene.ledger.stores["s"].failure = StoreFault("t", "disk full")
    with pytest.raises(MetadataFault, match="disk full"):
        await consumer.unsubscribe()
    assert cnx.kinds == ["CLOSE_CONSUMER"]
    assert "s" in scene.topic.subscriptions
    await scene.consumer(cnx)


async def test_nobody_subscribes_to_what_is_being_deleted() -> None:
    scene = Scene()
    consumer = await scene.consumer(FakeConnection())
    leaving = asyncio.ensure_future(consumer.unsubscribe())
    await asyncio.sleep(0)
    with pytest.raises(ServiceNotReady, match="Subscription is fenced"):
        await scene.consumer(FakeConnection())
    await leaving
