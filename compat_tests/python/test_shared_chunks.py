"""Large messages in chunks to several consumers of one Shared subscription, with the official client."""

import pulsar
import pytest

from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.python.support import assert_silent, incompressible

KINDS = pytest.mark.parametrize(
    "kind", [pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared], ids=lambda kind: kind.name
)


@KINDS
def test_each_large_message_comes_whole_to_one_consumer(
    make_server: ServerFactory, topic: str, make_client: ClientFactory, kind: pulsar.ConsumerType
) -> None:
    server = make_server(settings={"maxMessageSize": "20000", "dispatcherMaxRoundRobinBatchSize": "1"})
    server.start()
    client = make_client(server.broker_url)
    consumers = [client.subscribe(topic, "s", kind, receiver_queue_size=3) for _ in range(3)]
    producer = client.create_producer(topic, batching_enabled=False, chunking_enabled=True)
    sent = [incompressible(90_000, seed) for seed in range(20)]
    for number, content in enumerate(sent):
        producer.send(content, partition_key=f"k{number}")
    got: list[bytes] = []
    tries = 0
    while len(got) < len(sent):
        tries += 1
        assert tries < 2_000, f"{len(got)} of {len(sent)} came"
        for consumer in consumers:
            try:
                message = consumer.receive(20)
            except pulsar.Timeout:
                continue
            got.append(message.data())
            consumer.acknowledge(message)
    assert sorted(got) == sorted(sent)
    for consumer in consumers:
        assert_silent(consumer)
