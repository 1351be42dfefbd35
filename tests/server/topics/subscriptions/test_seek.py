"""Positions in a topic: where a seek leads, which message is the last one, and which consumers are told that the end is
reached."""

import asyncio

import pytest

from magnetar.server.topics.topic import Topic
from magnetar.storage.managed.managed_ledger_errors import CursorFault, EntryReadFault
from pulsar_proto.errors import ConsumerBusy, PulsarError
from pulsar_proto.ids import EARLIEST, LATEST, Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.scene import (
    LATEST_INITIAL,
    FakeConnection,
    Scene,
    ack,
    bodies,
    in_virtual_time,
    message_id,
    pass_time,
    payload,
    payloads,
    publish,
    seek_command,
    settle,
    subscription_of,
)


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


@pytest.mark.parametrize("fails", ["the cursor's store", "the compacted ledger"])
async def test_a_refused_seek_moves_nothing_and_consumers_may_come_back(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b", b"c"))
    consumer = await scene.consumer(cnx)
    await ack(consumer, [Position(10, 0)], cumulative=True, request_id=1)
    if fails == "the cursor's store":
        scene.ledger.stores["s"].failure = CursorFault("t", "disk full")
    else:

        async def cannot_be_read(_: Topic, position: Position, publish_time_ms: int | None) -> Position:
            await asyncio.sleep(0)
            raise EntryReadFault("t", "disk full")

        monkeypatch.setattr(Topic, "sought", cannot_be_read)
    with pytest.raises(PulsarError, match="disk full"):
        await consumer.seek(seek_command(consumer, message_publish_time=0))
    (await scene.consumer(cnx)).flow(10)
    assert bodies(cnx) == [b"b", b"c"]
    assert scene.ledger.cursors["s"].mark_delete == scene.ledger.stores["s"].stored[-1] == (10, 0)


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


@pytest.mark.parametrize("version", ["Pulsar-CPP-v4.2.0", "Pulsar-Go-0.19.0", "Pulsar-Java-v4.0.7"])
async def test_the_end_is_told_to_clients_that_know_the_command(version: str) -> None:
    """The others close their connection, and come back to be told again."""
    scene, cnx = Scene(), FakeConnection()
    cnx.client_version = version
    await scene.consumer(cnx)
    await scene.topic.terminate()
    assert ("REACHED_END_OF_TOPIC" in cnx.kinds) == version.startswith("Pulsar-Java")
