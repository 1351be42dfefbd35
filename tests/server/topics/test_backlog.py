"""Skipping, clearing, expiring and peeking, compared with lists of entries, and with consumers connected."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from magnetar.server.topics import backlog
from magnetar.storage.managed.cursor import Cursor
from pulsar_proto.ids import EARLIEST, Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from tests.server.topics.fake_managed_ledger import FakeManagedLedger
from tests.server.topics.scene import FakeConnection, Scene, ack, in_virtual_time, payload, payloads, settle

LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=4)
"""The number of entries in each ledger."""


def ledger_of(lengths: list[int]) -> tuple[Any, list[Position]]:
    """Returns a managed ledger with these entries, and all its positions."""
    ledger = FakeManagedLedger()
    positions: list[Position] = []
    for index, length in enumerate(lengths):
        if index and ledger.ledgers.current_entries:
            ledger.roll_now()
        ledger.append_now(payloads(*[b"m"] * length))
        positions += [Position(ledger.ledgers.current_id, entry) for entry in range(length)]
    return cast(Any, ledger), positions


def cursor_of(ledger: Any, acked: set[Position]) -> Cursor:
    cursor: Cursor = ledger.new_non_durable_cursor(EARLIEST)
    cursor.ack((position.ledger_id, position.entry_id, None) for position in sorted(acked))
    return cursor


@given(LENGTHS, st.data())
def test_the_nth_unacknowledged_entry_is_the_one_that_counting_finds(lengths: list[int], data: st.DataObject) -> None:
    ledger, positions = ledger_of(lengths)
    acked = data.draw(st.sets(st.sampled_from(positions))) if positions else set()
    cursor = cursor_of(ledger, acked)
    left = [position for position in positions if position not in acked]
    for number in range(1, len(positions) + 2):
        expected = left[number - 1] if number <= len(left) else None
        assert backlog.nth_unacknowledged(ledger, cursor, number) == expected


@given(LENGTHS, st.data())
def test_expiring_up_to_a_position_spares_exactly_what_is_kept(lengths: list[int], data: st.DataObject) -> None:
    ledger, positions = ledger_of(lengths)
    if not positions:
        return
    acked = data.draw(st.sets(st.sampled_from(positions)))
    upto = data.draw(st.sampled_from(positions))
    cursor = cursor_of(ledger, acked)
    kept = {each for each in data.draw(st.sets(st.sampled_from(positions))) if cursor.mark_delete < each <= upto}
    bitmaps = {each.ledger_id: BitMap(other.entry_id for other in kept if other[0] == each[0]) for each in kept}
    backlog.acknowledge_upto(ledger, cursor, upto, bitmaps)
    left = {each for each in positions if not cursor.is_acked(*each)}
    assert left == {each for each in positions if each not in acked and (each > upto or each in kept)}


@pytest.mark.parametrize("sub_type", ["Shared", "Key_Shared", "Exclusive", "Failover"])
def test_what_is_skipped_is_not_delivered_and_what_follows_is(sub_type: str) -> None:
    @in_virtual_time
    async def run() -> None:
        scene = Scene()
        cnx = FakeConnection()
        consumer = await scene.consumer(cnx, sub_type)
        scene.ledger.append_now(payloads(*[b"%d" % number for number in range(10)]))
        subscription = scene.topic.subscriptions["s"]
        assert await backlog.skip(subscription, 4) == 4
        consumer.flow(3)
        await settle()
        ack(consumer, [cnx.messages[1].position])
        assert await backlog.skip(subscription, 4) == 4
        consumer.flow(10)
        await settle()
        assert [message.body for message in cnx.messages] == [b"4", b"5", b"6", b"9"]
        assert subscription.cursor.backlog == 1
        assert scene.ledger.stores["s"].stored[-1] == subscription.cursor.mark_delete
        ack(consumer, [message.position for message in cnx.messages[2:]])
        assert subscription.cursor.backlog == 0
        assert consumer.unacked_messages in (0, 1), "what it holds stays with it until it acknowledges"

    run()


@in_virtual_time
async def test_entries_that_were_read_and_not_sent_are_skipped_too() -> None:
    scene = Scene()
    cnx = FakeConnection()
    consumer = await scene.consumer(cnx, "Exclusive")
    consumer.flow(1)
    scene.ledger.append_now(payloads(b"0", b"1", b"2", b"3"))
    subscription = scene.topic.subscriptions["s"]
    subscription.consumer_may_take(consumer)
    await settle()
    assert await backlog.clear(subscription) == 4
    scene.ledger.append_now(payloads(b"4"))
    consumer.flow(10)
    await settle()
    assert [message.body for message in cnx.messages] == [b"0", b"4"]
    assert subscription.cursor.backlog == 1


@in_virtual_time
async def test_only_older_messages_expire() -> None:
    scene = Scene()
    await scene.topic.create_subscription("s", EARLIEST)
    scene.ledger.append_now([payload(b"m", publish_time=time_ms) for time_ms in (1_000, 2_000, 3_000, 9_000)])
    subscription = scene.topic.subscriptions["s"]
    assert await backlog.expire_older(subscription, 7, now_ms=10_000) == 2
    assert await backlog.expire_older(subscription, 7, now_ms=10_000) == 0
    assert await backlog.expire_older(subscription, 7, now_ms=99_000) == 2


def delayed(publish_time: int, deliver_at: int) -> bytes:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=publish_time, deliver_at_time=deliver_at
    )
    return build_payload(metadata, b"later")


@in_virtual_time
async def test_a_message_does_not_expire_before_its_delivery_time() -> None:
    scene = Scene()
    subscription = await scene.topic.create_subscription("s", EARLIEST)
    scene.topic.delayed.clock_ms = lambda: 10_000
    plain = payload(b"m", publish_time=1_000)
    far, near = delayed(1_000, 10**13), delayed(1_000, 50_000)
    scene.ledger.append_now([plain, far, plain, near, plain])
    scene.ledger.roll_now()
    scene.ledger.append_now([plain, far])
    assert await backlog.expire_older(subscription, 7, now_ms=10_000) == 4
    left = [Position(10, 1), Position(10, 3), Position(11, 1)]
    assert [each for each in positions_of(scene) if not subscription.cursor.is_acked(*each)] == left
    reads = len(scene.ledger.reads)
    assert await backlog.expire_older(subscription, 7, now_ms=20_000) == 0
    assert len(scene.ledger.reads) == reads, "what waits is known"
    scene.topic.delayed.index.pop_due(60_000, 10)
    assert await backlog.expire_older(subscription, 7, now_ms=60_000) == 1
    assert await backlog.expire_older(subscription, 7, now_ms=10**14) == 0, "the index still knows better"
    scene.topic.delayed.index.pop_due(10**14, 10)
    assert await backlog.expire_older(subscription, 7, now_ms=10**14) == 2


def positions_of(scene: Scene) -> list[Position]:
    return [Position(ledger, entry) for ledger, each in scene.ledger.entries.items() for entry in range(len(each))]


@in_virtual_time
async def test_peek_and_examine_find_entries_by_number() -> None:
    scene = Scene()
    subscription = await scene.topic.create_subscription("s", EARLIEST)
    scene.ledger.append_now(payloads(b"0", b"1", b"2"))
    subscription.cursor.ack([(10, 1, None)])

    async def peeked(number: int) -> bytes | None:
        found = await backlog.peek(subscription, number)
        return None if found is None else found.payload[-1:]

    async def examined(number: int, *, from_end: bool) -> bytes | None:
        found = await backlog.examine(scene.topic, number, from_end=from_end)
        return None if found is None else found.payload[-1:]

    assert [await peeked(number) for number in (1, 2, 3)] == [b"0", b"2", None]
    assert [await examined(number, from_end=False) for number in (1, 3, 9)] == [b"0", b"2", b"2"]
    assert [await examined(number, from_end=True) for number in (1, 3, 9)] == [b"2", b"0", b"0"]
    found = await backlog.message_at(scene.topic, Position(10, 1))
    assert found is not None
    assert found.payload == payload(b"1")
    assert await backlog.message_at(scene.topic, Position(10, 7)) is None
    assert await backlog.message_at(scene.topic, Position(3, 0)) is None
