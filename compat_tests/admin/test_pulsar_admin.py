"""Apache's own `pulsar-admin` against our REST port: a first session as an administrator has it."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from compat_tests.conftest import ClientFactory
from compat_tests.harness import Server, wait_until
from compat_tests.maven_jars import class_path, need_java
from compat_tests.python.support import bodies, receive, send_all

TOOLS = (("org.apache.pulsar", "pulsar-client-tools", "4.0.6"),)
VERDICT = "<<< "
NOISE = ("WARN", "INFO", "DEBUG", "ERROR")

pytestmark = pytest.mark.slow


class PulsarAdmin:
    """One JVM that runs the tool's commands one by one."""

    def __init__(self, server: Server, folder: Path) -> None:
        source = Path(__file__).with_name("Admin.java")
        jars = class_path("pulsar-tools", TOOLS)
        self._errors = (folder / "errors").open("w+")
        self._process = subprocess.Popen(
            [
                "java",
                "-Xmx256m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                jars,
                str(source),
                server.web_url,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def run(self, *words: str) -> tuple[bool, str]:
        """(whether it worked, what it printed)"""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        said: list[str] = []
        for line in self._process.stdout:
            if line.startswith(VERDICT):
                return line.strip() == f"{VERDICT}ok", "\n".join(said).strip()
            if not any(f" {kind} " in line for kind in NOISE):
                said.append(line.rstrip("\n"))
        raise AssertionError(f"the tool ended: {self.errors()}")

    def __call__(self, *words: str) -> str:
        """What a command that works prints."""
        worked, said = self.run(*words)
        assert worked, f"{words}: {said} {self.errors()}"
        return said

    def json(self, *words: str) -> Any:
        return json.loads(self(*words))

    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-2_000:]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._errors.close()


@pytest.fixture
def admin(own_server: Server, tmp_path: Path) -> Iterator[PulsarAdmin]:
    need_java()
    made = PulsarAdmin(own_server, tmp_path)
    yield made
    made.close()


def test_a_first_session(admin: PulsarAdmin, own_server: Server, make_client: ClientFactory) -> None:
    assert admin("clusters", "list") == "standalone"
    admin("tenants", "create", "acme", "-r", "boss", "-c", "standalone")
    assert admin.json("tenants", "get", "acme") == {"adminRoles": ["boss"], "allowedClusters": ["standalone"]}
    admin("namespaces", "create", "acme/orders", "-b", "8")
    assert admin("namespaces", "list", "acme") == "acme/orders"
    assert admin.json("namespaces", "bundles", "acme/orders")["numBundles"] == 8

    admin("namespaces", "set-retention", "acme/orders", "-t", "10m", "-s", "100M")
    assert admin.json("namespaces", "get-retention", "acme/orders") == {
        "retentionTimeInMinutes": 10,
        "retentionSizeInMB": 100,
    }
    admin("namespaces", "set-message-ttl", "acme/orders", "-ttl", "60")
    assert admin("namespaces", "get-message-ttl", "acme/orders") == "60"
    admin("namespaces", "remove-message-ttl", "acme/orders")
    assert admin("namespaces", "get-message-ttl", "acme/orders") == "null"
    admin("namespaces", "set-property", "acme/orders", "-k", "fillAckHolesIntervalSeconds", "-v", "180")
    admin("namespaces", "grant-permission", "acme/orders", "--role", "r1", "--actions", "produce,consume")
    assert admin("namespaces", "permissions", "acme/orders").startswith("r1")

    topic = "persistent://acme/orders/t"
    admin("topics", "create-partitioned-topic", topic, "-p", "2")
    admin("topics", "update-partitioned-topic", topic, "-p", "3")
    assert admin.json("topics", "get-partitioned-topic-metadata", topic)["partitions"] == 3
    admin("topics", "create", "persistent://acme/orders/plain")
    listed = {f"{topic}-partition-{index}" for index in range(3)} | {"persistent://acme/orders/plain"}
    assert set(admin("topics", "list", "acme/orders").split()) == listed
    admin("topicPolicies", "set-max-producers", "persistent://acme/orders/plain", "-p", "5")
    assert admin("topicPolicies", "get-max-producers", "persistent://acme/orders/plain") == "5"

    worked, _ = admin.run("topics", "create", "persistent://acme/orders/plain")
    assert not worked
    wait_until(lambda: "This topic already exists" in admin.errors(), "the reason is shown")

    client = make_client(own_server.broker_url)
    positions(admin, client, "persistent://acme/orders/plain")
    worked, _ = admin.run("namespaces", "delete", "acme/orders")
    assert not worked
    admin("topics", "delete-partitioned-topic", topic)
    admin("topics", "delete", "persistent://acme/orders/plain", "-f")
    admin("namespaces", "delete", "acme/orders")
    admin("tenants", "delete", "acme")
    assert admin("tenants", "list").split() == ["public", "pulsar"]


def positions(admin: PulsarAdmin, client: pulsar.Client, topic: str) -> None:
    """Stats, peeks and moves of a subscription."""
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic, batching_enabled=False), bodies(10))
    for message in receive(consumer, 10):
        consumer.acknowledge(message)
    wait_until(lambda: admin.json("topics", "stats", topic)["subscriptions"]["s"]["msgBacklog"] == 0, "acknowledged")
    consumer.close()
    assert admin.json("topics", "stats-internal", topic)["numberOfEntries"] == 10
    admin("topics", "reset-cursor", topic, "-s", "s", "-t", "1h")
    assert admin.json("topics", "stats", topic)["subscriptions"]["s"]["msgBacklog"] == 10
    assert "m-0" in admin("topics", "peek-messages", topic, "-s", "s", "-n", "1")
    admin("topics", "skip", topic, "-s", "s", "-n", "4")
    assert admin.json("topics", "stats", topic)["subscriptions"]["s"]["msgBacklog"] == 6
    admin("topics", "clear-backlog", topic, "-s", "s")
    assert admin.json("topics", "last-message-id", topic)["entryId"] == 9
    admin("topics", "create-subscription", topic, "-s", "late", "-m", "earliest")
    assert sorted(admin("topics", "subscriptions", topic).split()) == ["late", "s"]
    admin("topics", "unsubscribe", topic, "-s", "late")
    assert admin("topics", "lookup", topic).startswith("pulsar://")
    admin("topics", "unload", topic)
    assert "terminated" in admin("topics", "terminate", topic)
