"""Compaction with the official client: readers of compacted topics, table views, and kills."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pulsar
import pytest

from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.harness import Server, wait_until
from compat_tests.python.compaction import compact, status, url_of
from compat_tests.python.rest import owner_web_url


def read_all(client: pulsar.Client, topic: str, compacted: bool = True) -> list[tuple[str, bytes, str]]:
    """Returns (key, body, message id) of everything that a new reader gets."""
    reader = client.create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=compacted)
    found = []
    while reader.has_message_available():
        message = reader.read_next(60_000)
        found.append((message.partition_key(), message.data(), str(message.message_id())))
    reader.close()
    return found


def keep_last(messages: list[tuple[str, bytes, str]]) -> list[tuple[str, bytes, str]]:
    last = {key: (key, body, message_id) for key, body, message_id in messages}
    return sorted((each for each in last.values() if each[1]), key=messages.index)


@pytest.fixture(params=[False, True], ids=["unbatched", "batched"])
def produce(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Returns a function that sends (key, body) pairs, in batches or one by one."""

    def produce(client: pulsar.Client, topic: str, pairs: list[tuple[str, bytes]], **options: Any) -> None:
        producer = client.create_producer(
            topic, batching_enabled=request.param, batching_max_publish_delay_ms=50, **options
        )
        for key, body in pairs:
            producer.send_async(body, None, partition_key=key)
        producer.flush()
        producer.close()

    return produce


HOLD = {"brokerServiceCompactionThresholdInBytes": "1000000000"}
"""Nothing is deleted before it is compacted, and compaction runs only on request."""

ROUNDS = [(f"k{at % 7}", f"{at}".encode()) for at in range(50)]


def test_of_each_key_the_last_message_is_left_with_its_id(
    server: Server, client: pulsar.Client, topic: str, produce: Callable[..., None]
) -> None:
    produce(client, topic, [*ROUNDS, ("k3", b"")])
    everything = read_all(client, topic, compacted=False)
    compact(server, topic)
    assert read_all(client, topic) == keep_last(everything)
    assert read_all(client, topic, compacted=False) == everything


def test_what_comes_after_is_read_from_the_log_and_compacted_next_time(
    server: Server, client: pulsar.Client, topic: str, produce: Callable[..., None]
) -> None:
    produce(client, topic, ROUNDS)
    compact(server, topic)
    produce(client, topic, [("k1", b"new"), ("other", b"1"), ("other", b"2"), ("k2", b"")])
    everything = read_all(client, topic, compacted=False)
    tail = everything[len(ROUNDS) :]
    assert read_all(client, topic) == keep_last(everything[: len(ROUNDS)]) + tail
    compact(server, topic)
    assert read_all(client, topic) == keep_last(everything)


@pytest.mark.parametrize("compression", ["LZ4", "ZLib", "ZSTD", "SNAPPY"])
def test_compressed_batches_are_compacted(server: Server, client: pulsar.Client, topic: str, compression: str) -> None:
    producer = client.create_producer(
        topic, compression_type=getattr(pulsar.CompressionType, compression), batching_max_publish_delay_ms=1000
    )
    for at in range(30):
        producer.send_async(b"%d" % at * 100, None, partition_key=f"k{at % 20}")
    producer.flush()
    everything = read_all(client, topic, compacted=False)
    compact(server, topic)
    assert read_all(client, topic) == keep_last(everything)


def test_a_table_view_has_the_last_values_and_follows(
    server: Server, client: pulsar.Client, topic: str, produce: Callable[..., None]
) -> None:
    produce(client, topic, ROUNDS)
    compact(server, topic)
    table = client.create_table_view(topic)
    expected = dict(ROUNDS)
    assert {key: table.get(key) for key in expected} == expected
    produce(client, topic, [("k1", b"new"), ("more", b"x")])
    wait_until(lambda: table.get("k1") == b"new" and table.get("more") == b"x", "the view follows")


def test_a_subscription_reads_compacted_and_goes_on_after_what_it_acknowledged(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic, batching_enabled=False)
    for key, body in ROUNDS:
        producer.send(body, partition_key=key)
    compact(server, topic)

    def subscribe() -> pulsar.Consumer:
        return client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest, is_read_compacted=True)

    consumer = subscribe()
    first = [consumer.receive(60_000) for _ in range(3)]
    consumer.acknowledge_cumulative(first[-1])
    consumer.close()
    consumer = subscribe()
    rest = [consumer.receive(60_000).data() for _ in range(4)]
    assert [each.data() for each in first] + rest == [body for _, body in ROUNDS[-7:]]
    with pytest.raises(pulsar.Timeout):
        consumer.receive(200)


def test_shared_subscriptions_cannot_read_compacted(client: pulsar.Client, topic: str) -> None:
    with pytest.raises(pulsar.PulsarException):
        client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared, is_read_compacted=True)


