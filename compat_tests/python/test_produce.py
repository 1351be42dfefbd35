"""Producing with the official client: messages arrive unchanged and in order, in whichever way they are sent."""

import queue
from collections.abc import Iterator

import pulsar
import pytest

from compat_tests.conftest import ClientFactory
from compat_tests.harness import Server
from compat_tests.python.support import (
    bodies,
    incompressible,
    position,
    read_bodies,
    receive,
    receive_bodies,
    send_all,
)

COMPRESSIONS = ["NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"]
MEGABYTE = 1 << 20
ANSWER_SECONDS = 60


@pytest.fixture
def consumer(client: pulsar.Client, topic: str) -> Iterator[pulsar.Consumer]:
    subscribed = client.subscribe(topic, "s")
    yield subscribed
    subscribed.close()


@pytest.mark.parametrize("batched", [False, True], ids=["unbatched", "batched"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_messages_arrive_unchanged_in_order(
    client: pulsar.Client, topic: str, consumer: pulsar.Consumer, compression: str, batched: bool
) -> None:
    contents = [incompressible(size, seed=size) + b"\0" * size for size in (1, 10, 1000, 20_000)] * 3
    producer = client.create_producer(
        topic, compression_type=getattr(pulsar.CompressionType, compression), batching_enabled=batched
    )
    send_all(producer, contents)
    assert receive_bodies(consumer, len(contents)) == contents


@pytest.mark.parametrize("batched", [False, True], ids=["unbatched", "batched"])
def test_everything_a_message_carries_arrives(
    client: pulsar.Client, topic: str, consumer: pulsar.Consumer, batched: bool
) -> None:
    producer = client.create_producer(
        topic, producer_name=f"p-{topic[-8:]}", batching_enabled=batched, properties={"of": "producer"}
    )
    producer.send(
        b"body",
        properties={"a": "1", "ü": "ö"},
        partition_key="key",
        ordering_key="order",
        event_timestamp=1_234_567_890_123,
        sequence_id=41,
    )
    message = consumer.receive(60_000)
    assert message.data() == b"body"
    assert message.properties() == {"a": "1", "ü": "ö"}
    assert (message.partition_key(), message.ordering_key()) == ("key", "order")
    assert message.event_timestamp() == 1_234_567_890_123
    assert message.publish_timestamp() > 1_600_000_000_000
    assert message.producer_name() == producer.producer_name()
    assert message.topic_name() == topic
    assert message.redelivery_count() == 0
    assert producer.last_sequence_id() == 41


def test_synchronous_sends_return_ascending_ids(client: pulsar.Client, topic: str, consumer: pulsar.Consumer) -> None:
    producer = client.create_producer(topic)
    ids = [producer.send(body) for body in bodies(20)]
    assert [position(each) for each in ids] == sorted({position(each) for each in ids})
    assert [position(each.message_id()) for each in receive(consumer, 20)] == [position(each) for each in ids]


def test_asynchronous_receipts_come_in_the_order_of_the_sends(client: pulsar.Client, topic: str) -> None:
    done: list[int] = []
    ids = []
    producer = client.create_producer(topic, max_pending_messages=2000)

    def receipt(index: int, result: object, message_id: pulsar.MessageId) -> None:
        assert result == pulsar.Result.Ok
        done.append(index)
        ids.append(position(message_id))

    for index in range(1000):
        producer.send_async(b"x" * 100, lambda result, id_, index=index: receipt(index, result, id_))
    producer.flush()
    assert done == list(range(1000))
    assert ids == sorted(set(ids))


def test_a_batch_is_one_entry_with_an_index_for_each_message(
    client: pulsar.Client, topic: str, consumer: pulsar.Consumer
) -> None:
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_messages=10, batching_max_publish_delay_ms=5000
    )
    ids = send_all(producer, bodies(10))
    assert len({position(each) for each in ids}) == 1
    received = [message.message_id() for message in receive(consumer, 10)]
    assert [each.batch_index() for each in received] == list(range(10))
    assert {position(each) for each in received} == {position(ids[0])}


def test_key_based_batches_keep_each_keys_order(client: pulsar.Client, topic: str, consumer: pulsar.Consumer) -> None:
    producer = client.create_producer(
        topic, batching_enabled=True, batching_type=pulsar.BatchingType.KeyBased, batching_max_publish_delay_ms=50
    )
    for index in range(30):
        producer.send_async(str(index).encode(), lambda *_: None, partition_key=f"k{index % 3}")
    producer.flush()
    by_key: dict[str, list[int]] = {}
    for message in receive(consumer, 30):
        by_key.setdefault(message.partition_key(), []).append(int(message.data()))
    assert by_key == {f"k{key}": list(range(key, 30, 3)) for key in range(3)}


@pytest.mark.parametrize("size", [5_000_000, 5 * MEGABYTE - 1000])
def test_messages_of_five_megabytes(client: pulsar.Client, topic: str, consumer: pulsar.Consumer, size: int) -> None:
    contents = [incompressible(size, seed) for seed in range(3)]
    producer = client.create_producer(topic)
    for content in contents:
        producer.send(content)
    assert receive_bodies(consumer, 3) == contents


def test_a_message_above_the_maximum_is_refused_and_the_producer_goes_on(
    client: pulsar.Client, topic: str, consumer: pulsar.Consumer
) -> None:
    producer = client.create_producer(topic)
    with pytest.raises(pulsar.MessageTooBig):
        producer.send(b"\0" * (5 * MEGABYTE + 1))
    producer.send(b"after")
    assert receive_bodies(consumer, 1) == [b"after"]


def test_empty_messages_arrive(client: pulsar.Client, topic: str, consumer: pulsar.Consumer) -> None:
    producer = client.create_producer(topic)
    send_all(producer, [b"", b"x", b""])
    assert receive_bodies(consumer, 3) == [b"", b"x", b""]


def test_sequence_ids_continue_from_the_given_one(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic, initial_sequence_id=100)
    assert producer.last_sequence_id() == 100
    for _ in range(3):
        producer.send(b"x")
    assert producer.last_sequence_id() == 103


def test_generated_producer_names_differ(client: pulsar.Client, topic: str) -> None:
    names = {client.create_producer(topic).producer_name() for _ in range(5)}
    assert len(names) == 5


def test_a_producer_name_in_use_is_refused_until_it_is_free(
    server: Server, client: pulsar.Client, topic: str, make_client: ClientFactory
) -> None:
    first = client.create_producer(topic, producer_name="taken")
    other = make_client(server.broker_url)
    with pytest.raises(pulsar.ProducerBusy):
        other.create_producer(topic, producer_name="taken")
    first.close()
    other.create_producer(topic, producer_name="taken").send(b"mine now")


def test_several_producers_share_a_topic_each_in_order(
    client: pulsar.Client, topic: str, consumer: pulsar.Consumer
) -> None:
    producers = [client.create_producer(topic, batching_enabled=bool(index % 2)) for index in range(4)]
    for count in range(50):
        for index, producer in enumerate(producers):
            producer.send_async(f"{index}:{count}".encode(), lambda *_: None)
    for producer in producers:
        producer.flush()
    seen: dict[str, list[int]] = {}
    for body in receive_bodies(consumer, 200):
        sender, number = body.decode().split(":")
        seen.setdefault(sender, []).append(int(number))
    assert seen == {str(index): list(range(50)) for index in range(4)}


def test_messages_sent_before_anybody_subscribed_are_kept_while_a_subscription_exists(
    client: pulsar.Client, topic: str
) -> None:
    client.subscribe(topic, "s").close()
    send_all(client.create_producer(topic), bodies(10))
    assert receive_bodies(client.subscribe(topic, "s"), 10) == bodies(10)


def test_short_and_full_topic_names_are_the_same_topic(client: pulsar.Client, topic: str) -> None:
    short = topic.rpartition("/")[2]
    client.create_producer(short).send(b"hello")
    reader = client.create_reader(f"public/default/{short}", pulsar.MessageId.earliest)
    assert read_bodies(reader, 1) == [b"hello"]


@pytest.mark.parametrize("name", ["persistent://no-such-tenant/ns/t", "persistent://public/no-such-namespace/t"])
def test_a_namespace_that_does_not_exist_is_reported_at_once(client: pulsar.Client, name: str) -> None:
    with pytest.raises(pulsar.TopicNotFound):
        client.create_producer(name)
    with pytest.raises(pulsar.TopicNotFound):
        client.subscribe(name, "s")


def test_names_with_unusual_characters_work(client: pulsar.Client, topic: str) -> None:
    name = f"{topic} %2F+ü:x"
    client.create_producer(name).send(b"odd")
    assert read_bodies(client.create_reader(name, pulsar.MessageId.earliest), 1) == [b"odd"]


def test_a_message_that_the_broker_refuses_fails_alone(
    client: pulsar.Client, server: Server, topic: str, consumer: pulsar.Consumer, is_peer: bool
) -> None:
    """The connection stays open, and the messages that were sent on it before and after the refused one are stored."""
    if is_peer:
        pytest.skip("Apache stores it")
    before = server.log_size()
    producer = client.create_producer(topic, max_pending_messages=100)
    results: queue.Queue[tuple[int, pulsar.Result]] = queue.Queue()
    for number in range(41):
        properties = {f"p{each}": "v" for each in range(1_500 if number == 20 else 1)}
        producer.send_async(
            str(number).encode(), lambda result, _, number=number: results.put((number, result)), properties=properties
        )
    answers = [results.get(timeout=ANSWER_SECONDS) for _ in range(41)]
    refused = pulsar.Result.ChecksumError
    assert answers == [(number, refused if number == 20 else pulsar.Result.Ok) for number in range(41)]
    assert receive_bodies(consumer, 40) == [str(number).encode() for number in range(41) if number != 20]
    assert f"{topic} disconnected" not in server.log_text(before)
