"""Why some keys of a Key_Shared subscription wait: for whom, since when, and how many entries."""

from magnetar.server.why.reasons import Holds
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.scene import FakeConnection, Scene, ack, in_virtual_time, pass_time, payload, settle
from tests.server.why.why_scene import subscription_reasons


@in_virtual_time
async def test_a_key_waits_for_the_consumer_that_had_it_before() -> None:
    scene = Scene(subscription_key_shared_use_consistent_hashing=False)
    keyed = [payload(b"x", ordering_key=b"%d" % number) for number in range(20)]
    first = await scene.consumer(FakeConnection("/a"), "Key_Shared", consumer_name="first")
    first.flow(100)
    scene.ledger.append_now(keyed)
    scene.topic.new_messages.confirmed()
    await settle()
    (await scene.consumer(FakeConnection("/b"), "Key_Shared", consumer_name="second")).flow(100)
    scene.ledger.append_now(keyed)
    scene.topic.new_messages.confirmed()
    await pass_time(30)
    reason = subscription_reasons(scene.topic)["KEY_HELD_BY_ANOTHER"]
    assert reason.holds is Holds.SOME
    hashes = reason.figures["hashes"]
    assert isinstance(hashes, list)
    assert {each["holder"] for each in hashes} == {"first"}
    assert {each["nextConsumer"] for each in hashes} == {"second"}
    assert {each["holderUnacked"] for each in hashes} == {1}
    assert {round(each["seconds"]) for each in hashes} == {30}
    ack(first, [Position(10, entry) for entry in range(20)])
    await settle()
    assert "KEY_HELD_BY_ANOTHER" not in subscription_reasons(scene.topic)


async def test_keys_wait_for_their_own_consumer_and_then_nothing_further_is_read() -> None:
    scene = Scene(
        key_shared_look_ahead_msg_in_replay_threshold_per_consumer=2,
        key_shared_look_ahead_msg_in_replay_threshold_per_subscription=4,
        dispatcher_max_read_batch_size=3,
    )
    await scene.consumer(FakeConnection("/a"), "Key_Shared", consumer_name="idle")
    (await scene.consumer(FakeConnection("/b"), "Key_Shared", consumer_name="busy")).flow(1_000)
    scene.ledger.append_now([payload(b"x", ordering_key=b"%d" % number) for number in range(100)])
    scene.topic.new_messages.confirmed()
    await settle()
    reasons = subscription_reasons(scene.topic)
    assert reasons["KEY_CONSUMER_TAKES_NOTHING"].holds is Holds.SOME
    assert "idle" in reasons["KEY_CONSUMER_TAKES_NOTHING"].sentence
    assert reasons["LOOK_AHEAD_LIMIT"].holds is Holds.EVERYTHING
    assert reasons["LOOK_AHEAD_LIMIT"].figures["waitingMax"] == 4
    scene.topic.subscriptions["s"].consumers[0].flow(1_000)
    await settle()
    assert {"KEY_CONSUMER_TAKES_NOTHING", "LOOK_AHEAD_LIMIT"}.isdisjoint(subscription_reasons(scene.topic))


async def test_hashes_that_no_consumer_has_chosen() -> None:
    scene = Scene()
    meta = pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=0, end=99)])
    (await scene.consumer(FakeConnection(), "Key_Shared", keySharedMeta=meta)).flow(100)
    scene.ledger.append_now([payload(b"x", ordering_key=b"some key")])
    scene.topic.new_messages.confirmed()
    await settle()
    reason = subscription_reasons(scene.topic)["KEY_WITHOUT_CONSUMER"]
    assert (reason.figures["hashesWithoutConsumer"], reason.figures["entries"]) == (65_536 - 100, 1)