def test_messages_that_were_trimmed_are_still_there_compacted(
    make_server: ServerFactory, make_client: ClientFactory, topic: str
) -> None:
    """Ledgers have five entries and are deleted as soon as they are consumed. Everything is read back after a kill."""
    server = make_server(
        settings={
            "managedLedgerMaxEntriesPerLedger": "5",
            "managedLedgerMinLedgerRolloverTimeMinutes": "0",
            "retentionCheckIntervalInSeconds": "1",
            **HOLD,
        }
    )
    server.start()
    client = make_client(server.broker_url)
    producer = client.create_producer(topic, batching_enabled=False)
    for key, body in ROUNDS:
        producer.send(body, partition_key=key)
    compact(server, topic)

    def entries_in_the_log() -> int:
        url = url_of(server, topic).replace("/compaction", "/internalStats")
        with urllib.request.urlopen(url, timeout=60) as answer:
            return int(json.load(answer)["numberOfEntries"])

    wait_until(lambda: entries_in_the_log() == 0, "what is compacted is trimmed")
    assert [body for _, body, _ in read_all(client, topic)] == [body for _, body in ROUNDS[-7:]]
    producer.send(b"new", partition_key="new")
    expected = [*[body for _, body in ROUNDS[-7:]], b"new"]
    assert [body for _, body, _ in read_all(client, topic)] == expected
    durable = client.subscribe(topic, "late", initial_position=pulsar.InitialPosition.Earliest, is_read_compacted=True)
    assert [durable.receive(60_000).data() for _ in expected] == expected
    seeker = client.create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=True)
    third, fourth = [seeker.read_next(60_000) for _ in range(4)][2:]
    seeker.seek(third.message_id())
    assert seeker.read_next(60_000).data() in (third.data(), fourth.data())
    seeker.seek(fourth.publish_timestamp())
    assert seeker.read_next(60_000).publish_timestamp() >= fourth.publish_timestamp()
    seeker.seek(pulsar.MessageId.earliest)
    assert seeker.read_next(60_000).data() == expected[0]
    seeker.seek(int(time.time() * 1000) + 60_000)
    assert not seeker.has_message_available()
    server.kill()
    server.start()
    client = make_client(server.broker_url)
    assert [body for _, body, _ in read_all(client, topic)] == expected
    reader = client.create_reader(topic, pulsar.MessageId.latest, is_read_compacted=True)
    assert not reader.has_message_available()
    compact(server, topic)
    assert [body for _, body, _ in read_all(client, topic)] == expected


def test_a_kill_in_the_middle_leaves_a_whole_view(
    make_server: ServerFactory, make_client: ClientFactory, topic: str
) -> None:
    server = make_server(settings=HOLD)
    server.start()
    expected: dict[str, bytes] = {}
    for at in range(3):
        client = make_client(server.broker_url)
        producer = client.create_producer(topic, batching_enabled=False, max_pending_messages=5_000)
        for number in range(1_000):
            key, body = f"k{number % 250}", b"%d-%d" % (at, number)
            producer.send_async(body, None, partition_key=key)
            expected[key] = body
        producer.flush()
        urllib.request.urlopen(urllib.request.Request(url_of(server, topic), method="PUT"), timeout=60).close()
        for _ in range(at * 15):  # the kill comes a little later each time
            status(server, topic)
        server.kill()
        server.start()
        client = make_client(server.broker_url)
        assert {key: body for key, body, _ in read_all(client, topic)} == expected
    compact(server, topic)
    found = read_all(client, topic)
    assert len(found) == len(expected)
    assert {key: body for key, body, _ in found} == expected


def test_a_topic_is_compacted_by_itself_at_the_threshold(
    make_server: ServerFactory, make_client: ClientFactory, topic: str
) -> None:
    server = make_server(
        settings={
            "brokerServiceCompactionThresholdInBytes": "1000",
            "brokerServiceCompactionMonitorIntervalInSeconds": "1",
        }
    )
    server.start()
    client = make_client(server.broker_url)
    producer = client.create_producer(topic, batching_enabled=False)
    assert status(server, topic)["status"] == "NOT_RUN"
    for key, body in ROUNDS:
        producer.send(body, partition_key=key)
    wait_until(lambda: status(server, topic)["status"] == "SUCCESS", "it is compacted")
    found = read_all(client, topic)  # the run may have begun before the last message came
    assert len(found) < len(ROUNDS)
    assert {key: body for key, body, _ in found} == dict(ROUNDS)


def test_stats_tell_of_it(server: Server, client: pulsar.Client, topic: str, produce: Callable[..., None]) -> None:
    produce(client, topic, ROUNDS)
    compact(server, topic)

    def told(what: str) -> Any:
        with urllib.request.urlopen(url_of(server, topic).replace("/compaction", what), timeout=60) as answer:
            return json.load(answer)

    stats = told("/stats")["compaction"]
    assert stats["lastCompactionRemovedEventCount"] == len(ROUNDS) - 7
    assert stats["lastCompactionSucceedTimestamp"] > 0
    assert stats["lastCompactionFailedTimestamp"] == 0
    internal = told("/internalStats")
    assert internal["compactedLedger"]["entries"] >= 1
    assert internal["cursors"]["__compaction"]["properties"] == {
        "CompactedTopicLedger": internal["compactedLedger"]["ledgerId"]
    }
    with urllib.request.urlopen(f"{owner_web_url(server, topic)}/metrics", timeout=60) as answer:
        lines = [line for line in answer.read().decode().splitlines() if topic in line]
    samples = {line.partition("{")[0]: line.rpartition(" ")[2] for line in lines}
    assert samples["pulsar_compaction_succeed_count"] == "1"
    assert samples["pulsar_compaction_removed_event_count"] == str(len(ROUNDS) - 7)


def test_a_second_request_is_refused_and_an_unknown_topic_not_found(server: Server, topic: str) -> None:
    for method in ("PUT", "GET"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(urllib.request.Request(url_of(server, topic), method=method), timeout=60)
        assert caught.value.code == 404
