"""SUBSCRIBE's rules (facts 5.1), readers, and what is done with a whole subscription."""

import asyncio
from typing import Any, cast

import pytest

from pulsar_proto.errors import (
    ConsumerBusy,
    MetadataFault,
    NotAllowed,
    ProducerBusy,
    PulsarError,
    ServiceNotReady,
    SubscriptionNotFound,
)
from pulsar_proto.ids import EARLIEST, LATEST, Position, unsigned64
from pulsar_proto.pb import pulsar_api_pb2 as pb
from storage.managed.errors import CursorFault
from storage.managed.errors import MetadataFault as StoreFault
from tests.server.topics.scene import (
    FakeConnection,
    Scene,
    ack,
    bodies,
    in_virtual_time,
    pass_time,
    payload,
    payloads,
    publish,
    seek_command,
    settle,
    subscription_of,
)

LATEST_INITIAL = pb.CommandSubscribe.Latest


def message_id(ledger_id: int, entry_id: int, batch_index: int | None = None) -> pb.MessageIdData:
    return pb.MessageIdData(ledgerId=unsigned64(ledger_id), entryId=unsigned64(entry_id), batch_index=batch_index)


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
        return cast(Any, scene.topic.stats())["subscriptions"]["s"]["isReplicated"]

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


async def test_durable_and_not_durable_do_not_mix_under_one_name() -> None:
    scene = Scene()
    await scene.consumer(FakeConnection(), "Shared")
    with pytest.raises(NotAllowed, match="Durable subscription with the same name already exists"):
        await scene.consumer(FakeConnection(), "Shared", durable=False)
    await scene.consumer(FakeConnection(), "Shared", durable=False, subscription="r")
    with pytest.raises(NotAllowed, match="NonDurable subscription with the same name already exists"):
        await scene.consumer(FakeConnection(), "Shared", subscription="r")


async def test_a_reader_may_begin_some_time_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.topics.topic.now_ms", lambda: 100_000)
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


# --- seek


async def test_seek_disconnects_and_moves_to_the_message() -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b", b"c"))
    consumer = await scene.consumer(cnx)
    consumer.flow(10)
    ack(consumer, [Position(10, 2)], cumulative=True)
    await consumer.seek(seek_command(consumer, message_id=message_id(10, 1)))
    assert cnx.kinds[-1] == "CLOSE_CONSUMER"
    assert consumer.is_closed
    cnx.forget()
    (await scene.consumer(cnx)).flow(10)
    assert bodies(cnx) == [b"b", b"c"]


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (message_id(-1, -1), [b"a", b"b", b"c"]),
        (message_id(2**63 - 1, 2**63 - 1), []),
        (message_id(10, 50), [b"c"]),
        (message_id(5, 0), [b"a", b"b", b"c"]),
        (message_id(10, 0, batch_index=0), [b"a", b"b", b"c"]),
    ],
)
async def test_seek_reaches_the_ends_and_the_next_existing_message(
    target: pb.MessageIdData, expected: list[bytes]
) -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b"))
    scene.ledger.roll_now()
    scene.ledger.append_now(payloads(b"c"))
    consumer = await scene.consumer(cnx)
    await consumer.seek(seek_command(consumer, message_id=target))
    (await scene.consumer(cnx)).flow(10)
    await settle()
    assert bodies(cnx) == expected


async def test_seek_into_a_batch_leaves_the_named_indexes() -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_now([payload(b"batch", batch=4)])
    consumer = await scene.consumer(cnx)
    target = pb.MessageIdData(ledgerId=10, entryId=0, ack_set=[0b1100])
    await consumer.seek(seek_command(consumer, message_id=target))
    (await scene.consumer(cnx)).flow(10)
    assert [message.ack_set for message in cnx.messages] == [(0b1100,)]


@pytest.mark.parametrize(("time_ms", "expected"), [(0, [b"1", b"2", b"3"]), (25, [b"3"]), (20, [b"2", b"3"]), (31, [])])
async def test_seek_by_time_finds_the_first_message_published_then_or_later(
    time_ms: int, expected: list[bytes]
) -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_now([payload(b"%d" % n, publish_time=10 * n) for n in (1, 2, 3)])
    consumer = await scene.consumer(cnx)
    await consumer.seek(seek_command(consumer, message_publish_time=time_ms))
    (await scene.consumer(cnx)).flow(10)
    assert bodies(cnx) == expected


async def test_a_second_seek_is_refused_and_a_subscriber_waits() -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b"))
    consumer = await scene.consumer(cnx)
    scene.ledger.stores["s"].gate = asyncio.Event()
    seeking = asyncio.ensure_future(consumer.seek(seek_command(consumer, message_id=message_id(10, 1))))
    await settle()
    with pytest.raises(ConsumerBusy, match="Failed to fence subscription"):
        await subscription_of(consumer).reset(EARLIEST)
    coming = asyncio.ensure_future(scene.consumer(cnx))
    await settle()
    assert not coming.done()
    scene.ledger.stores["s"].gate.set()
    await seeking
    (await coming).flow(10)
    assert bodies(cnx) == [b"b"]


async def test_a_failed_seek_is_told_and_consumers_may_come_back() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await scene.consumer(cnx)
    scene.ledger.stores["s"].failure = CursorFault("t", "disk full")
    with pytest.raises(PulsarError, match="disk full"):
        await consumer.seek(seek_command(consumer, message_id=message_id(-1, -1)))
    await scene.consumer(cnx)


