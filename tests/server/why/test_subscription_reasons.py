"""Each reason why a subscription gets nothing: provoked, told with its figures, removed, and then not told any more."""

import asyncio
from typing import Any

import pytest

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.policies.policy_values import DispatchRate
from magnetar.server.topics.non_persistent.topic import NonPersistentTopic
from magnetar.server.topics.subscriptions.delay_index import DelayIndex
from magnetar.server.topics.topic import Topic
from magnetar.server.why.reasons import Holds
from pulsar_proto.errors import IncompatibleSchema
from pulsar_proto.ids import EARLIEST, Position
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.scene import (
    FakeConnection,
    Scene,
    ack,
    in_virtual_time,
    pass_time,
    payload,
    redeliver,
    seek_command,
    settle,
)
from tests.server.topics.subscriptions.shared_scene import numbers
from tests.server.why.why_scene import subscription_reasons

NOT_IN_MEMORY = Position(10**9, 0)


async def test_nothing_stands_in_the_way_of_a_consumer_that_asks_and_there_is_nothing_to_read() -> None:
    scene = Scene()
    consumer = await scene.consumer(FakeConnection(), "Shared")
    consumer.flow(10)
    (reason,) = subscription_reasons(scene.topic).values()
    assert (reason.code, reason.holds) == ("NOTHING_TO_READ", Holds.NOTHING)


async def test_the_end_of_a_terminated_topic_is_told() -> None:
    scene = Scene()
    (await scene.consumer(FakeConnection(), "Shared")).flow(10)
    await scene.topic.terminate()
    assert "terminated" in subscription_reasons(scene.topic)["NOTHING_TO_READ"].sentence


async def test_no_consumer_is_connected() -> None:
    scene = Scene()
    await scene.topic.make_subscription("s")
    scene.ledger.append_now(numbers(1))
    assert list(subscription_reasons(scene.topic)) == ["NO_CONSUMER"]
    (await scene.consumer(FakeConnection())).flow(1)
    assert "NO_CONSUMER" not in subscription_reasons(scene.topic)


@pytest.mark.parametrize("kind", ["Exclusive", "Failover", "Shared", "Key_Shared"])
async def test_a_consumer_that_does_not_ask_is_named_with_its_permits(kind: str) -> None:
    scene = Scene()
    scene.ledger.append_now([payload(b"x", batch=5), payload(b"x", batch=5)])
    consumer = await scene.consumer(FakeConnection(), kind, consumer_name="billing-1")
    consumer.flow(2)
    await settle()
    reason = subscription_reasons(scene.topic)["NO_PERMITS"]
    assert reason.holds is Holds.EVERYTHING
    assert "billing-1 (-3)" in reason.sentence
    assert "more than was asked for" in reason.sentence
    consumer.flow(4)
    await settle()
    assert "NO_PERMITS" in subscription_reasons(scene.topic), "the second batch took them"
    consumer.flow(5)
    assert "NO_PERMITS" not in subscription_reasons(scene.topic)


async def test_one_shared_consumer_without_permits_holds_nothing_back_while_another_takes_messages() -> None:
    scene = Scene()
    await scene.consumer(FakeConnection("/a"), "Shared", consumer_name="idle")
    (await scene.consumer(FakeConnection("/b"), "Shared", consumer_name="busy")).flow(5)
    reason = subscription_reasons(scene.topic)["NO_PERMITS"]
    assert reason.holds is Holds.NOTHING
    assert "idle (0)" in reason.sentence
    assert "busy" not in reason.sentence


async def test_a_consumer_at_its_limit_of_unacknowledged_messages() -> None:
    scene = Scene(max_unacked_messages_per_consumer=4)
    scene.ledger.append_now(numbers(10))
    consumer = await scene.consumer(FakeConnection(), "Shared")
    consumer.flow(100)
    await settle()
    reason = subscription_reasons(scene.topic)["CONSUMER_UNACKED_LIMIT"]
    assert reason.holds is Holds.EVERYTHING
    assert "c 4 of 4" in reason.sentence
    ack(consumer, [Position(10, entry) for entry in range(4)])
    assert "CONSUMER_UNACKED_LIMIT" in subscription_reasons(scene.topic), "the next four came at once"
    scene.topic.set_policies(EffectivePolicies(max_unacked_messages_per_consumer=0))
    await settle()
    assert "CONSUMER_UNACKED_LIMIT" not in subscription_reasons(scene.topic)


