"""Stats as the admin API answers them have the fields of real answers of Apache Pulsar 4.0.7."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from magnetar.server.stats.domain_stats import internal_stats, topic_stats
from magnetar.server.stats.topic_metrics import TRAFFIC_COLUMNS, traffic_values
from magnetar.server.stats.traffic_stats import client_consumer_stats
from magnetar.server.topics.counters import NO_RATE, ConsumerCounters, ProducerCounters, Rate
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.scene import FakeConnection, Scene, ack, payloads, publish, redeliver, settle

FIELDS = json.loads((Path(__file__).parents[2] / "vectors" / "topic_stats_fields.json").read_text())

OURS = {
    "topic": {"topicEpoch", "topicCreationTimeStamp", "lastPublishTimeStamp"},
    "subscription": {"activeConsumerName", "whyIdle", "entriesInAckHoles", "ackHolesFilledTotal"},
    "consumer": set(),
    "publisher": set(),
    "internal": {"lastLedgerCreationFailureTimestamp", "unreadable"},
    "cursor": {"ackHoles"},
}
"""Fields that later versions of Apache added, and fields of our own."""

NOT_OURS = {
    "topic": {"ownerBroker"},
    "consumer": {"lastAckedTime", "lastConsumedTime"},
    "cursor": {"lastLedgerSwitchTimestamp"},
}
"""Fields that the web layer adds, and fields that are left out without a value, as Apache does."""


def check_fields(kind: str, answer: dict[str, Any]) -> None:
    known = set(FIELDS[kind])
    assert set(answer) - known <= OURS[kind], kind
    assert known - set(answer) - NOT_OURS.get(kind, set()) == set(), kind


async def busy_scene() -> Scene:
    scene = Scene()
    publish(await scene.producer(FakeConnection(), "p"), [b"1", b"22", b"333", b"4444"])
    await settle()
    consumer = await scene.consumer(FakeConnection(), "Shared", metadata=[pb.KeyValue(key="m", value="1")])
    consumer.flow(3)
    ack(consumer, [Position(10, 1)])
    redeliver(consumer, [Position(10, 2)])
    (await scene.consumer(FakeConnection(), subscription="other")).flow(1)
    return scene


async def test_every_field_of_apache_s_answers_is_there() -> None:
    scene = await busy_scene()
    stats = cast(Any, topic_stats(scene.topic))
    check_fields("topic", stats)
    check_fields("subscription", stats["subscriptions"]["s"])
    check_fields("consumer", stats["subscriptions"]["s"]["consumers"][0])
    check_fields("publisher", stats["publishers"][0])
    internal = cast(Any, internal_stats(scene.topic))
    check_fields("internal", internal)
    check_fields("cursor", internal["cursors"]["s"])
    json.dumps([stats, internal])


async def test_what_the_numbers_say() -> None:
    scene = await busy_scene()
    stats = cast(Any, topic_stats(scene.topic))
    assert (stats["msgInCounter"], stats["msgOutCounter"]) == (4, 4)
    subscription = stats["subscriptions"]["s"]
    assert subscription["msgBacklog"] == 3
    assert subscription["unackedMessages"] == 1
    assert subscription["msgInReplay"] == 1, "no permits for it"
    assert subscription["whyIdle"] == "consumers have no permits"
    assert subscription["nonContiguousDeletedMessagesRanges"] == 1
    assert subscription["entriesInAckHoles"] == 1
    assert subscription["consumers"][0]["metadata"] == {"m": "1"}
    cursor = cast(Any, internal_stats(scene.topic))["cursors"]["s"]
    assert cursor["individuallyDeletedMessages"] == "[(10:0..10:1]]"
    assert cursor["ackHoles"] == "[(10:-1..10:0]]"
    assert (cursor["markDeletePosition"], cursor["readPosition"]) == ("10:-1", "10:3")


async def test_the_client_s_own_stats_fit_their_command() -> None:
    scene = await busy_scene()
    (consumer,) = scene.topic.subscriptions["s"].consumers
    answer = pb.CommandConsumerStatsResponse(request_id=1, **client_consumer_stats(consumer))  # type: ignore[arg-type]
    assert (answer.type, answer.msgBacklog, answer.consumerName) == ("Shared", 3, "c")
    consumer.permits = -5
    pb.CommandConsumerStatsResponse(request_id=1, **client_consumer_stats(consumer))  # type: ignore[arg-type]


async def test_what_a_consumer_got_is_still_counted_when_it_has_gone() -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b"))
    consumer = await scene.consumer(cnx)
    consumer.flow(2)
    scene.topic.roll_rates(1.0)
    assert consumer.counters.byte_rate.value > 0
    consumer.close()
    out = scene.topic.subscriptions["s"].counters_out()
    assert out.messages_out == 2
    rates = (out.message_rate, out.byte_rate, out.redelivery_rate, out.ack_rate)
    assert [rate.value for rate in rates] == [0.0] * 4


def test_a_rate_is_what_was_gained_since_the_last_look() -> None:
    rate = Rate()
    rate.roll(100, 10)
    assert rate.value == 10
    rate.roll(160, 60)
    assert rate.value == 1
    rate.roll(160, 60)
    assert rate.value == 0


def test_the_rates_of_one_client_are_not_those_of_an_idle_one() -> None:
    """Clients that nothing was counted of share one rate."""
    busy, idle, sums, producer = ConsumerCounters(), ConsumerCounters(), ConsumerCounters(), ProducerCounters()
    busy.messages_out = producer.messages_in = 20
    for counters in (busy, idle, producer):
        counters.roll(10)
    sums.add(busy)
    sums.add(idle)
    assert [each.message_rate.value for each in (busy, idle, sums, producer)] == [2, 0, 2, 2]
    busy.roll(10)
    assert (busy.message_rate.value, sums.message_rate.value) == (0, 2)
    assert NO_RATE.value == 0


def test_sums_keep_the_latest_times() -> None:
    one, two = ConsumerCounters(), ConsumerCounters()
    one.sent(2, [b"xx", b"y"])
    two.last_acked_ms = 7
    one.add(two)
    assert (one.messages_out, one.bytes_out, one.last_acked_ms) == (2, 3, 7)


@pytest.mark.parametrize("epoch", [None, 3])
async def test_the_epoch_is_told_where_there_is_one(epoch: int | None) -> None:
    scene = Scene()
    scene.topic.publishing.access.epoch = epoch
    assert topic_stats(scene.topic).get("topicEpoch") == epoch


async def test_what_was_sent_to_a_subscription_counts_for_the_topic_when_the_subscription_is_removed() -> None:
    scene = await busy_scene()
    before = cast(Any, topic_stats(scene.topic))
    await scene.topic.subscriptions["s"].delete()
    after = cast(Any, topic_stats(scene.topic))
    assert list(after["subscriptions"]) == ["other"]
    assert (before["msgOutCounter"], before["bytesOutCounter"]) == (after["msgOutCounter"], after["bytesOutCounter"])
    assert after["subscriptions"]["other"]["msgOutCounter"] < after["msgOutCounter"]


@pytest.mark.parametrize("write_quorum", [1, 2, 3])
async def test_the_storage_size_counts_each_copy_and_the_logical_size_each_message_once(write_quorum: int) -> None:
    scene = await busy_scene()
    scene.ledger.config = ManagedLedgerConfig(
        managed_ledger_default_ensemble_size=3,
        managed_ledger_default_write_quorum=write_quorum,
        managed_ledger_default_ack_quorum=1,
    )
    values = traffic_values(scene.topic, scene.topic.counters_out())
    shown = dict(zip((column.name for column in TRAFFIC_COLUMNS), values, strict=True))
    assert shown["pulsar_storage_logical_size"] == scene.topic.stored_bytes > 0
    assert shown["pulsar_storage_size"] == write_quorum * scene.topic.stored_bytes
