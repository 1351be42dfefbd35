"""Deduplication with the official client: messages are sent again after a kill, with and without a snapshot, and in
chunks."""

import json
import urllib.request
from concurrent.futures import Future

import pulsar
import pytest

from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.harness import Server, wait_until
from compat_tests.python.lossy_proxy import LossyProxy
from compat_tests.python.support import assert_silent, bodies, incompressible, receive_bodies, settle

DEDUPLICATION = {"brokerDeduplicationEnabled": "true"}
CHUNKED_MESSAGE_SIZE = 100_000


def send_numbered(producer: pulsar.Producer, first: int, last: int) -> None:
    """Sends the messages first .. last - 1, each with its number as sequence id."""
    futures = []
    for number in range(first, last):
        future: Future[object] = Future()
        futures.append(future)
        producer.send_async(f"m-{number}".encode(), settle(future), sequence_id=number)
    producer.flush()
    for future in futures:
        future.result(60)


@pytest.mark.parametrize("entries_interval", ["1000", "3"], ids=["replayed", "from-snapshots"])
def test_what_is_sent_again_after_a_kill_is_stored_once(
    make_server: ServerFactory, topic: str, make_client: ClientFactory, is_peer: bool, entries_interval: str
) -> None:
    server = make_server(settings={**DEDUPLICATION, "brokerDeduplicationEntriesInterval": entries_interval})
    server.start()
    client = make_client(server.broker_url)
    client.subscribe(topic, "s").close()
    producer = client.create_producer(topic, producer_name="p")
    assert producer.last_sequence_id() == -1
    send_numbered(producer, 0, 20)
    send_numbered(producer, 10, 15)
    for generation in range(1, 3):
        client.close()
        server.kill()
        server.start()
        client = make_client(server.broker_url)
        producer = client.create_producer(topic, producer_name="p")
        assert producer.last_sequence_id() == 10 * generation + 9
        send_numbered(producer, 10 * generation - 5, 10 * generation + 20)
    consumer = client.subscribe(topic, "s")
    assert receive_bodies(consumer, 40) == bodies(40)
    assert_silent(consumer)


def test_messages_in_chunks_are_one_message_each(
    make_server: ServerFactory, topic: str, make_client: ClientFactory
) -> None:
    server = make_server(settings={**DEDUPLICATION, "maxMessageSize": "20000"})
    server.start()
    client = make_client(server.broker_url)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="p", chunking_enabled=True)
    contents = [incompressible(CHUNKED_MESSAGE_SIZE, seed) for seed in range(3)]
    for number, content in enumerate(contents):
        producer.send(content, sequence_id=number)
    producer.send(contents[1], sequence_id=1)
    assert receive_bodies(consumer, 3) == contents
    assert_silent(consumer)
    client.close()
    server.kill()
    server.start()
    client = make_client(server.broker_url)
    assert client.create_producer(topic, producer_name="p").last_sequence_id() == 2


def test_without_deduplication_everything_is_stored(
    make_server: ServerFactory, topic: str, make_client: ClientFactory
) -> None:
    server = make_server()
    server.start()
    client = make_client(server.broker_url)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="p")
    send_numbered(producer, 0, 3)
    send_numbered(producer, 0, 3)
    assert receive_bodies(consumer, 6) == bodies(3) * 2


@pytest.mark.parametrize("deduplicated", [True, False], ids=["on", "off"])
def test_what_the_client_itself_sends_again_is_stored_once(
    make_server: ServerFactory, topic: str, make_client: ClientFactory, deduplicated: bool, is_cluster: bool
) -> None:
    """The client's answers are lost, then its connection. It reconnects by itself and repeats what was not answered,
    single messages and batches. Without deduplication these are in the log twice."""
    if is_cluster:
        pytest.skip("lookups in a cluster lead the client from the proxy to the owner's own address")
    server = make_server(settings={"brokerDeduplicationEnabled": str(deduplicated).lower()})
    server.start()
    with LossyProxy(server.broker_port) as proxy:
        client = make_client(proxy.url)
        consumer = make_client(server.broker_url).subscribe(topic, "s")
        producers = [
            client.create_producer(topic, producer_name=f"p{number}", batching_enabled=number == 1)
            for number in range(2)
        ]
        expected = 0
        for first in range(0, 90, 30):
            proxy.lose_answers()
            answers = [send_some(producer, first, first + 30) for producer in producers]
            expected += 60
            wait_until(lambda expected=expected: stored(server, topic) >= expected, "all is stored")  # type: ignore[misc]
            proxy.cut()
            for futures in answers:
                for future in futures:
                    future.result(60)
        assert proxy.lost_bytes > 0
    assert stored(server, topic) == 180 if deduplicated else stored(server, topic) > 180
    if deduplicated:
        got = receive_bodies(consumer, 180)
        for name in (b"p0", b"p1"):
            assert [body for body in got if body.startswith(name)] == [b"%s-%d" % (name, each) for each in range(90)]
        assert_silent(consumer)


def send_some(producer: pulsar.Producer, first: int, last: int) -> "list[Future[object]]":
    futures: list[Future[object]] = []
    for number in range(first, last):
        futures.append(Future())
        producer.send_async(f"{producer.producer_name()}-{number}".encode(), settle(futures[-1]))
    return futures


def stored(server: Server, topic: str) -> int:
    """Returns how many messages the broker took, by its own count."""
    with urllib.request.urlopen(f"{server.web_url}/admin/v2/{topic.replace('://', '/')}/stats", timeout=60) as answer:
        count: int = json.loads(answer.read())["msgInCounter"]
    return count