async def test_a_subscription_at_its_limit_of_unacknowledged_messages() -> None:
    scene = Scene(max_unacked_messages_per_subscription=3)
    scene.ledger.append_now(numbers(10))
    consumers = [await scene.consumer(FakeConnection(f"/{name}"), "Shared") for name in "ab"]
    for consumer in consumers:
        consumer.flow(100)
    await settle()
    reason = subscription_reasons(scene.topic)["SUBSCRIPTION_UNACKED_LIMIT"]
    assert reason.holds is Holds.EVERYTHING
    assert reason.figures == {"unackedMessages": 3, "unackedMessagesMax": 3}
    scene.topic.set_policies(EffectivePolicies(max_unacked_messages_per_subscription=100))
    await settle()
    assert "SUBSCRIPTION_UNACKED_LIMIT" not in subscription_reasons(scene.topic)


async def test_a_client_that_does_not_read_its_connection() -> None:
    scene, cnx = Scene(), FakeConnection("/10.0.0.7:4711")
    scene.ledger.append_now(numbers(3))
    consumer = await scene.consumer(cnx, "Exclusive")
    cnx.is_writable = False
    consumer.flow(10)
    reason = subscription_reasons(scene.topic)["CONNECTION_NOT_READ"]
    assert reason.holds is Holds.EVERYTHING
    assert "/10.0.0.7:4711" in reason.sentence
    cnx.become_writable()
    assert "CONNECTION_NOT_READ" not in subscription_reasons(scene.topic)


async def test_all_of_the_backlog_is_delivered_and_not_acknowledged() -> None:
    """github.com/apache/pulsar/issues/14082"""
    scene = Scene()
    scene.ledger.append_now(numbers(24))
    consumer = await scene.consumer(FakeConnection(), "Shared")
    consumer.flow(100)
    await settle()
    reason = subscription_reasons(scene.topic)["DELIVERED_NOT_ACKNOWLEDGED"]
    assert reason.sentence.startswith("24 of 24 entries of the backlog were delivered and are not acknowledged")
    redeliver(consumer, [])
    assert "DELIVERED_NOT_ACKNOWLEDGED" in subscription_reasons(scene.topic), "they came again"
    ack(consumer, [Position(10, entry) for entry in range(24)])
    assert list(subscription_reasons(scene.topic)) == ["NOTHING_TO_READ"]


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
async def test_what_one_active_consumer_has_is_told_from_positions(kind: str) -> None:
    scene = Scene()
    scene.ledger.append_now(numbers(10))
    consumer = await scene.consumer(FakeConnection(), kind)
    await settle()
    consumer.flow(6)
    await settle()
    ack(consumer, [Position(10, 1)], cumulative=True)
    reasons = subscription_reasons(scene.topic)
    assert "DELIVERED_NOT_ACKNOWLEDGED" not in reasons, "four entries wait for permits"
    consumer.flow(4)
    figures = subscription_reasons(scene.topic)["DELIVERED_NOT_ACKNOWLEDGED"].figures
    assert (figures["delivered"], figures["backlog"]) == (8, 8)


@in_virtual_time
async def test_delayed_messages_are_counted_and_the_next_one_that_is_due_is_told() -> None:
    scene = Scene()
    now_ms = scene.topic.delayed.clock_ms()
    later = [payload(b"x", deliver_at_time=now_ms + minutes * 60_000) for minutes in (9, 5, 7)]
    scene.ledger.append_now([*later, *numbers(1)])
    consumer = await scene.consumer(FakeConnection(), "Shared")
    consumer.flow(10)
    await settle()
    reason = subscription_reasons(scene.topic)["DELAYED"]
    assert reason.figures == {"delayed": 3, "backlog": 4, "nextDueMs": now_ms + 5 * 60_000}
    assert "the next one is due in 5 min" in reason.sentence or "in 4 min 59 s" in reason.sentence
    ack(consumer, [Position(10, 1)])
    assert subscription_reasons(scene.topic)["DELAYED"].figures["nextDueMs"] == now_ms + 7 * 60_000
    scene.topic.delayed.enable(False)
    await settle()
    assert "DELAYED" not in subscription_reasons(scene.topic)


async def test_more_delayed_messages_than_are_remembered() -> None:
    scene = Scene()
    scene.topic.delayed.index = DelayIndex(entries_max=2)
    now_ms = scene.topic.delayed.clock_ms()
    scene.ledger.append_now([payload(b"x", deliver_at_time=now_ms + 60_000) for _ in range(5)])
    (await scene.consumer(FakeConnection(), "Shared")).flow(10)
    await settle()
    assert subscription_reasons(scene.topic)["TOO_MANY_DELAYED"].holds is Holds.EVERYTHING


