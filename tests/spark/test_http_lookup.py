"""A service URL of the web port, as Java's clients take it: the data source finds brokers, schemas and topics by it."""

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pulsar
import pyarrow as pa
import pytest

from compat_tests.certificates import Authority
from compat_tests.harness import Server, free_port
from compat_tests.python.rest import Admin
from magnetar.spark.jobs import precheck
from magnetar.spark.source import PulsarDataSource
from magnetar.spark.source.client.broker_connection import ClientLogin, Disconnected
from magnetar.spark.source.client.pulsar_client import PulsarClient
from pulsar_proto.errors import TopicNotFound

pytestmark = [pytest.mark.process]

PREFIX = "persistent://public/default"
TLS = "pulsar.client.tlsTrustCertsFilePath"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("http")) as made:
        yield made
        made.assert_no_errors()


def fill(server: Server, topic: str) -> None:
    client = pulsar.Client(server.broker_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    client.subscribe(topic, "keeps")
    producer = client.create_producer(topic, schema=pulsar.schema.StringSchema())
    for number in range(10):
        producer.send(f"m{number}")
    client.close()


def texts(given: Mapping[str, str]) -> list[str]:
    """Reads a topic as a batch query does."""
    source = PulsarDataSource(dict(given))
    reader = source.reader(source.schema())
    batches = [
        batch for task in reader.partitions() for batch in reader.read(task) if isinstance(batch, pa.RecordBatch)
    ]
    return sorted(text for batch in batches for text in batch["value"].to_pylist())


def test_topics_are_read_and_found_by_a_pattern(server: Server) -> None:
    Admin(server).put("persistent/public/default/parted/partitions", 3)
    fill(server, f"{PREFIX}/parted")
    place = {"service.url": server.web_url}
    for topics in ({"topic": f"{PREFIX}/parted"}, {"topicsPattern": f"{PREFIX}/part.*"}):
        precheck.check_service(place)
        precheck.check_topics({**place, **topics})
        assert texts({**place, **topics}) == [f"m{number}" for number in range(10)]


def test_a_topic_that_is_not_there_is_made_for_writers_only(server: Server) -> None:
    client = PulsarClient(server.web_url, ClientLogin())
    try:
        with pytest.raises(TopicNotFound):
            client.partitions(f"{PREFIX}/new")
        assert client.partitions(f"{PREFIX}/new", create=True) == [f"{PREFIX}/new"]
    finally:
        client.close()


def test_a_namespace_that_is_not_there_is_named(server: Server) -> None:
    for url in (server.broker_url, server.web_url):
        for topics in ({"topic": "public/nowhere/t"}, {"topicsPattern": "persistent://public/nowhere/.*"}):
            with pytest.raises(TopicNotFound, match=r"^namespace public/nowhere does not exist$"):
                precheck.check_topics({"service.url": url, **topics}, endless=True)
        with pytest.raises(TopicNotFound, match=rf"^topic {PREFIX}/namespace-not-found does not exist$"):
            precheck.check_topics({"service.url": url, "topic": "namespace-not-found"})


def test_https_leads_to_the_brokers_port_of_tls(tmp_path: Path) -> None:
    authority, topic = Authority(tmp_path), f"{PREFIX}/secret"
    broker, web = authority.issue("localhost"), free_port()
    settings = {
        "brokerServicePortTls": str(free_port()),
        "webServicePortTls": str(web),
        "advertisedAddress": "localhost",
        "tlsCertificateFilePath": str(broker.certificate),
        "tlsKeyFilePath": str(broker.key),
        "tlsTrustCertsFilePath": str(authority.path),
    }
    with Server(tmp_path / "server", settings=settings) as server:
        fill(server, topic)
        place = {"service.url": f"https://localhost:{web}", TLS: str(authority.path)}
        precheck.check_service(place)
        assert len(texts({**place, "topic": topic})) == 10
        client = PulsarClient(place["service.url"], ClientLogin(trust_certs_file=str(authority.path)))
        try:
            assert client.owner(topic).url.startswith("pulsar+ssl://")
        finally:
            client.close()


def test_the_second_host_is_asked_when_the_first_does_not_answer(server: Server) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
        fill(server, f"{PREFIX}/second")
        both = f"{nobody},{server.web_url.removeprefix('http://')}"
        assert len(texts({"service.url": both, "topic": f"{PREFIX}/second"})) == 10
        client = PulsarClient(nobody, ClientLogin())
        with pytest.raises(Disconnected, match=f"{nobody} does not answer"):
            client.check()
