"""Non-persistent topics: who gets a message, who loses it, and what clients are told."""

from typing import Any

import pytest

from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.stats.domain_stats import topic_stats
from magnetar.server.topics.non_persistent.topic import NonPersistentTopic
from magnetar.server.topics.publishing.producer import Producer
from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.key_shared_rules import hash_of, ring_slot
from pulsar_proto.errors import ConsumerBusy, MetadataFault, NotAllowed, ProducerBusy
from pulsar_proto.ids import Position
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from tests.server.topics.scene import FakeConnection, bodies, in_virtual_time, payload, publish

NAME = TopicName.parse("non-persistent://public/default/t")


NEVER_MORE_THAN_ZERO = (
    "lastMarkDeleteAdvancedTimestamp",
    "nonContiguousDeletedMessagesRanges",
    "nonContiguousDeletedMessagesRangesSerializedSize",
    "delayedMessageIndexSizeInBytes",
)
"""Fields of a subscription's stats that are always 0 here, because there is no log behind it."""


class Scene:
    def __init__(self, **settings: Any) -> None:
        names = iter(range(1_000))
        self.topic = NonPersistentTopic(
            NAME, TopicSettings(**settings), new_producer_name=lambda: f"standalone-0-{next(names)}"
        )
        self._ids = iter(range(1_000))

    async def producer(self, cnx: FakeConnection, name: str = "p", **fields: Any) -> Producer:
        command = pb.CommandProducer(
            topic=NAME.full, producer_id=next(self._ids), request_id=1, producer_name=name, **fields
        )
        producer = await self.topic.add_producer(cnx, command)
        cnx.attached.append(producer)
        return producer

    async def consumer(
        self, cnx: FakeConnection, sub_type: str = "Exclusive", permits: int = 1_000, **fields: Any
    ) -> Consumer:
        command = pb.CommandSubscribe(
            topic=NAME.full,
            subscription=fields.pop("subscription", "s"),
            subType=pb.CommandSubscribe.SubType.Value(sub_type),
            consumer_id=next(self._ids),
            request_id=1,
            **{"consumer_name": "c", **fields},
        )
        consumer = await self.topic.subscribe(cnx, command)
        cnx.attached.append(consumer)
        if permits:
            consumer.flow(permits)
        return consumer


@in_virtual_time
async def test_every_subscription_gets_the_messages_at_once_and_receipts_have_no_place() -> None:
    scene = Scene()
    one, two, sender = FakeConnection(), FakeConnection(), FakeConnection()
    await scene.consumer(one, subscription="a")
    await scene.consumer(two, subscription="b")
    producer = await scene.producer(sender)
    publish(producer, [b"0", b"1"], first_sequence_id=7)
    assert bodies(one) == bodies(two) == [b"0", b"1"]
    assert {message.position for message in one.messages} == {Position(0, 0)}
    assert sender.receipts == [(7, Position(0, 0)), (8, Position(0, 0))]
    assert (sender.writes, one.writes) == (1, 1)
    assert producer.pending == 0


@in_virtual_time
async def test_without_permits_or_a_connection_that_takes_bytes_messages_are_dropped_and_counted() -> None:
    scene = Scene()
    cnx, sender = FakeConnection(), FakeConnection()
    consumer = await scene.consumer(cnx, permits=2)
    producer = await scene.producer(sender)
    publish(producer, [b"0", b"1", b"2"])
    assert bodies(cnx) == [b"0", b"1"]
    consumer.flow(10)
    cnx.is_writable = False
    publish(producer, [b"3"])
    cnx.become_writable()
    publish(producer, [b"4"])
    assert bodies(cnx) == [b"0", b"1", b"4"]
    assert scene.topic.subscriptions["s"].dropped == 2
    assert len(sender.receipts) == 5


