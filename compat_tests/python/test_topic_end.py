"""How topics end: they are terminated for ever, or deleted while clients use them."""

import json
import urllib.error
import urllib.request
from typing import Any

import pulsar
import pytest

from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.harness import Server, wait_until
from compat_tests.python.support import assert_silent, bodies, position, read_bodies, receive_bodies, send_all


def call(server: Server, method: str, path: str) -> tuple[int, Any]:
    """Makes a call and returns (status, JSON or None)."""
    request = urllib.request.Request(f"{server.web_url}/admin/v2/{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


def path_of(topic: str) -> str:
    return topic.replace("://", "/")


def test_a_terminated_topic_takes_no_messages_and_is_read_to_its_end(
    own_server: Server, topic: str, make_client: ClientFactory
) -> None:
    client = make_client(own_server.broker_url)
    client.subscribe(topic, "s").close()
    producer = client.create_producer(topic, send_timeout_millis=5_000)
    ids = send_all(producer, bodies(10))
    status, last = call(own_server, "POST", f"{path_of(topic)}/terminate")
    assert status == 200
    assert (last["ledgerId"], last["entryId"]) == position(ids[-1])
    with pytest.raises(pulsar.PulsarException):
        producer.send(b"too late")
    for _ in range(2):
        with pytest.raises(pulsar.TopicTerminated):
            make_client(own_server.broker_url).create_producer(topic)
        own_server.kill()
        own_server.start()
    # The reader has a client of its own, because the C++ library drops its connection when it learns of a topic's end,
    # and everything on it reconnects.
    client = make_client(own_server.broker_url)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert read_bodies(reader, 10) == bodies(10)
    assert not reader.has_message_available()
    client.close()
    consumer = make_client(own_server.broker_url).subscribe(topic, "s")
    assert receive_bodies(consumer, 10) == bodies(10)
    assert_silent(consumer)


def test_a_terminated_topic_without_subscriptions_is_still_read_to_its_end(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    reading = client.create_reader(topic, pulsar.MessageId.earliest, receiver_queue_size=1)
    send_all(client.create_producer(topic), bodies(10))
    assert read_bodies(reading, 2) == bodies(2)
    assert call(server, "POST", f"{path_of(topic)}/terminate")[0] == 200
    assert read_bodies(reading, 8) == bodies(10)[2:], "who was in the middle of it"
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert read_bodies(reader, 10) == bodies(10), "who comes now"
    consumer = client.subscribe(topic, "late", initial_position=pulsar.InitialPosition.Earliest)
    assert receive_bodies(consumer, 10) == bodies(10)


def test_a_client_at_the_end_of_a_topic_keeps_its_connection(
    server: Server, client: pulsar.Client, topic: str, is_peer: bool
) -> None:
    if is_peer:
        pytest.skip("the client and all on it come back, a reader ten times a second (NOTES.md)")
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic), bodies(1))
    consumer.acknowledge(consumer.receive(10_000))
    other = client.create_producer(f"{topic}-other")
    before = server.log_size()
    assert call(server, "POST", f"{path_of(topic)}/terminate")[0] == 200
    reader = client.create_reader(topic, pulsar.MessageId.latest)
    client.subscribe(topic, "late")
    send_all(other, bodies(10))
    assert not reader.has_message_available()
    assert "connected, Pulsar-CPP" not in server.log_text(before)


def test_a_topic_in_use_is_deleted_by_force_only_and_begins_anew(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    send_all(producer, bodies(10, "old"))
    assert call(server, "DELETE", path_of(topic))[0] == 412
    assert call(server, "DELETE", f"{path_of(topic)}?force=true")[0] == 204
    wait_until(lambda: call(server, "GET", f"{path_of(topic)}/stats")[0] == 200, "its clients made it anew")
    send_all(producer, bodies(3))
    seen: list[bytes] = []
    while bodies(3)[-1] not in seen:
        seen += receive_bodies(consumer, 1)
    assert seen[-3:] == bodies(3)


def test_a_full_last_ledger_that_no_subscription_holds_stays_for_readers(
    make_server: ServerFactory, make_client: ClientFactory, topic: str, is_peer: bool
) -> None:
    """A job that reads without a subscription, such as Spark's connectors, finds what was written last: a ledger that
    is full and that no durable cursor protects goes when the next message has made another one, and not before."""
    if is_peer:
        pytest.skip("Apache makes the next ledger at once, and deletes the full one at the next retention check")
    server = make_server(
        settings={
            "managedLedgerMaxEntriesPerLedger": "5",
            "managedLedgerMinLedgerRolloverTimeMinutes": "0",
            "retentionCheckIntervalInSeconds": "1",
            "brokerDeleteInactiveTopicsEnabled": "false",
        }
    )
    server.start()
    client = make_client(server.broker_url)

    def entries(name: str) -> int:
        status, stats = call(server, "GET", f"{path_of(name)}/internalStats")
        assert status == 200
        return int(stats["numberOfEntries"])

    def read() -> list[bytes]:
        return read_bodies(client.create_reader(topic, pulsar.MessageId.earliest), 5)

    producer = client.create_producer(topic, batching_enabled=False)
    send_all(producer, bodies(5))
    other = client.create_producer(f"{topic}-other", batching_enabled=False)
    for _ in range(2):  # twice, because a check may be under way while the first ledger becomes full
        for body in bodies(6):
            other.send(body)
        wait_until(
            lambda: entries(f"{topic}-other") < 5, "a retention check has deleted the other topic's full ledgers"
        )
        assert entries(topic) == 5
        assert read() == bodies(5)
    server.kill()
    server.start()
    client = make_client(server.broker_url)
    assert read() == bodies(5)
    assert entries(topic) == 5
    client.create_producer(topic, batching_enabled=False).send(b"the next")
    wait_until(lambda: entries(topic) == 1, "the full ledger goes behind the next one")