@pytest.mark.parametrize(
    ("policy", "code"),
    [("dispatch_rate", "TOPIC_DISPATCH_RATE"), ("subscription_dispatch_rate", "SUBSCRIPTION_DISPATCH_RATE")],
)
@in_virtual_time
async def test_a_dispatch_rate_is_told_with_its_balance(policy: str, code: str) -> None:
    scene = Scene()
    rate: dict[str, Any] = {policy: DispatchRate(messages=10, period_seconds=10)}
    scene.topic.set_policies(EffectivePolicies(**rate))
    scene.ledger.append_now(numbers(100))
    (await scene.consumer(FakeConnection(), "Shared")).flow(1_000)
    await settle()
    reason = subscription_reasons(scene.topic)[code]
    assert reason.holds is Holds.EVERYTHING
    assert reason.figures["messagesPerSecond"] == 1
    assert "1 message a second (balance 0)" in reason.sentence
    scene.topic.set_policies(EffectivePolicies())
    await settle()
    assert code not in subscription_reasons(scene.topic)


@in_virtual_time
async def test_another_consumer_is_active_and_a_switch_takes_its_time() -> None:
    scene = Scene(active_consumer_failover_delay_time_millis=1_000)
    first = await scene.consumer(FakeConnection("/a"), "Failover", consumer_name="a", priority_level=0)
    second = await scene.consumer(FakeConnection("/b"), "Failover", consumer_name="b", priority_level=1)
    first.flow(10)
    second.flow(10)
    await settle()
    reason = subscription_reasons(scene.topic)["ANOTHER_CONSUMER_ACTIVE"]
    assert reason.holds is Holds.NOTHING
    assert reason.figures == {"active": "a", "waiting": ["b"]}
    first.close()
    reason = subscription_reasons(scene.topic)["CONSUMER_SWITCH"]
    assert (reason.holds, reason.figures["consumer"]) == (Holds.EVERYTHING, "b")
    await pass_time(1)
    assert list(subscription_reasons(scene.topic)) == ["NOTHING_TO_READ"]


async def test_holes_are_told_with_the_first_entry_in_them() -> None:
    scene = Scene()
    scene.ledger.append_now(numbers(10))
    consumer = await scene.consumer(FakeConnection(), "Shared")
    consumer.flow(10)
    await settle()
    ack(consumer, [Position(10, entry) for entry in (0, 2, 3, 5)])
    reason = subscription_reasons(scene.topic)["HOLES"]
    assert reason.holds is Holds.NOTHING
    assert reason.figures == {"entries": 2, "ranges": 2, "first": "10:1", "markDelete": "10:0"}
    ack(consumer, [Position(10, entry) for entry in (1, 4)])
    assert "HOLES" not in subscription_reasons(scene.topic)


@in_virtual_time
async def test_a_read_that_fails_is_told_with_its_error_and_when_it_is_tried_again() -> None:
    scene = Scene(
        dispatcher_read_failure_backoff_initial_time_in_ms=4_000, dispatcher_read_failure_backoff_max_time_in_ms=4_000
    )
    scene.ledger.append_now(numbers(3))
    scene.ledger.cached_from = NOT_IN_MEMORY
    scene.ledger.read_failures = 1
    (await scene.consumer(FakeConnection(), "Shared")).flow(10)
    await settle()
    reason = subscription_reasons(scene.topic)["READ_FAILS"]
    assert reason.holds is Holds.EVERYTHING
    assert "entry 10:0" in reason.sentence
    assert "tried again in 4.0 s" in reason.sentence
    await pass_time(5)
    assert "READ_FAILS" not in subscription_reasons(scene.topic)


@in_virtual_time
async def test_a_failure_that_is_over_because_nobody_needs_the_entry_any_more_is_not_told() -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_now(numbers(1))
    scene.ledger.cached_from = NOT_IN_MEMORY
    scene.ledger.read_failures = 1
    consumer = await scene.consumer(cnx, "Shared")
    consumer.flow(10)
    await settle()
    ack(consumer, [Position(10, 0)])
    scene.topic.subscriptions["s"].backlog_shrank()
    await pass_time(120)
    scene.ledger.cached_from = EARLIEST
    scene.ledger.append_now(numbers(1))
    scene.topic.new_messages.confirmed()
    assert len(cnx.messages) == 1
    assert "READ_FAILS" not in subscription_reasons(scene.topic)