@in_virtual_time
async def test_what_nobody_is_subscribed_to_is_answered_and_gone() -> None:
    scene = Scene()
    sender, late = FakeConnection(), FakeConnection()
    publish(await scene.producer(sender), [b"0"])
    await scene.consumer(late)
    assert (bodies(late), scene.topic.dropped, len(sender.receipts)) == ([], 1, 1)


@in_virtual_time
async def test_shared_consumers_take_turns_and_who_is_full_is_passed_over() -> None:
    scene = Scene()
    first, second = FakeConnection(), FakeConnection()
    await scene.consumer(first, "Shared")
    await scene.consumer(second, "Shared", permits=1)
    publish(await scene.producer(FakeConnection()), [b"0", b"1", b"2", b"3"])
    assert (bodies(first), bodies(second)) == ([b"0", b"2", b"3"], [b"1"])
    assert scene.topic.subscriptions["s"].dropped == 0


@in_virtual_time
async def test_failover_goes_to_the_best_and_to_the_next_when_it_leaves() -> None:
    scene = Scene()
    worse, better = FakeConnection(), FakeConnection()
    await scene.consumer(worse, "Failover", priority_level=1)
    await scene.consumer(better, "Failover", priority_level=0)
    producer = await scene.producer(FakeConnection())
    publish(producer, [b"0"])
    better.close("gone")
    publish(producer, [b"1"])
    assert (bodies(worse), bodies(better)) == ([b"1"], [b"0"])
    told = [each.active_consumer_change.is_active for each in worse.of_type("ACTIVE_CONSUMER_CHANGE")]
    assert told == [True, False, True]


@in_virtual_time
async def test_key_shared_gives_each_key_to_its_owner() -> None:
    scene = Scene(subscription_key_shared_use_consistent_hashing=True)
    cnxs = [FakeConnection(), FakeConnection()]
    for number, cnx in enumerate(cnxs):
        await scene.consumer(cnx, "Key_Shared", consumer_name=f"c{number}")
    producer = await scene.producer(FakeConnection())
    keys = [f"key-{number}" for number in range(40)]
    for _ in range(2):
        producer.publish([(pb.CommandSend(producer_id=0, sequence_id=0), keyed(key)) for key in keys])
    owned = [set(bodies(cnx)) for cnx in cnxs]
    assert all(owned)
    assert not owned[0] & owned[1]
    assert sum(len(bodies(cnx)) for cnx in cnxs) == 80
    assert ring_slot(hash_of(b"key-0")) > 0


def keyed(key: str) -> bytes:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=1, partition_key=key, uncompressed_size=len(key)
    )
    return build_payload(metadata, key.encode())


@in_virtual_time
async def test_batches_count_by_their_messages() -> None:
    scene = Scene()
    cnx = FakeConnection()
    consumer = await scene.consumer(cnx, permits=4)
    producer = await scene.producer(FakeConnection())
    command = pb.CommandSend(producer_id=producer.producer_id, sequence_id=0, num_messages=3)
    producer.publish([(command, payload(b"batch", batch=3))] * 3)
    assert len(cnx.messages) == 2
    assert consumer.permits == -2
    assert scene.topic.subscriptions["s"].dropped == 3
    assert scene.topic.publishing.counters.messages_in == 9


@in_virtual_time
async def test_who_may_subscribe_and_produce_follows_the_rules_of_all_topics() -> None:
    scene = Scene(max_consumers_per_topic=2)
    await scene.consumer(FakeConnection())
    with pytest.raises(ConsumerBusy, match="Exclusive consumer is already connected"):
        await scene.consumer(FakeConnection())
    with pytest.raises(ConsumerBusy, match="different type"):
        await scene.consumer(FakeConnection(), "Shared")
    await scene.consumer(FakeConnection(), subscription="b")
    with pytest.raises(ConsumerBusy, match="max consumers"):
        await scene.consumer(FakeConnection(), subscription="c")
    await scene.producer(FakeConnection())
    with pytest.raises(ProducerBusy, match="already connected"):
        await scene.producer(FakeConnection())


