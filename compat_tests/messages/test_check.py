"""`magnetar check` against real servers: exit codes 0, 1, 2 and 3, and what is measured."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from compat_tests.harness import Server, free_port
from compat_tests.messages.commands import run, without_client
from compat_tests.python.rest import Admin
from compat_tests.python.support import bodies, send_all
from compat_tests.security_site import Site, running_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(tmp_path_factory.mktemp("security")) as made:
        yield made


def check(server: Server | None, *words: str, **options: Any) -> tuple[int, dict[str, Any]]:
    """Runs a check with --format json, and returns its exit code and the object."""
    result = run(server, "check", *words, "--format", "json", **options)
    assert result.stderr == b""
    tree: dict[str, Any] = json.loads(result.stdout)
    assert tree["code"] == result.returncode
    return result.returncode, tree


def values(tree: dict[str, Any]) -> dict[str, float]:
    return {measure["name"]: measure["value"] for measure in tree["measures"]}


def test_connection(server: Server) -> None:
    code, tree = check(server, "connection")
    assert (code, tree["subject"]) == (0, server.broker_url)
    assert 0 < values(tree)["connect"] < 5
    assert re.search(r"Server \d", tree["text"]), "the name and the number of the version are two words"
    assert check(server, "connection", "--warn", "0ms")[0] == 1
    assert check(server, "connection", "--critical", "0ms")[0] == 2


def test_a_server_that_is_away_is_critical_for_every_check() -> None:
    port = free_port()
    addresses = ("--service-url", f"pulsar://127.0.0.1:{port}", "--admin-url", f"http://127.0.0.1:{port}")
    for words in (("connection",), ("topic", "t"), ("subscription", "t", "s"), ("latency",), ("brokers",)):
        code, tree = check(None, *words, *addresses)
        assert (code, "Connection refused" in tree["text"]) == (2, True), tree


def test_every_address_has_to_work(server: Server) -> None:
    url = f"{server.broker_url},127.0.0.1:{free_port()}"
    code, tree = check(None, "connection", "--service-url", url)
    assert code == 2
    assert "connect" in values(tree)


def test_a_port_of_another_protocol_is_critical(server: Server) -> None:
    code, tree = check(None, "connection", "--service-url", server.web_url.replace("http", "pulsar"))
    assert (code, "does not speak Pulsar's protocol" in tree["text"] or "closed" in tree["text"]) == (2, True)


class TestLogin:
    def test_a_token_is_taken_or_refused(self, site: Site) -> None:
        more = {"MAGNETAR_TOKEN": site.token("alice")}
        assert check(site.server, "connection", more=more)[0] == 0
        code, tree = check(site.server, "connection", more={"MAGNETAR_TOKEN": "no.token.atall"})
        assert (code, "refused the login" in tree["text"]) == (2, True)

    def test_a_certificate_is_verified_and_its_end_is_measured(self, site: Site) -> None:
        url = ("--service-url", site.server.address.broker_url_tls)
        more = {"MAGNETAR_TOKEN": site.token("alice")}
        trusted = ("--tls-trust-cert-path", str(site.authority.path))
        code, tree = check(site.server, "connection", *url, *trusted, "--warn", "certificate=1s", more=more)
        assert tree["measures"][1]["critical"] == 3 * 86400
        assert values(tree)["certificate"] > 0
        assert check(site.server, "connection", *url, *trusted, "--critical", "certificate=99999d", more=more)[0] == 2
        code, tree = check(site.server, "connection", *url, more=more)
        assert (code, "certificate is not accepted" in tree["text"]) == (2, True)

    def test_statistics_without_rights_are_unknown(self, site: Site) -> None:
        code, tree = check(site.server, "topic", site.topic("t"), more={"MAGNETAR_TOKEN": "no.token.atall"})
        assert (code, tree["state"]) == (3, "UNKNOWN")

    def test_latency_without_rights_is_critical(self, site: Site) -> None:
        more = {"MAGNETAR_TOKEN": site.token("bob")}
        assert check(site.server, "latency", site.topic("t"), "--timeout", "5s", more=more)[0] == 2


@pytest.mark.parametrize("partitions", [0, 3])
def test_topic_and_subscription(server: Server, topic: str, client: pulsar.Client, partitions: int) -> None:
    if partitions:
        Admin(server).put(f"{topic.replace('://', '/')}/partitions", partitions)
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    consumer.close()
    producer = client.create_producer(topic)
    send_all(producer, bodies(9))
    sent_s = time.time()
    code, tree = check(server, "topic", topic, "--warn", "backlog=10", "--critical", "producers=1")
    found = values(tree)
    assert (code, found["backlog"], found["subscriptions"]) == (0, 9, 1)
    assert 1 <= found["producers"] <= max(1, partitions)
    assert found["storage"] > 0
    assert check(server, "topic", topic, "--warn", "9")[0] == 1
    assert check(server, "topic", topic, "--critical", "producers=9")[0] == 2

    code, tree = check(server, "subscription", topic, "s", "--warn", "9", "--critical", "age=1h")
    found = values(tree)
    assert (code, found["backlog"], found["consumers"], found["unacked"]) == (1, 9, 0, 0)
    assert found["age"] <= time.time() - sent_s + 60
    assert check(server, "subscription", topic, "s", "--critical", "age=1ms")[0] == 2
    assert check(server, "subscription", topic, "s", "--critical", "consumers=1")[0] == 2
    code, tree = check(server, "subscription", topic, "absent")
    assert (code, tree["text"]) == (2, "there is no such subscription")
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    for _ in range(9):
        consumer.acknowledge(consumer.receive(60_000))
    code, tree = check(server, "subscription", topic, "s", "--critical", "consumers=1")
    assert (code, values(tree)["consumers"]) == (0, 1)


def test_a_topic_that_is_not_there_is_critical_and_is_not_made(server: Server, topic: str) -> None:
    code, tree = check(server, "topic", topic)
    assert (code, tree["text"]) == (2, "there is no such topic")
    assert topic not in Admin(server).get("persistent/public/default")


def test_latency_leaves_no_subscription_behind(server: Server) -> None:
    code, tree = check(server, "latency", "--critical", "50s", "--samples", "3", "--timeout", "60s")
    assert code == 0
    assert values(tree)["publish"] > 0
    assert check(server, "latency", "--warn", "0ms", "--timeout", "60s")[0] == 1
    assert Admin(server).get("persistent/public/default/magnetar-check/subscriptions") == []


def test_only_latency_needs_the_client(server: Server, tmp_path: Path) -> None:
    more = without_client(tmp_path)
    code, tree = check(server, "latency", more=more)
    assert (code, tree["text"]) == (3, "the client for messages is not installed: pip install 'magnetar[client]'")
    for words in (("connection",), ("brokers",), ("disk", "--path", str(tmp_path), "-w", "100%", "-c", "100%")):
        assert check(server, *words, more=more)[0] == 0


def test_brokers(server: Server, is_cluster: bool) -> None:
    code, tree = check(server, "brokers")
    assert (code, values(tree)["brokers"]) == (0, 3 if is_cluster else 1)
    assert check(server, "brokers", "--warn", "9")[0] == 1
    assert check(server, "brokers", "--critical", "9")[0] == 2


def test_disk(tmp_path: Path) -> None:
    free = int(subprocess.check_output(["df", "--output=avail", "-B1", str(tmp_path)]).split()[-1])
    code, tree = check(None, "disk", "--path", str(tmp_path), "--warn", "100%", "--critical", "100%")
    assert code == 0
    assert values(tree)["free"] == pytest.approx(free, rel=0.1)
    assert check(None, "disk", "--path", str(tmp_path), "--warn", "0%", "--critical", "100%")[0] == 1
    code, tree = check(None, "disk", "--path", "/absent", "--bookie", f"127.0.0.1:{free_port()}")
    assert code == 2
    assert "/absent: No such file or directory" in tree["text"]
    assert "Connection refused" in tree["text"]


@pytest.mark.parametrize("form", ["nagios", "prometheus", "text"])
def test_formats(server: Server, form: str) -> None:
    result = run(server, "check", "connection", "--format", form)
    expected = {
        "nagios": b"CONNECTION OK - ",
        "prometheus": b"# HELP magnetar_check_state",
        "text": b"OK        connection",
    }
    assert result.returncode == 0
    assert result.stdout.startswith(expected[form])


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "CHECK"),
        (("conection",), "invalid choice: 'conection'"),
        (("topic",), "TOPIC"),
        (("topic", "a//b"), "Invalid topic name"),
        (("latency", "--warn", "soon"), "'soon' is no duration"),
        (("latency", "--warn", "nope=1"), "this check has no 'nope'"),
        (("brokers", "--nope"), "unrecognized arguments: --nope"),
        (("connection", "--format", "xml"), "invalid choice: 'xml'"),
    ],
)
def test_wrong_usage_is_unknown(words: tuple[str, ...], complaint: str) -> None:
    result = run(None, "check", *words)
    assert (result.returncode, result.stdout) == (3, b"")
    assert complaint in result.stderr.decode()
