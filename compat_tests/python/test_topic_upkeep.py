"""What the server does to topics as time passes, with the official client: time to live, retention, quotas, unused
topics."""

import json
import urllib.request
from collections.abc import Callable
from typing import Any

import pulsar
import pytest

from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.harness import Server, wait_until
from compat_tests.python.support import assert_silent, bodies, read_bodies, receive_bodies, send_all

OFTEN = {
    "messageExpiryCheckIntervalInMinutes": "0.005",
    "backlogQuotaCheckIntervalInSeconds": "1",
    "brokerDeleteInactiveTopicsFrequencySeconds": "1",
}


@pytest.fixture(autouse=True)
def not_the_peer(is_peer: bool) -> None:
    if is_peer:
        pytest.skip("the peer looks after minutes only (NOTES.md)")


def get_json(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.loads(answer.read())


def backlog_of(server: Server, topic: str, subscription: str) -> int:
    stats = get_json(f"{server.web_url}/admin/v2/{topic.replace('://', '/')}/stats")
    backlog: int = stats["subscriptions"][subscription]["msgBacklog"]
    return backlog


def topics_of(server: Server) -> list[str]:
    topics: list[str] = get_json(f"{server.web_url}/admin/v2/persistent/public/default")
    return topics


def test_expired_messages_stay_expired_after_a_kill_and_retained_for_readers(
    make_server: ServerFactory, topic: str, make_client: ClientFactory
) -> None:
    retention = {"defaultRetentionTimeInMinutes": "10", "defaultRetentionSizeInMB": "-1"}
    server = make_server(settings={**OFTEN, **retention, "ttlDurationDefaultInSeconds": "1"})
    server.start()
    client = make_client(server.broker_url)
    client.subscribe(topic, "s").close()
    producer = client.create_producer(topic)
    send_all(producer, bodies(10))
    wait_until(lambda: backlog_of(server, topic, "s") == 0, "the messages expire")
    client.close()
    server.kill()
    server.start()
    client = make_client(server.broker_url)
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic), bodies(2, "new"))
    assert receive_bodies(consumer, 2) == bodies(2, "new")
    assert_silent(consumer)
    assert read_bodies(client.create_reader(topic, pulsar.MessageId.earliest), 12) == bodies(10) + bodies(2, "new")


def test_a_topic_over_its_quota_fails_its_producers_until_it_is_consumed(
    make_server: ServerFactory, topic: str, make_client: ClientFactory
) -> None:
    quota = {"backlogQuotaDefaultLimitBytes": "10000", "backlogQuotaDefaultRetentionPolicy": "producer_exception"}
    server = make_server(settings={**OFTEN, **quota})
    server.start()
    client = make_client(server.broker_url)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    send_all(producer, [b"x" * 1_000] * 12)
    wait_until(lambda: refuses_producers(client, topic, pulsar.ProducerBlockedQuotaExceededException), "the quota")
    receive_bodies(consumer, 12)
    consumer.close()
    wait_until(lambda: backlog_of(server, topic, "s") == 0, "the acknowledgements arrive")
    assert send_all(client.create_producer(topic), [b"again"])


def refuses_producers(client: pulsar.Client, topic: str, error: type[Exception]) -> bool:
    try:
        client.create_producer(topic).close()
    except error:
        return True
    return False


def test_a_topic_over_its_quota_may_drop_its_oldest_messages_instead(
    make_server: ServerFactory, topic: str, make_client: ClientFactory
) -> None:
    quota = {
        "backlogQuotaDefaultLimitBytes": "10000",
        "backlogQuotaDefaultRetentionPolicy": "consumer_backlog_eviction",
    }
    server = make_server(settings={**OFTEN, **quota})
    server.start()
    client = make_client(server.broker_url)
    client.subscribe(topic, "s").close()
    producer = client.create_producer(topic)
    send_all(producer, [b"%04d" % number + b"x" * 1_000 for number in range(30)])
    wait_until(lambda: backlog_of(server, topic, "s") < 10, "old messages are skipped")
    left = backlog_of(server, topic, "s")
    got = receive_bodies(client.subscribe(topic, "s"), left)
    assert [body[:4] for body in got] == [b"%04d" % number for number in range(30 - left, 30)]
    assert send_all(producer, [b"still open"])


def test_topics_that_nobody_uses_are_deleted_and_those_with_subscriptions_are_not(
    make_server: ServerFactory, topic: str, make_client: ClientFactory
) -> None:
    server = make_server(settings=OFTEN)
    server.start()
    client = make_client(server.broker_url)
    client.create_producer(topic)
    client.subscribe(f"{topic}-kept", "s").close()
    left = client.create_producer(f"{topic}-left")
    send_all(left, bodies(3))
    left.close()
    wait_until(lambda: f"{topic}-left" not in topics_of(server), "the unused topic is deleted")
    assert {topic, f"{topic}-kept"} <= set(topics_of(server))
    assert send_all(client.create_producer(f"{topic}-left"), [b"made anew"])


def test_who_publishes_faster_than_allowed_is_slowed_down_and_loses_nothing(
    make_server: ServerFactory, topic: str, make_client: ClientFactory, stopwatch: Callable[[], float]
) -> None:
    server = make_server(settings={"maxPublishRatePerTopicInMessages": "100"})
    server.start()
    client = make_client(server.broker_url)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    before = stopwatch()
    for first in range(0, 300, 50):
        send_all(producer, [f"m-{number}".encode() for number in range(first, first + 50)])
    assert stopwatch() - before > 1.4, "100 at once, 100 a second then, and the last 50 are only waited for afterwards"
    assert receive_bodies(consumer, 300) == bodies(300)
