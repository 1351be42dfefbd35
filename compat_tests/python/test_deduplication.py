"""Deduplication with the official client: sent again after a kill, with and without a snapshot, in chunks."""

import threading
import time
from concurrent.futures import Future

import pulsar
import pytest

from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.python.support import assert_silent, bodies, incompressible, receive_bodies, settle

DEDUPLICATION = {"brokerDeduplicationEnabled": "true"}
CHUNKED_MESSAGE_SIZE = 100_000


def send_numbered(producer: pulsar.Producer, first: int, last: int) -> None:
    """Messages first .. last - 1, each with its number as sequence id."""
    futures = []
    for number in range(first, last):
        future: Future[object] = Future()
        futures.append(future)
        producer.send_async(f"m-{number}".encode(), settle(future), sequence_id=number)
    producer.flush()
    for future in futures:
        future.result(10)


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


def test_what_the_client_itself_sends_again_is_stored_once(
    make_server: ServerFactory, topic: str, make_client: ClientFactory
) -> None:
    """Killed in mid-stream: the client comes back by itself and repeats all that was not answered, single messages and
    batches. Without deduplication some would stand in the log twice."""
    server = make_server(settings={**DEDUPLICATION, "brokerDeduplicationEntriesInterval": "50"})
    server.start()
    client = make_client(server.broker_url)
    client.subscribe(topic, "s").close()
    producers = [
        client.create_producer(
            topic, producer_name=f"p{number}", batching_enabled=number == 1, max_pending_messages=10_000
        )
        for number in range(2)
    ]
    stop = threading.Event()
    sent = [0, 0]
    failures: list[object] = []

    def stream(index: int) -> None:
        while not stop.is_set():
            producers[index].send_async(f"{index}-{sent[index]}".encode(), note_failure)
            sent[index] += 1
            time.sleep(0.0005)

    def note_failure(result: object, _: object) -> None:
        if result != pulsar.Result.Ok:
            failures.append(result)

    threads = [threading.Thread(target=stream, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        time.sleep(0.5)
        server.kill()
        server.start()
    time.sleep(0.3)
    stop.set()
    for thread in threads:
        thread.join()
    for producer in producers:
        producer.flush()
    assert not failures
    assert min(sent) > 300
    consumer = make_client(server.broker_url).subscribe(topic, "s")
    got = receive_bodies(consumer, sum(sent))
    for index in range(2):
        own = [body for body in got if body.startswith(b"%d-" % index)]
        assert own == [b"%d-%d" % (index, number) for number in range(sent[index])]
    assert_silent(consumer)
