"""The delayed messages of a subscription by the time at which they are due."""

import datetime
import time

import pulsar
import pytest

from compat_tests.harness import Server, wait_until
from compat_tests.python.rest import Admin, Refused

HOUR_MS = 3_600_000


def test_delayed_messages_are_told_by_time_until_they_are_acknowledged(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    admin, path = Admin(server), topic.replace("://", "/")
    consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    client.subscribe(topic, "exclusive")
    producer = client.create_producer(topic, batching_enabled=False)
    before_ms = int(time.time() * 1000)
    for hours in (1, 1, 3):
        producer.send(b"later", deliver_after=datetime.timedelta(hours=hours))
    ids = [producer.send(b"now")]
    told = f"{path}/subscription/s/delayed"
    wait_until(lambda: admin.get(told)["messages"] == 3, "all delayed messages are put aside")
    answer = admin.get(told)
    after_ms = int(time.time() * 1000) + 1
    assert before_ms + HOUR_MS <= answer["nextDue"] <= after_ms + HOUR_MS
    assert sum(each["messages"] for each in answer["buckets"]) == 3
    assert answer["buckets"][0]["from"] <= answer["nextDue"] < answer["buckets"][0]["to"]
    assert answer["buckets"][-1]["to"] > before_ms + 3 * HOUR_MS
    assert answer["isCut"] is False
    consumer.acknowledge(ids[0])
    admin.post(f"{path}/subscription/s/skip_all")
    wait_until(lambda: admin.get(told)["buckets"] == [], "what is skipped is not delayed any more")
    # Exclusive consumers get delayed messages at once, so nothing is delayed for their subscription.
    assert admin.get(f"{path}/subscription/exclusive/delayed") == {
        "messages": 0,
        "nextDue": None,
        "buckets": [],
        "isCut": False,
    }
    with pytest.raises(Refused, match="404"):
        admin.get(f"{path}/subscription/nobody/delayed")
