"""Each text that docs/TROUBLESHOOTING.md quotes is really said: the tests bring about the symptoms, with real servers.

`…` in a quotation stands for anything. A symptom that takes too much to bring about here names the test that does.
"""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pulsar
import pytest

from compat_tests.harness import Server, wait_until
from compat_tests.products import Magnetar, interpreter
from tests.doc_pages.command_lines import ROOT
from tests.server.official_client import client_of

PAGE = (ROOT / "docs" / "TROUBLESHOOTING.md").read_text()
QUOTED = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
IN_A_CELL = re.compile(r"`(answered 400[^`]*|journal: replayed[^`]*)`")
"""Quotations in the other cells of a table."""
SECONDS_MAX = 120
ELSEWHERE = {
    "Failed due to too many pending lookup requests": "tests/server/protocol/test_handlers_lookup.py",
    "no answer in time from …": "compat_tests/messages/test_faults.py",
}
"""Quotations that another test brings about."""
TOKEN = "org.apache.pulsar.broker.authentication.AuthenticationProviderToken"


def hear(quotation: str, text: str) -> None:
    """Asserts that the page quotes this, and that it was said."""
    assert quotation in {*QUOTED.findall(PAGE), *IN_A_CELL.findall(PAGE)}, f"the page does not have: {quotation}"
    pattern = ".*".join(map(re.escape, quotation.split("…")))
    assert re.search(pattern, text), f"{quotation}\n{text}"


def said(*words: str) -> str:
    """Runs our program, and returns what it says."""
    command = [*interpreter(), "-m", "magnetar", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
    return done.stdout + done.stderr


@contextmanager
def trying(*words: str, **environment: str) -> Iterator[None]:
    """Runs our program until the end of the block, for commands that try again for a long time."""
    command = [*interpreter(), "-m", "magnetar", *words]
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(
        command, stdin=nowhere, stdout=nowhere, stderr=nowhere, env=os.environ | environment
    ) as process:
        try:
            yield
        finally:
            process.kill()


def log_of(server: Server) -> str:
    return server.log_path.read_text()


def hear_in_log(server: Server, quotation: str) -> None:
    pattern = ".*".join(map(re.escape, quotation.split("…")))
    wait_until(lambda: re.search(pattern, log_of(server)) is not None, quotation)
    hear(quotation, log_of(server))


def refuse(action: object, *arguments: object, **options: object) -> None:
    with pytest.raises(pulsar.PulsarException):
        action(*arguments, **options)  # type: ignore[operator]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = {
        "maxConsumersPerTopic": "2",
        "maxMessageSize": "20000",
        "backlogQuotaDefaultLimitBytes": "100",
        "backlogQuotaDefaultRetentionPolicy": "producer_exception",
        "backlogQuotaCheckIntervalInSeconds": "1",
    }
    with Server(tmp_path_factory.mktemp("server"), settings=settings) as running:
        yield running


@pytest.mark.process
def test_a_client_at_the_wrong_port(server: Server) -> None:
    def talk(data: bytes) -> None:
        with socket.create_connection(("127.0.0.1", server.broker_port), timeout=SECONDS_MAX) as sock:
            sock.sendall(data)
            while sock.recv(1024):
                continue

    web = f"pulsar://127.0.0.1:{server.address.web_port}"
    hear("the server does not speak Pulsar's protocol", said("consume", "t", "-s", "x", "--service-url", web))
    hear_in_log(server, "answered 400 to what is no HTTP request")
    talk(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    http = "connection closed: looks like HTTP; this port speaks Pulsar's binary protocol, the web port is another one"
    hear_in_log(server, http)
    talk(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500))
    tls = "connection closed: looks like TLS; this port speaks Pulsar's binary protocol without TLS (pulsar://)"
    hear_in_log(server, tls)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        nobody = f"pulsar://127.0.0.1:{unused.getsockname()[1]}"
        hear("cannot connect to …: Connection refused", said("consume", "t", "-s", "x", "--service-url", nobody))


@pytest.mark.process
def test_refused_producers_and_consumers(server: Server) -> None:
    with client_of(server) as client:
        client.subscribe("e", "s")
        refuse(client.subscribe, "e", "s")
        hear_in_log(server, "Exclusive consumer is already connected")
        shared = {"consumer_type": pulsar.ConsumerType.Shared}
        client.subscribe("sh", "a", **shared)
        client.subscribe("sh", "a", **shared)
        refuse(client.subscribe, "sh", "a", **shared)
        hear_in_log(server, "Topic reached max consumers limit")
        refuse(client.create_producer, "persistent://no/where/t")
        hear_in_log(server, "Namespace not found")
    large = said("produce", "big", "-m", "x" * 30_000, "--service-url", server.broker_url)
    hear("the message is larger than the server takes (MessageTooBig)", large)
    why = said("why", "e", "s", "--admin-url", server.web_url)
    hear("Every message of the topic is acknowledged: there is no backlog.", why)


@pytest.mark.process
def test_a_backlog_above_its_quota(server: Server) -> None:
    with client_of(server) as client:
        consumer = client.subscribe("quota", "s")
        producer = client.create_producer("quota")
        for _ in range(5):
            producer.send(bytes(100))
        for _ in range(5):
            consumer.receive(SECONDS_MAX * 1000)

        def is_refused() -> bool:
            try:
                client.create_producer("quota").close()
            except pulsar.PulsarException:
                return True
            return False

        wait_until(is_refused, "the quota is noticed")
        hear_in_log(server, "Cannot create producer on topic with backlog quota exceeded")
        why = said("why", "quota", "s", "--admin-url", server.web_url)
        hear("entries of the backlog were delivered and are not acknowledged", why)


