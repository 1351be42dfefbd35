"""Exports of a real server to a receiver of OTLP: names, kinds and attributes as Apache's broker has them, and the
values of what the official client did."""

import json
import re
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pulsar
import pytest
from prometheus_client.parser import text_string_to_metric_families

from compat_tests.harness import Server, ServerFailedError, free_port
from magnetar import __version__
from tests.server.official_client import client_of
from tests.server.telemetry.otlp_receiver import Export, OtlpReceiver

ROOT = Path(__file__).resolve().parents[3]
APACHES = json.loads((ROOT / "tests" / "vectors" / "otel_metrics.json").read_text())
"""What Apache's broker 4.0.7 exported after a client had used topics of all kinds: name -> kind, unit, attributes."""

MISSING = {
    "pulsar.broker.managed_ledger.cache.pool.allocation.active.count": "Netty's pools",
    "pulsar.broker.managed_ledger.cache.pool.allocation.size": "Netty's pools",
    "pulsar.broker.managed_ledger.cursor.incoming.size": "not counted",
    "pulsar.broker.managed_ledger.cursor.outgoing.logical.size": "not counted",
    "pulsar.broker.managed_ledger.cursor.outgoing.size": "not counted",
    "pulsar.broker.managed_ledger.persist.mds.operation.count": "not counted",
    "pulsar.broker.managed_ledger.persist.operation.count": "not counted",
    "pulsar.broker.producer.message.drop.count": "no producer is made to drop messages",
    "pulsar.broker.request.schema_registry.duration": "a histogram",
    "pulsar.broker.request.topic.lookup.duration": "a histogram",
    "pulsar.broker.topic.transaction.buffer.client.operation.count": "no transactions",
    "pulsar.broker.topic.transaction.count": "no transactions",
}
"""The metrics of Apache's broker that this one lacks, which compat_tests/NOTES.md tells users."""

TOPIC = "persistent://public/default/orders"
PARTITIONED = "persistent://public/default/parted"
VOLATILE = "non-persistent://public/default/volatile"

pytestmark = pytest.mark.process


@contextmanager
def exporting(folder: Path, **variables: str) -> Iterator[tuple[Server, OtlpReceiver]]:
    """Yields a running server, and the receiver to which it exports ten times a second."""
    with OtlpReceiver() as receiver:
        environment = {
            "OTEL_SDK_DISABLED": "false",
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "OTEL_METRIC_EXPORT_INTERVAL": "100",
            **variables,
        }
        with Server(folder, environment=environment) as server:
            yield server, receiver
        server.assert_no_errors()


def used(client: pulsar.Client, server: Server) -> list[pulsar.Message]:
    """Publishes six messages to topics of every kind, and returns the four that a consumer of TOPIC received."""
    received = []
    for topic in (TOPIC, f"{PARTITIONED}-partition-1", VOLATILE):
        consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared, consumer_name="taker")
        producer = client.create_producer(topic, producer_name="maker")
        for _ in range(6):
            producer.send(b"hello", partition_key="k")
        if topic == TOPIC:
            received = [consumer.receive(60_000) for _ in range(4)]
            consumer.acknowledge(received[0])
            consumer.acknowledge(received[2])
            producer.send(b"later", deliver_after=timedelta(hours=1))
    return received


def test_values_are_those_of_what_clients_did(tmp_path: Path) -> None:
    topic = {"pulsar.domain": "persistent", "pulsar.tenant": "public", "pulsar.namespace": "public/default"}
    with exporting(tmp_path) as (server, receiver), client_of(server) as client:
        used(client, server)

        def is_whole(export: Export) -> bool:
            acknowledged = export.value("pulsar.broker.consumer.message.ack.count", pulsar_topic=TOPIC)
            delayed = export.value("pulsar.broker.topic.subscription.delayed.entry.count", pulsar_topic=TOPIC)
            return acknowledged == 2 and delayed == 1

        export = receiver.wait_for(is_whole)
    assert export.resource["service.name"] == "pulsar-broker"
    assert export.resource["service.version"] == __version__
    assert export.resource["pulsar.cluster"] == "standalone"
    incoming = export.metrics["pulsar.broker.topic.message.incoming.count"].points
    assert {**topic, "pulsar.topic": TOPIC} in [point.attributes for point in incoming]
    assert {**topic, "pulsar.topic": PARTITIONED, "pulsar.partition.index": 1} in [each.attributes for each in incoming]
    assert export.value("pulsar.broker.topic.message.incoming.count", pulsar_topic=TOPIC) == 7
    assert export.value("pulsar.broker.topic.message.incoming.count", pulsar_topic=VOLATILE) == 6
    assert export.value("pulsar.broker.topic.storage.entry.outgoing.count", pulsar_topic=TOPIC) == 7
    assert export.value("pulsar.broker.topic.producer.count", pulsar_topic=PARTITIONED) == 1
    assert export.value("pulsar.broker.consumer.message.unack.count", pulsar_topic=TOPIC) == 4
    assert export.value("pulsar.broker.consumer.message.outgoing.count", pulsar_topic=TOPIC) == 6
    assert export.value("pulsar.broker.consumer.permit.count", pulsar_topic=TOPIC, pulsar_consumer_name="taker") == 994
    made = export.metrics["pulsar.broker.producer.message.incoming.count"].points
    assert {point.attributes["pulsar.producer.access_mode"] for point in made} == {"shared"}
    name = "public/default/persistent/orders"
    holes = "pulsar.broker.managed_ledger.message_range.count"
    cursors = [each for each in export.metrics[holes].points if each.attributes["pulsar.managed_ledger.name"] == name]
    assert [each.value for each in cursors if each.attributes["pulsar.managed_ledger.cursor.name"] == "s"] == [1]
    assert export.value("pulsar.broker.managed_ledger.count") == 2


