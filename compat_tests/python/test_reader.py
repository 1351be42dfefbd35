"""Readers of the official client: where they start, what they see, and whether they know that more is there."""

import pulsar
import pytest

from compat_tests.python.support import assert_silent, bodies, read_bodies, send_all

EARLIEST, LATEST = pulsar.MessageId.earliest, pulsar.MessageId.latest
BATCHED = pytest.mark.parametrize("batched", [False, True], ids=["unbatched", "batched"])


@pytest.fixture(autouse=True)
def _keep_messages(client: pulsar.Client, topic: str) -> None:
    """Makes a subscription without acknowledgements, so that nothing is trimmed when a test's readers come and go."""
    client.subscribe(topic, "keeps").close()


@BATCHED
def test_from_the_earliest_message_on(client: pulsar.Client, topic: str, batched: bool) -> None:
    producer = client.create_producer(topic, batching_enabled=batched)
    send_all(producer, bodies(20))
    reader = client.create_reader(topic, EARLIEST)
    assert read_bodies(reader, 20) == bodies(20)
    send_all(producer, bodies(5, "late"))
    assert read_bodies(reader, 5) == bodies(5, "late")


@BATCHED
def test_from_the_latest_message_on(client: pulsar.Client, topic: str, batched: bool) -> None:
    producer = client.create_producer(topic, batching_enabled=batched)
    send_all(producer, bodies(20))
    reader = client.create_reader(topic, LATEST)
    assert not reader.has_message_available()
    send_all(producer, bodies(5, "late"))
    assert read_bodies(reader, 5) == bodies(5, "late")


@BATCHED
def test_the_latest_message_itself_when_inclusive(client: pulsar.Client, topic: str, batched: bool) -> None:
    send_all(client.create_producer(topic, batching_enabled=batched), bodies(20))
    reader = client.create_reader(topic, LATEST, start_message_id_inclusive=True)
    assert reader.has_message_available()
    assert read_bodies(reader, 1) == bodies(20)[-1:]
    assert_silent(reader)


@BATCHED
@pytest.mark.parametrize("inclusive", [False, True], ids=["exclusive", "inclusive"])
@pytest.mark.parametrize("at", [0, 7, 19])
def test_from_a_message_id(client: pulsar.Client, topic: str, batched: bool, inclusive: bool, at: int) -> None:
    send_all(client.create_producer(topic, batching_enabled=batched), bodies(20))
    everything = client.create_reader(topic, EARLIEST)
    ids = [everything.read_next(60_000).message_id() for _ in range(20)]
    reader = client.create_reader(topic, ids[at], start_message_id_inclusive=inclusive)
    expected = bodies(20)[at if inclusive else at + 1 :]
    assert read_bodies(reader, len(expected)) == expected
    assert not reader.has_message_available()


def test_from_a_message_id_that_was_serialized(client: pulsar.Client, topic: str) -> None:
    ids = send_all(client.create_producer(topic), bodies(5))
    restored = pulsar.MessageId.deserialize(ids[2].serialize())
    assert read_bodies(client.create_reader(topic, restored), 2) == bodies(5)[3:]


@BATCHED
def test_whether_more_is_available(client: pulsar.Client, topic: str, batched: bool) -> None:
    reader = client.create_reader(topic, EARLIEST)
    assert not reader.has_message_available(), "an empty topic"
    producer = client.create_producer(topic, batching_enabled=batched)
    send_all(producer, bodies(3))
    for _ in range(3):
        assert reader.has_message_available()
        reader.read_next(60_000)
    assert not reader.has_message_available()
    producer.send(b"one more")
    assert reader.has_message_available()


def test_a_loop_over_what_is_available_reads_everything_once(client: pulsar.Client, topic: str) -> None:
    send_all(client.create_producer(topic, batching_enabled=True, batching_max_messages=7), bodies(100))
    reader = client.create_reader(topic, EARLIEST)
    got = []
    while reader.has_message_available():
        got.append(reader.read_next(60_000).data())
    assert got == bodies(100)


def test_readers_do_not_disturb_each_other(client: pulsar.Client, topic: str) -> None:
    send_all(client.create_producer(topic), bodies(10))
    first, second = client.create_reader(topic, EARLIEST), client.create_reader(topic, EARLIEST)
    assert read_bodies(first, 10) == bodies(10)
    assert read_bodies(second, 10) == bodies(10)


def test_a_reader_waits_for_the_next_message(client: pulsar.Client, topic: str) -> None:
    reader = client.create_reader(topic, LATEST)
    with pytest.raises(pulsar.Timeout):
        reader.read_next(100)
    client.create_producer(topic).send(b"now")
    assert read_bodies(reader, 1) == [b"now"]


def test_a_reader_with_a_small_queue_reads_far_behind(client: pulsar.Client, topic: str) -> None:
    send_all(client.create_producer(topic, max_pending_messages=5000), bodies(3000))
    assert read_bodies(client.create_reader(topic, EARLIEST, receiver_queue_size=10), 3000) == bodies(3000)


@BATCHED
def test_a_reader_seeks_to_a_message(client: pulsar.Client, topic: str, batched: bool) -> None:
    send_all(client.create_producer(topic, batching_enabled=batched), bodies(10))
    reader = client.create_reader(topic, EARLIEST)
    ids = [reader.read_next(60_000).message_id() for _ in range(10)]
    reader.seek(ids[4])
    assert read_bodies(reader, 5) == bodies(10)[5:], "a reader goes on after the message it seeks"
    reader.seek(EARLIEST)
    assert read_bodies(reader, 10) == bodies(10)
    reader.seek(LATEST)
    assert not reader.has_message_available()


def test_a_reader_of_a_topic_that_nobody_wrote_to(client: pulsar.Client, topic: str) -> None:
    reader = client.create_reader(topic, EARLIEST)
    assert reader.is_connected()
    assert_silent(reader)
    reader.close()
