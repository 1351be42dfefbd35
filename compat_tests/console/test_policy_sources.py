"""Where each policy of a topic comes from, after policies were set on all levels."""

from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pulsar
import pytest

from compat_tests.harness import Server, wait_until
from compat_tests.python.rest import Admin


@pytest.fixture
def namespace(server: Server) -> str:
    name = f"public/sources-{uuid4().hex[:8]}"
    Admin(server).put(f"namespaces/{name}")
    return name


def rows(server: Server, topic: str) -> dict[str, dict[str, Any]]:
    found: list[dict[str, Any]] = Admin(server).get(f"{topic.replace('://', '/')}/policySources")
    return {each["policy"]: each for each in found}


def test_each_policy_names_the_level_that_set_it(server: Server, client: pulsar.Client, namespace: str) -> None:
    topic, admin = f"persistent://{namespace}/t", Admin(server)
    producer = client.create_producer(topic)
    admin.post(f"namespaces/{namespace}/messageTTL", 60)
    admin.post(f"namespaces/{namespace}/maxProducersPerTopic", 7)
    admin.post(f"persistent/{namespace}/t/maxProducers", 3)
    admin.post(f"persistent/{namespace}/t/retention", {"retentionTimeInMinutes": 5, "retentionSizeInMB": 6})
    wait_until(lambda: rows(server, topic)["retention"]["source"] == "topic", "the policy holds")
    found = rows(server, topic)
    assert (found["messageTTL"]["value"], found["messageTTL"]["source"]) == (60, "namespace")
    assert (found["maxProducers"]["value"], found["maxProducers"]["source"]) == (3, "topic")
    assert found["maxProducers"]["set"] == {"topic": 3, "namespace": 7, "broker": 0}
    assert found["retention"]["value"]["retentionTimeInMinutes"] == 5
    assert found["dispatchRate"]["source"] == "broker"
    assert {each["source"] for name, each in found.items() if name.startswith("backlogQuota")} == {"broker"}
    assert found["subscriptionTypesEnabled"]["source"] == "broker"
    producer.close()


@pytest.mark.parametrize("local_name", ["t", "a b", "50%25#?"])
def test_the_named_call_sets_the_policy(server: Server, client: pulsar.Client, namespace: str, local_name: str) -> None:
    admin = Admin(server)
    client.create_producer(f"persistent://{namespace}/{local_name}").close()
    topic = f"persistent://{namespace}/{quote(local_name, safe='')}"
    row = rows(server, topic)["messageTTL"]
    assert row["query"] == "messageTTL"
    admin.post(f"{row['path'].removeprefix('/admin/v2/')}?messageTTL=90")
    wait_until(lambda: rows(server, topic)["messageTTL"]["source"] == "topic", "the policy holds")
    assert rows(server, topic)["messageTTL"]["value"] == 90
    row = rows(server, topic)["backlogQuota destination_storage"]
    admin.post(row["path"].removeprefix("/admin/v2/"), {"limitSize": 1_000, "policy": "producer_exception"})
    wait_until(lambda: rows(server, topic)["backlogQuota destination_storage"]["source"] == "topic", "the policy holds")
    assert rows(server, topic)["backlogQuota destination_storage"]["value"] == {
        "limitSize": 1_000,
        "policy": "producer_exception",
    }
