"""Apache's own `pulsar-admin` works against our REST port, through a first session as an administrator has it."""

from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from compat_tests.admin.java_admin import PulsarAdmin
from compat_tests.conftest import ClientFactory
from compat_tests.harness import Server, wait_until
from compat_tests.maven_jars import need_java
from compat_tests.python.support import bodies, receive, send_all

pytestmark = pytest.mark.slow


@pytest.fixture
def admin(own_server: Server, tmp_path: Path) -> Iterator[PulsarAdmin]:
    need_java()
    made = PulsarAdmin(own_server, tmp_path)
    yield made
    made.close()


def test_a_first_session(admin: PulsarAdmin, own_server: Server, make_client: ClientFactory) -> None:
    assert admin("clusters", "list") == "standalone"
    admin("clusters", "create", "other", "--url", "http://h:1", "--broker-url", "pulsar://h:2")
    admin("clusters", "update-peer-clusters", "other", "--peer-clusters", "standalone")
    assert admin.json("clusters", "get-peer-clusters", "other") == ["standalone"]
    admin("clusters", "update-peer-clusters", "other", "--peer-clusters", "")
    assert admin("clusters", "get-peer-clusters", "other") == "null"
    admin("tenants", "create", "acme", "-r", "boss", "-c", "standalone")
    assert admin.json("tenants", "get", "acme") == {"adminRoles": ["boss"], "allowedClusters": ["standalone"]}
    admin("namespaces", "create", "acme/orders", "-b", "8")
    assert admin("namespaces", "list", "acme") == "acme/orders"
    assert admin.json("namespaces", "bundles", "acme/orders")["numBundles"] == 8

    admin("namespaces", "set-anti-affinity-group", "acme/orders", "-g", "g1")
    assert admin("namespaces", "get-anti-affinity-group", "acme/orders") == "g1"
    assert admin("namespaces", "get-anti-affinity-namespaces", "-p", "acme", "-c", "standalone", "-g", "g1") == (
        "acme/orders"
    )
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
    """Looks at a subscription's stats, peeks at its messages and moves it."""
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