@pytest.mark.process
def test_a_full_disk(tmp_path: Path) -> None:
    full = {"diskUsageThreshold": "0.001", "diskUsageLwmThreshold": "0.001"}
    with Server(tmp_path, settings=full) as server:
        hear_in_log(server, "bookie is read-only, was writable: the disk is … full")
        with client_of(server) as client:
            refuse(client.create_producer("t", send_timeout_millis=1000).send, b"x")
        hear_in_log(server, "the bookie is read-only: the disk is … full")


@pytest.mark.process
def test_topics_and_subscriptions_that_nobody_makes(tmp_path: Path) -> None:
    settings = {"allowAutoTopicCreation": "false", "allowAutoSubscriptionCreation": "false"}
    with Server(tmp_path, settings=settings) as server:
        with client_of(server) as client:
            refuse(client.create_producer, "t")
        hear_in_log(server, "partitionMetadata refused: Topic … not found")
        said("admin", "--admin-url", server.web_url, "topics", "create", "t")
        with trying("consume", "t", "-s", "x", "--service-url", server.broker_url):
            hear_in_log(server, "Subscription … does not exist")


@pytest.mark.process
def test_clients_that_are_not_let_in(tmp_path: Path) -> None:
    key = tmp_path / "key"
    said("tokens", "create-secret-key", "--output", str(key))
    alice = said("tokens", "create", "--secret-key", str(key), "--subject", "alice").strip()
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authenticationProviders": TOKEN,
        "tokenSecretKey": str(key),
        "superUserRoles": "admin",
    }
    with Server(tmp_path / "server", settings=settings) as server:
        consume = ("consume", "t", "-s", "x", "--service-url", server.broker_url)
        with trying(*consume):
            nobody = "not authenticated by method 'none': there is no method 'none', and there is no anonymousUserRole"
            hear_in_log(server, nobody)
        with trying(*consume, MAGNETAR_TOKEN="damaged"):
            hear_in_log(server, "not authenticated by method 'token': the token is not valid: …")
        with trying(*consume, MAGNETAR_TOKEN=alice):
            hear_in_log(server, "denied LOOKUP on … to role …")
        listing = ("topics", "list", "public/default")
        hear("Authentication required", said("admin", "--admin-url", server.web_url, *listing))
        login = ("--auth-plugin", "token", "--auth-params", f"token:{alice}")
        denied = said("admin", "--admin-url", server.web_url, *login, *listing)
        hear("Unauthorized to validateNamespaceOperation for operation [GET_TOPICS] on namespace […]", denied)


@pytest.mark.process
def test_a_start_that_is_refused(server: Server, tmp_path: Path) -> None:
    free = ("--broker-port", "0", "--web-port", "0")
    in_use = said("standalone", "--data-dir", str(server.data_dir), *free)
    hear("data folder … is in use by pid …", in_use)
    taken = ("--broker-port", str(server.broker_port), "--web-port", "0")
    hear("port … is in use by pid …", said("standalone", "--data-dir", str(tmp_path / "a"), *taken))
    wrong = said("standalone", "--data-dir", str(tmp_path / "c"), *free, "--set", "maxMessageSize=much")
    hear("…: expected a whole number of bytes from 1 to …", wrong)
    hear("metadataStoreUrl is not set: a broker of a cluster needs it", said("broker", "--set", "clusterName=c"))
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        away = ("--set", f"metadataStoreUrl=zk:127.0.0.1:{unused.getsockname()[1]}")
        soon = ("--set", "metadataStoreOperationTimeoutSeconds=1", "--set", "clusterName=c")
        ports = ("--set", "brokerServicePort=0", "--set", "webServicePort=0")
        hear("no ZooKeeper server answers within … s", said("broker", *away, *soon, *ports))


@pytest.mark.process
def test_a_journal_that_is_replayed_and_one_that_is_damaged(tmp_path: Path) -> None:
    never_flushed = {"flushInterval": "3600000"}
    server = Server(tmp_path, settings=never_flushed)
    server.start()
    with client_of(server) as client:
        producer = client.create_producer("t")
        for _ in range(20):
            producer.send(b"x" * 1000)
    server.kill()
    server.start()
    hear_in_log(server, "journal: replayed … entries in … batches in … s")
    server.kill()
    journal = min((server.data_dir / "journal").glob("*.journal"))
    content = bytearray(journal.read_bytes())
    content[content.index(b"x" * 900)] ^= 1
    journal.write_bytes(content)
    start = ("standalone", "--data-dir", str(server.data_dir), "--broker-port", "0", "--web-port", "0")
    hear("… is damaged at offset …: …", said(*start))


@pytest.mark.process
def test_a_process_without_descriptors(tmp_path: Path) -> None:
    few = Magnetar(["bash", "-c", 'ulimit -n 60; exec "$@"', "few", sys.executable])
    with Server(tmp_path, product=few) as server:
        sockets = [socket.create_connection(("127.0.0.1", server.broker_port)) for _ in range(60)]
        hear_in_log(server, "out of file descriptors: … connections refused so far")
        for each in sockets:
            each.close()


@pytest.mark.process
def test_settings_without_effect(tmp_path: Path) -> None:
    settings = {"maxMessageSiz": "1", "numIOThreads": "4", "functionsWorkerEnabled": "true"}
    with Server(tmp_path, settings=settings) as server:
        hear_in_log(server, "unknown keys, which Apache does not know either: …")
        hear_in_log(server, "without effect in this version: …")
        hear_in_log(server, "is not honoured in this version: …")


def test_every_quotation_of_the_page_is_brought_about_by_a_test() -> None:
    here = Path(__file__).read_text()
    for quotation in QUOTED.findall(PAGE):
        assert f'"{quotation}"' in here, quotation
    for quotation, path in ELSEWHERE.items():
        assert quotation.removesuffix(" from …") in (ROOT / path).read_text(), quotation