@in_virtual_time
async def test_a_reader_s_cursor_survives_its_seek_but_not_its_absence() -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b"))
    reader = await scene.consumer(cnx, durable=False, subscription="r")
    await reader.seek(seek_command(reader, message_id=message_id(10, 1)))
    again = await scene.consumer(cnx, durable=False, subscription="r")
    again.flow(10)
    assert bodies(cnx) == [b"b"]
    await again.seek(seek_command(again, message_id=message_id(10, 1)))
    await pass_time(61)
    assert scene.topic.subscriptions == {}


# --- the last message, and the end


async def test_the_last_message_id_has_a_batch_index_only_for_batches() -> None:
    scene, cnx = Scene("persistent://public/default/t-partition-3"), FakeConnection()
    consumer = await scene.consumer(cnx)
    mark_delete = consumer.subscription.cursor.mark_delete
    assert await consumer.last_message_id() == (EARLIEST, 3, -1, mark_delete)
    scene.ledger.append_now(payloads(b"a"))
    assert await consumer.last_message_id() == (Position(10, 0), 3, -1, mark_delete)
    scene.ledger.append_now([payload(b"b", batch=1)])
    assert await consumer.last_message_id() == (Position(10, 1), 3, 0, mark_delete)
    scene.ledger.cached_from = LATEST
    scene.ledger.append_now([payload(b"c", batch=9)])
    assert await consumer.last_message_id() == (Position(10, 2), 3, 8, mark_delete)
    scene.ledger.append_now([b"damaged"])
    assert await consumer.last_message_id() == (Position(10, 3), 3, -1, mark_delete)


async def test_a_topic_whose_messages_are_all_deleted_has_no_last_message() -> None:
    scene = Scene()
    consumer = await scene.consumer(FakeConnection())
    scene.ledger.append_now(payloads(b"a"))
    scene.ledger.roll_now()
    scene.ledger.trim_now(10)
    assert (await consumer.last_message_id())[0] == EARLIEST


async def test_the_end_is_told_once_after_the_acknowledgement_that_empties_the_subscription() -> None:
    scene, cnx, done = Scene(), FakeConnection(), FakeConnection()
    publish(await scene.producer(FakeConnection()), [b"a"])
    await settle()
    consumer = await scene.consumer(cnx)
    await scene.consumer(done, subscription="done", initialPosition=LATEST_INITIAL)
    consumer.flow(10)
    await scene.topic.terminate()
    assert done.kinds == ["REACHED_END_OF_TOPIC"]
    assert "REACHED_END_OF_TOPIC" not in cnx.kinds
    ack(consumer, [Position(10, 0)])
    ack(consumer, [Position(10, 0)], cumulative=True)
    assert cnx.kinds.count("REACHED_END_OF_TOPIC") == 1
    late = FakeConnection()
    await scene.consumer(late, subscription="late", initialPosition=LATEST_INITIAL)
    await settle()
    assert late.kinds == ["REACHED_END_OF_TOPIC"]


# --- acknowledgements that want an answer


async def test_an_acknowledgement_with_a_request_id_ends_when_it_is_durable() -> None:
    scene = Scene()
    scene.ledger.append_now(payloads(b"a"))
    consumer = await scene.consumer(FakeConnection())
    consumer.flow(1)
    store = scene.ledger.stores["s"]
    store.gate = asyncio.Event()
    assert ack(consumer, [Position(10, 0)]) is None
    durable = asyncio.ensure_future(ack(consumer, [Position(10, 0)], request_id=7))
    await settle()
    assert not durable.done()
    store.gate.set()
    await durable
    assert store.stored[-1] == Position(10, 0)


async def test_an_acknowledgement_that_cannot_be_stored_is_told() -> None:
    scene = Scene()
    scene.ledger.append_now(payloads(b"a"))
    consumer = await scene.consumer(FakeConnection())
    scene.ledger.stores["s"].failure = CursorFault("t", "disk full")
    with pytest.raises(PulsarError, match="disk full"):
        await ack(consumer, [Position(10, 0)], request_id=7)


async def test_transactions_are_refused() -> None:
    scene = Scene()
    consumer = await scene.consumer(FakeConnection())
    with pytest.raises(NotAllowed, match="Transactions are not enabled"):
        consumer.ack(pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, txnid_most_bits=0))


async def test_a_cumulative_acknowledgement_ends_within_a_batch() -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_now([payload(b"a"), payload(b"batch", batch=4)])
    consumer = await scene.consumer(cnx)
    consumer.flow(10)
    ack(consumer, [Position(10, 1)], cumulative=True, ack_set=[0b1100])
    assert consumer.subscription.cursor.mark_delete == Position(10, 0)
    consumer.close()
    cnx.forget()
    (await scene.consumer(cnx)).flow(10)
    assert [(message.body, message.ack_set) for message in cnx.messages] == [(b"batch", (0b1100,))]


async def test_without_batch_index_acknowledgement_it_ends_before_the_batch() -> None:
    scene, cnx = Scene(acknowledgment_at_batch_index_level_enabled=False), FakeConnection()
    scene.ledger.append_now([payload(b"a"), payload(b"batch", batch=4)])
    consumer = await scene.consumer(cnx)
    ack(consumer, [Position(10, 1)], cumulative=True, ack_set=[0b1100])
    assert consumer.subscription.cursor.mark_delete == Position(10, 0)
    assert subscription_of(consumer).cursor.ack_set_of(10, 1) is None
    ack(consumer, [Position(10, 1)], cumulative=True, ack_set=[0])
    assert consumer.subscription.cursor.mark_delete == Position(10, 1)