@in_virtual_time
async def test_a_read_that_gets_no_answer_is_told_after_a_second() -> None:
    scene = Scene()
    scene.ledger.append_now(numbers(3))
    scene.ledger.cached_from = NOT_IN_MEMORY
    scene.ledger.read_gate = asyncio.Event()
    (await scene.consumer(FakeConnection(), "Exclusive")).flow(10)
    await settle()
    assert list(subscription_reasons(scene.topic)) == []
    await pass_time(7)
    reason = subscription_reasons(scene.topic)["READ_WAITS"]
    assert reason.holds is Holds.EVERYTHING
    assert "from 10:0 on has waited for the bookies for 7.0 s" in reason.sentence
    scene.ledger.let_reads_go()
    await settle()
    assert "READ_WAITS" not in subscription_reasons(scene.topic)


async def test_a_seek_and_a_deletion_under_way_are_told() -> None:
    scene = Scene()
    scene.ledger.append_now(numbers(3))
    consumer = await scene.consumer(FakeConnection(), "Shared")
    scene.ledger.stores["s"].gate = asyncio.Event()
    seeking = asyncio.ensure_future(consumer.seek(seek_command(consumer, message_publish_time=1)))
    await settle()
    assert subscription_reasons(scene.topic)["SUBSCRIPTION_MOVING"].holds is Holds.EVERYTHING
    scene.ledger.stores["s"].gate.set()
    await seeking
    assert "SUBSCRIPTION_MOVING" not in subscription_reasons(scene.topic)
    deleting = asyncio.ensure_future(scene.topic.subscriptions["s"].delete())
    await asyncio.sleep(0)
    assert subscription_reasons(scene.topic)["SUBSCRIPTION_ENDING"].holds is Holds.EVERYTHING
    await deleting


async def test_a_chunk_waits_for_the_consumer_that_has_the_other_chunks() -> None:
    scene = Scene()
    first = await scene.consumer(FakeConnection("/a"), "Shared", consumer_name="first")
    first.flow(1)
    chunks = [payload(b"x", uuid="u", num_chunks_from_msg=3, chunk_id=number) for number in range(3)]
    scene.ledger.append_now(chunks[:1])
    scene.topic.new_messages.confirmed()
    await settle()
    (await scene.consumer(FakeConnection("/b"), "Shared", consumer_name="second")).flow(10)
    scene.ledger.append_now(chunks[1:])
    scene.topic.new_messages.confirmed()
    await settle()
    reason = subscription_reasons(scene.topic)["CHUNKS_WAIT"]
    assert (reason.holds, reason.figures) == (Holds.SOME, {"consumers": [{"name": "first", "entries": 2}]})
    first.flow(5)
    await settle()
    assert "CHUNKS_WAIT" not in subscription_reasons(scene.topic)


async def test_the_last_refusal_is_told_until_a_consumer_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()

    async def refuse(_: Topic, command: pb.CommandSubscribe) -> None:
        raise IncompatibleSchema("the reader needs a field that the writer has not")

    with monkeypatch.context() as patched:
        patched.setattr(Topic, "admit_schema_of", refuse)
        await scene.topic.make_subscription("s")
        with pytest.raises(IncompatibleSchema):
            await scene.consumer(FakeConnection("/10.1.1.1:1"), "Shared")
    reason = subscription_reasons(scene.topic)["CONSUMER_REFUSED"]
    assert reason.holds is Holds.NOTHING
    assert "IncompatibleSchema: the reader needs a field" in reason.sentence
    assert "/10.1.1.1:1" in reason.sentence
    await scene.consumer(FakeConnection(), "Shared")
    assert "CONSUMER_REFUSED" not in subscription_reasons(scene.topic)


async def test_a_non_persistent_subscription_tells_what_it_dropped_and_who_takes_nothing() -> None:
    names = iter("pq")
    topic = NonPersistentTopic(
        TopicName.parse("non-persistent://public/default/n"), Scene().settings, new_producer_name=lambda: next(names)
    )
    command = pb.CommandSubscribe(
        topic=topic.name.full, subscription="s", subType=pb.CommandSubscribe.Shared, consumer_id=1, request_id=1
    )
    consumer = await topic.subscribe(FakeConnection(), command)
    topic.send(numbers(3))
    reasons = subscription_reasons(topic)
    assert reasons["NO_PERMITS"].holds is Holds.EVERYTHING
    assert reasons["DROPPED"].figures == {"dropped": 3}
    consumer.flow(1)
    assert list(subscription_reasons(topic)) == ["DROPPED"]
