"""Key_Shared subscriptions: what `test_dispatch_model` does not cover, above all refusals and stats."""

from typing import Any, cast

import pytest

from magnetar.server.stats.domain_stats import topic_stats
from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.key_shared_dispatcher import KeySharedDispatcher
from magnetar.server.topics.subscriptions.key_shared_rules import hash_of, range_slot
from pulsar_proto.errors import ConsumerAssignFault, ConsumerBusy
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.scene import FakeConnection, Scene, ack, payload, settle

SPLIT: dict[str, Any] = {"subscription_key_shared_use_consistent_hashing": False}


async def sticky(scene: Scene, cnx: FakeConnection, *ranges: tuple[int, int], name: str = "c") -> Consumer:
    meta = pb.KeySharedMeta(
        keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=start, end=end) for start, end in ranges]
    )
    return await scene.consumer(cnx, "Key_Shared", consumer_name=name, keySharedMeta=meta)


def dispatcher_of(scene: Scene) -> KeySharedDispatcher:
    dispatcher = scene.topic.subscriptions["s"].dispatcher
    assert isinstance(dispatcher, KeySharedDispatcher)
    return dispatcher


def keyed(scene: Scene, *keys: bytes) -> None:
    scene.ledger.append_now([payload(key, ordering_key=key) for key in keys])
    scene.topic.new_messages.confirmed()


def keys_split() -> tuple[bytes, bytes]:
    """Returns a key in the lower half of the slots, which the second consumer owns, and one in the upper half, which
    the first one owns."""
    names = [b"%d" % number for number in range(50)]
    lower = next(key for key in names if range_slot(hash_of(key)) <= 32_768)
    return lower, next(key for key in names if range_slot(hash_of(key)) > 32_768)


async def test_consumers_must_agree_about_mode_and_order() -> None:
    scene = Scene()
    await scene.consumer(FakeConnection(), "Key_Shared")
    for meta in (
        pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=0, end=9)]),
        pb.KeySharedMeta(keySharedMode=pb.AUTO_SPLIT, allowOutOfOrderDelivery=True),
    ):
        with pytest.raises(ConsumerBusy, match="Key_Shared policy"):
            await scene.consumer(FakeConnection(), "Key_Shared", keySharedMeta=meta)
    await scene.consumer(FakeConnection(), "Key_Shared", keySharedMeta=pb.KeySharedMeta(keySharedMode=pb.AUTO_SPLIT))


async def test_once_all_have_gone_another_mode_may_come() -> None:
    scene, cnx = Scene(), FakeConnection()
    keyed(scene, b"a", b"b")
    (await scene.consumer(FakeConnection(), "Key_Shared")).close()
    (await sticky(scene, cnx, (0, 65_535))).flow(5)
    assert [each.body for each in cnx.messages] == [b"a", b"b"]


async def test_ranges_that_collide_are_refused_and_nothing_is_left_of_the_attempt() -> None:
    scene = Scene()
    await sticky(scene, FakeConnection(), (0, 100))
    with pytest.raises(ConsumerAssignFault, match="Range conflict"):
        await sticky(scene, FakeConnection(), (100, 200))
    with pytest.raises(ConsumerAssignFault, match="must not be empty"):
        await sticky(scene, FakeConnection())
    assert len(scene.topic.subscriptions["s"].consumers) == 1


async def test_a_dead_connection_gives_its_ranges_to_who_comes_back() -> None:
    scene, dead = Scene(), FakeConnection()
    await sticky(scene, dead, (0, 65_535), name="old")
    dead.is_alive = False
    consumer = await sticky(scene, FakeConnection(), (0, 65_535), name="new")
    assert scene.topic.subscriptions["s"].consumers == [consumer]


async def test_a_key_that_nobody_owns_waits_for_an_owner() -> None:
    scene, low, high = Scene(), FakeConnection(), FakeConnection()
    lower, upper = keys_split()
    (await sticky(scene, low, (0, 32_768))).flow(9)
    keyed(scene, upper, lower, upper)
    assert [each.body for each in low.messages] == [lower]
    (await sticky(scene, high, (32_769, 65_535))).flow(9)
    assert [each.body for each in high.messages] == [upper, upper]


async def test_a_key_drains_before_it_moves_and_stats_say_whom_it_waits_for() -> None:
    scene, first, second = Scene(**SPLIT), FakeConnection(), FakeConnection()
    lower, _ = keys_split()
    old = await scene.consumer(first, "Key_Shared", consumer_name="old")
    old.flow(9)
    keyed(scene, lower, lower)
    new = await scene.consumer(second, "Key_Shared", consumer_name="new")
    new.flow(9)
    keyed(scene, lower)
    assert not second.messages
    subscription = cast(Any, topic_stats(scene.topic))["subscriptions"]["s"]
    assert subscription["keySharedMode"] == "AUTO_SPLIT"
    assert (subscription["drainingHashesCount"], subscription["drainingHashesUnackedMessages"]) == (1, 2)
    stats = {each["consumerName"]: each for each in subscription["consumers"]}
    assert stats["old"]["drainingHashes"] == [
        {"hash": range_slot(hash_of(lower)), "unackMsgs": 2, "blockedAttempts": 1}
    ]
    assert stats["old"]["keyHashRanges"] == ["[32769, 65535]"]
    assert stats["new"]["keyHashRangeArrays"] == [[1, 32_768]]
    ack(old, [Position(10, 0)])
    assert not second.messages
    ack(old, [Position(10, 1)])
    assert [each.position for each in second.messages] == [Position(10, 2)]
    subscription = cast(Any, topic_stats(scene.topic))["subscriptions"]["s"]
    assert (subscription["drainingHashesCount"], subscription["drainingHashesClearedTotal"]) == (0, 1)


async def test_when_reading_ahead_ends_stats_say_why() -> None:
    first, second = FakeConnection(), FakeConnection()
    scene = Scene(
        subscription_key_shared_use_consistent_hashing=False,
        key_shared_look_ahead_msg_in_replay_threshold_per_consumer=2,
        dispatcher_max_read_batch_size=2,
    )
    lower, upper = keys_split()
    await scene.consumer(first, "Key_Shared", consumer_name="takes nothing")
    (await scene.consumer(second, "Key_Shared", consumer_name="takes all")).flow(99)
    keyed(scene, *[upper] * 6, lower)
    await settle()
    assert dispatcher_of(scene).replay
    assert not second.messages
    assert dispatcher_of(scene).why_idle() == "4 entries wait for consumers of their keys that take nothing now"