def test_names_kinds_units_and_attributes_are_those_of_apaches_broker(tmp_path: Path) -> None:
    with exporting(tmp_path) as (server, receiver), client_of(server) as client:
        used(client, server)
        path = f"{server.web_url}/admin/v2/persistent/public/default/orders/compaction"
        urllib.request.urlopen(urllib.request.Request(path, method="PUT"), timeout=60).close()
        export = receiver.wait_for(
            lambda export: "pulsar.broker.topic.compaction.compacted.entry.size" in export.metrics
        )
    ours = {
        name: {
            "kind": metric.kind,
            "unit": metric.unit,
            "attributes": sorted({key for point in metric.points for key in point.attributes}),
        }
        for name, metric in export.metrics.items()
    }
    assert ours == {name: known for name, known in APACHES.items() if name not in MISSING}


def test_the_variables_of_the_environment_name_the_service(tmp_path: Path) -> None:
    variables = {
        "OTEL_SERVICE_NAME": "orders-broker",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment=blue,pulsar.cluster=west",
    }
    with exporting(tmp_path, **variables) as (_, receiver):
        resource = receiver.wait_for(lambda export: True).resource
    assert (resource["service.name"], resource["deployment"], resource["pulsar.cluster"]) == (
        "orders-broker",
        "blue",
        "west",
    )


def test_a_page_for_prometheus_is_served_on_a_port_of_its_own(tmp_path: Path) -> None:
    port = free_port()
    variables = {
        "OTEL_METRICS_EXPORTER": "prometheus",
        "OTEL_EXPORTER_PROMETHEUS_PORT": str(port),
        "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
    }
    with exporting(tmp_path, **variables) as (server, receiver), client_of(server) as client:
        used(client, server)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            families = {each.name: each for each in text_string_to_metric_families(answer.read().decode())}
        assert not receiver.exports
    values = {
        each.labels["pulsar_topic"]: each.value
        for each in families["pulsar_broker_topic_message_incoming_count"].samples
        if each.name.endswith("_total")
    }
    assert values[TOPIC] == 7
    assert families["target_info"].samples[0].labels["service_name"] == "pulsar-broker"


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"OTEL_METRICS_EXPORTER": "carrier-pigeon"}, "OTEL_METRICS_EXPORTER: there is no exporter 'carrier-pigeon'"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/xml"}, "OTEL_EXPORTER_OTLP_PROTOCOL is 'http/xml'"),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "pip install opentelemetry-exporter-otlp-proto-grpc"),
        (
            {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "ninety"},
            "OTEL_EXPORTER_PROMETHEUS_PORT is 'ninety', which is no port",
        ),
    ],
)
def test_a_server_that_cannot_export_as_it_is_told_does_not_start(
    tmp_path: Path, variables: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ServerFailedError, match=re.escape(sentence)), exporting(tmp_path, **variables):
        pass


def test_a_port_for_prometheus_that_is_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        variables = {
            "OTEL_METRICS_EXPORTER": "prometheus",
            "OTEL_EXPORTER_PROMETHEUS_PORT": port,
            "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
        }
        sentence = f"OTEL_EXPORTER_PROMETHEUS_PORT: 127.0.0.1:{port}: Address already in use"
        with pytest.raises(ServerFailedError, match=sentence), exporting(tmp_path, **variables):
            pass