async def test_consumers_of_dead_clients_refuse_nobody() -> None:
    scene, dead = Scene(max_consumers_per_topic=1, max_consumers_per_subscription=1), FakeConnection("/dead")
    await scene.consumer(dead, "Shared")
    dead.is_alive = False
    dead = FakeConnection("/next")
    await scene.consumer(dead, "Key_Shared")
    dead.is_alive = False
    await scene.consumer(FakeConnection(), "Key_Shared", subscription="other")
    assert scene.topic.consumer_count == 1


@in_virtual_time
async def test_a_reader_s_subscription_goes_with_it_and_a_durable_one_stays_until_it_is_deleted() -> None:
    scene = Scene()
    cnx = FakeConnection()
    await scene.consumer(cnx, subscription="reader", durable=False)
    durable = await scene.consumer(cnx, subscription="durable")
    cnx.close("gone")
    assert list(scene.topic.subscriptions) == ["durable"]
    other = FakeConnection()
    durable = await scene.consumer(other, subscription="durable")
    await durable.unsubscribe()
    assert scene.topic.subscriptions == {}
    assert other.kinds == []


@in_virtual_time
async def test_what_needs_a_log_is_refused() -> None:
    scene = Scene()
    consumer = await scene.consumer(FakeConnection())
    with pytest.raises(MetadataFault, match="not supported on non-persistent"):
        await consumer.last_message_id()
    with pytest.raises(NotAllowed):
        await scene.topic.terminate()
    await consumer.seek(pb.CommandSeek(consumer_id=0, request_id=1, message_publish_time=1))


@in_virtual_time
async def test_stats_count_what_was_dropped_and_closing_tells_everybody() -> None:
    scene = Scene()
    cnx = FakeConnection()
    await scene.consumer(cnx, permits=1)
    await scene.producer(cnx)
    producer = scene.topic.producers["p"]
    publish(producer, [b"0", b"1", b"2"])
    scene.topic.roll_rates(2.0)
    stats: dict[str, Any] = topic_stats(scene.topic)
    assert (stats["msgDropRate"], stats["msgInCounter"], stats["msgOutCounter"]) == (1.0, 3, 1)
    await (await scene.consumer(FakeConnection(), subscription="short", permits=9)).unsubscribe()
    shown = stats["subscriptions"]["s"]
    assert shown["consumers"][0]["consumerName"] == "c"
    assert {name: shown[name] for name in NEVER_MORE_THAN_ZERO} == dict.fromkeys(NEVER_MORE_THAN_ZERO, 0)
    await scene.topic.close()
    assert cnx.kinds[-2:] == ["CLOSE_PRODUCER", "CLOSE_CONSUMER"]


@in_virtual_time
async def test_an_exclusive_producer_s_epoch_grows_as_long_as_the_topic_is_loaded() -> None:
    scene = Scene()
    first = FakeConnection()
    producer = await scene.producer(first, "a", producer_access_mode=pb.Exclusive)
    assert producer.topic_epoch == 0
    second = await scene.producer(FakeConnection(), "b", producer_access_mode=pb.ExclusiveWithFencing)
    assert second.topic_epoch == 1
    assert first.kinds == ["CLOSE_PRODUCER"]


@in_virtual_time
async def test_what_a_policy_refuses_is_answered_in_turn() -> None:
    scene = Scene(encryption_require_on_producer=True)
    cnx = FakeConnection()
    producer = await scene.producer(cnx, encrypted=True)
    secret = build_payload(
        pb.MessageMetadata(
            producer_name="p", sequence_id=0, publish_time=1, encryption_keys=[pb.EncryptionKeys(key="k", value=b"v")]
        ),
        b"secret",
    )
    sends = [secret, payload(b"plain"), secret]
    producer.publish([(pb.CommandSend(producer_id=0, sequence_id=each), body) for each, body in enumerate(sends)])
    assert cnx.kinds == ["SEND_RECEIPT", "SEND_ERROR", "SEND_RECEIPT"]
