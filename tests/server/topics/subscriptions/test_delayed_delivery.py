"""Every subscription that obeys delays passes over the delayed messages of a topic until they are due."""

import asyncio
from typing import Any, cast

import pytest

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.stats.domain_stats import topic_stats
from magnetar.server.topics.subscriptions.delay_index import DelayIndex
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.scene import FakeConnection, Scene, ack, bodies, in_virtual_time, pass_time, payload, settle

OBEDIENT = pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])


def scene_in_virtual_time(**settings: Any) -> Scene:
    scene = Scene(**settings)
    loop = asyncio.get_running_loop()
    scene.topic.delayed.clock_ms = lambda: round(loop.time() * 1000)
    return scene


def publish(scene: Scene, *messages: tuple[bytes, int]) -> None:
    """Publishes messages, each given as (body, when it is due in ms); 0 stands for no delay."""
    scene.ledger.append_now(
        [
            payload(body, deliver_at_time=due_ms, ordering_key=body) if due_ms else payload(body, ordering_key=body)
            for body, due_ms in messages
        ]
    )
    scene.topic.new_messages.confirmed()


@OBEDIENT
@in_virtual_time
async def test_a_message_comes_at_its_time_to_the_millisecond(kind: str) -> None:
    scene, cnx = scene_in_virtual_time(), FakeConnection()
    consumer = await scene.consumer(cnx, kind)
    consumer.flow(10)
    publish(scene, (b"later", 5_003), (b"now", 0), (b"soon", 1_007))
    assert bodies(cnx) == [b"now"]
    assert consumer.permits == 9
    await pass_time(1.006)
    assert bodies(cnx) == [b"now"]
    await pass_time(0.001)
    assert bodies(cnx) == [b"now", b"soon"]
    await pass_time(3.996)
    assert bodies(cnx) == [b"now", b"soon", b"later"]


@OBEDIENT
@in_virtual_time
async def test_one_index_serves_all_subscriptions_and_who_comes_later(kind: str) -> None:
    scene, first, second = scene_in_virtual_time(), FakeConnection(), FakeConnection()
    (await scene.consumer(first, kind, subscription="one")).flow(10)
    publish(scene, *((b"%d" % number, 1_000) for number in range(5)), (b"x", 0))
    await settle()
    scene.ledger.cached_from = Position(10**9, 0)
    scene.ledger.reads.clear()
    (await scene.consumer(second, kind, subscription="two")).flow(10)
    await settle()
    assert bodies(second) == [b"x"]
    assert scene.ledger.reads == [(Position(10, 5), 100)], "delayed ones are known: they are not read"
    assert len(scene.topic.delayed.index) == 5
    stats = cast(Any, topic_stats(scene.topic))
    assert stats["delayedMessageIndexSizeInBytes"] > 0
    for name in ("one", "two"):
        assert stats["subscriptions"][name]["msgDelayed"] == 5
        assert stats["subscriptions"][name]["msgBacklogNoDelayed"] == 1
    await pass_time(1)
    assert sorted(bodies(first)) == sorted(bodies(second)) == [b"0", b"1", b"2", b"3", b"4", b"x"]
    assert cast(Any, topic_stats(scene.topic))["subscriptions"]["one"]["msgDelayed"] == 0


@OBEDIENT
@in_virtual_time
async def test_without_consumers_nothing_is_lost(kind: str) -> None:
    scene, cnx = scene_in_virtual_time(), FakeConnection()
    consumer = await scene.consumer(FakeConnection(), kind)
    consumer.flow(10)
    publish(scene, (b"a", 1_000), (b"b", 9_000))
    consumer.close()
    await pass_time(2)
    (await scene.consumer(cnx, kind)).flow(10)
    await settle()
    assert bodies(cnx) == [b"a"]
    await pass_time(7)
    assert bodies(cnx) == [b"a", b"b"]


@OBEDIENT
@in_virtual_time
async def test_what_was_acknowledged_before_its_time_does_not_come(kind: str) -> None:
    scene, cnx = scene_in_virtual_time(), FakeConnection()
    consumer = await scene.consumer(cnx, kind)
    consumer.flow(10)
    publish(scene, (b"a", 1_000), (b"b", 1_000))
    ack(consumer, [Position(10, 0)])
    await pass_time(1)
    assert bodies(cnx) == [b"b"]


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
@in_virtual_time
async def test_one_active_consumer_does_not_wait(kind: str) -> None:
    scene, cnx = scene_in_virtual_time(), FakeConnection()
    (await scene.consumer(cnx, kind)).flow(10)
    await settle()
    publish(scene, (b"a", 1_000))
    assert bodies(cnx) == [b"a"]


@OBEDIENT
@in_virtual_time
async def test_switched_off_by_policy_everything_comes_at_once(kind: str) -> None:
    scene, cnx = scene_in_virtual_time(), FakeConnection()
    (await scene.consumer(cnx, kind)).flow(10)
    publish(scene, (b"a", 1_000))
    scene.topic.set_policies(EffectivePolicies(delayed_delivery_enabled=False))
    await settle()
    assert bodies(cnx) == [b"a"]
    publish(scene, (b"b", 1_000))
    assert bodies(cnx) == [b"a", b"b"]
    scene.topic.set_policies(EffectivePolicies(delayed_delivery_enabled=True))
    publish(scene, (b"c", 1_000))
    assert bodies(cnx) == [b"a", b"b"]


@OBEDIENT
@in_virtual_time
async def test_when_too_many_wait_reading_goes_on_as_they_become_due(kind: str) -> None:
    scene, cnx = scene_in_virtual_time(), FakeConnection()
    scene.topic.delayed.index = DelayIndex(2)
    (await scene.consumer(cnx, kind)).flow(10)
    publish(scene, (b"a", 1_000), (b"b", 2_000), (b"c", 3_000), (b"d", 0))
    assert bodies(cnx) == []
    dispatcher = scene.topic.subscriptions["s"].dispatcher
    assert dispatcher is not None
    assert "2 delayed messages wait" in dispatcher.why_idle()
    await pass_time(1)
    assert sorted(bodies(cnx)) == [b"a", b"d"]
    await pass_time(2)
    assert sorted(bodies(cnx)) == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize("kind", ["Exclusive", "Shared", "Key_Shared"])
async def test_markers_are_for_brokers_and_acknowledged(kind: str) -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_now([payload(b"a"), payload(b"commit", marker_type=21), payload(b"b")])
    consumer = await scene.consumer(cnx, kind)
    consumer.flow(10)
    await settle()
    assert bodies(cnx) == [b"a", b"b"]
    ack(consumer, [Position(10, 0), Position(10, 2)])
    assert consumer.subscription.cursor.backlog == 0
    assert pb.MessageMetadata.DESCRIPTOR.fields_by_name["marker_type"].number == 20


@in_virtual_time
async def test_a_delayed_message_beside_half_an_acknowledged_batch_waits_too() -> None:
    scene, cnx = scene_in_virtual_time(), FakeConnection()
    scene.ledger.append_now([payload(b"later", deliver_at_time=1_000), payload(b"batch", batch=3)])
    consumer = await scene.consumer(cnx, "Shared")
    ack(consumer, [Position(10, 1)], ack_set=[1])
    consumer.flow(5)
    await settle()
    assert bodies(cnx) == [b"batch"]
    await pass_time(1)
    assert bodies(cnx) == [b"batch", b"later"]
