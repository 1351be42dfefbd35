"""A real server one of whose entry logs is damaged in the middle. Without autoSkipNonRecoverableData subscriptions wait
and say why. With it, or after an operator skipped what is lost, everything else comes, once and in order."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import pulsar
import pytest

from compat_tests.harness import Server, wait_until
from tests.server.official_client import client_of
from tests.storage.bookie.helpers import flip_byte

pytestmark = pytest.mark.process

COUNT = 2_000
VICTIM = 900
KEYS = 7
TOPIC = "persistent://public/default/damaged"
PATH = "/admin/v2/persistent/public/default/damaged"
RECEIVE_TIMEOUT_MS = 30_000
TYPES = {
    "exclusive": pulsar.ConsumerType.Exclusive,
    "failover": pulsar.ConsumerType.Failover,
    "shared": pulsar.ConsumerType.Shared,
    "key-shared": pulsar.ConsumerType.KeyShared,
}
SETTINGS = {"brokerDeduplicationEnabled": "true"}


def payload(number: int) -> bytes:
    return b"message %d " % number + b"." * 500


def number_of(message: pulsar.Message) -> int:
    return int(message.data().split()[1])


def call(server: Server, path: str, method: str = "GET", body: bytes | None = None) -> Any:
    request = urllib.request.Request(server.web_url + path, body, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read().decode()
    return json.loads(text) if text.startswith(("{", "[")) else text


def test_a_damaged_entry_log_stops_subscriptions_with_a_reason_and_the_key_lets_them_go_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Server(tmp_path / "first", data_dir=data, settings=SETTINGS) as server, client_of(server) as client:
        for name in (*TYPES, "by hand"):
            client.subscribe(TOPIC, name).close()
        publish(client)
    damage(data / "ledgers")

    with Server(tmp_path / "waiting", data_dir=data, settings=SETTINGS) as server, client_of(server) as client:
        lost = stands_still(server, client)
        seen = call(server, f"{PATH}/unreadable")
        assert seen["complete"] is True
        assert [gap["entries"] for gap in seen["unreadable"]] == [len(lost)]
        # An operator can skip the gap for one subscription, up to its end.
        call(server, f"{PATH}/subscription/by%20hand/skip/{lost[-1] + 1}", "POST")
        consumer = client.subscribe(TOPIC, "by hand")
        assert receive(consumer, COUNT - lost[-1] - 1) == list(range(lost[-1] + 1, COUNT))
        warnings = [line for line in server.log_text().splitlines() if " WARNING " in line or " ERROR " in line]
        assert len(warnings) == 3, warnings  # one by the bookie, one by the topic's log, one by the subscription
        assert sum("are lost; who reads there waits" in line for line in warnings) == 1, warnings

    left = [number for number in range(COUNT) if number not in lost]
    skipping = Server(tmp_path / "skipping", data_dir=data, settings=SETTINGS | {"autoSkipNonRecoverableData": "true"})
    with skipping as server, client_of(server) as client:
        for name, kind in TYPES.items():
            consumer = client.subscribe(TOPIC, name, consumer_type=kind)
            assert receive(consumer, len(left)) == left, name
            consumer.close()
        reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
        assert [number_of(reader.read_next(RECEIVE_TIMEOUT_MS)) for _ in left] == left
        assert not reader.has_message_available()
        stats = call(server, f"{PATH}/stats")["subscriptions"]
        wait_until(
            lambda: all(call(server, f"{PATH}/stats")["subscriptions"][name]["msgBacklog"] == 0 for name in TYPES),
            f"backlogs of 0: {stats}",
        )
        (gap,) = call(server, f"{PATH}/internalStats")["unreadable"]
        assert (gap["entries"], gap["skipped"]) == (len(lost), True)
        assert skipped_by_metrics(server) == len(lost)
        compacted_keys(server, client, left)
        told = [line for line in server.log_text().splitlines() if "are lost; skipped" in line]
        assert len(told) == 1, told


def publish(client: pulsar.Client) -> None:
    producer = client.create_producer(TOPIC, "p", batching_enabled=False, max_pending_messages=0)
    for number in range(COUNT):
        producer.send_async(payload(number), lambda *_: None, partition_key=f"k{number % KEYS}")
    producer.flush()
    producer.close()


def damage(ledgers: Path) -> None:
    """Flips a bit of one message in an entry log."""
    for log in ledgers.rglob("*.log"):
        at = log.read_bytes().find(payload(VICTIM))
        if at >= 0:
            flip_byte(log, at + 20)
            return
    raise AssertionError("the message is in no entry log")


def stands_still(server: Server, client: pulsar.Client) -> list[int]:
    """Receives what comes before the damage, sees why no more comes, and returns the numbers that are lost."""
    consumer = client.subscribe(TOPIC, "exclusive")

    def why() -> str:
        return str(call(server, f"{PATH}/stats")["subscriptions"]["exclusive"]["whyIdle"])

    wait_until(lambda: "are lost" in why(), "a reason in the stats")
    (gap,) = call(server, f"{PATH}/internalStats")["unreadable"]
    before = receive(consumer, gap["firstEntryId"], acknowledges=False)
    assert before == list(range(gap["firstEntryId"]))
    assert gap["firstEntryId"] <= VICTIM <= gap["lastEntryId"]
    assert gap["entries"] < 300
    assert "DigestMismatch" in gap["reason"]
    assert f"{gap['ledgerId']}:{gap['firstEntryId']}" in why()
    consumer.close()
    return list(range(gap["firstEntryId"], gap["lastEntryId"] + 1))


def receive(consumer: pulsar.Consumer, count: int, *, acknowledges: bool = True) -> list[int]:
    numbers = []
    for _ in range(count):
        message = consumer.receive(RECEIVE_TIMEOUT_MS)
        numbers.append(number_of(message))
        if acknowledges:
            consumer.acknowledge(message)
    return numbers


def skipped_by_metrics(server: Server) -> int:
    (line,) = [
        line
        for line in call(server, "/metrics").splitlines()
        if line.startswith("magnetar_storage_unreadable_entries_skipped") and "default/damaged" in line
    ]
    return int(float(line.split()[-1]))


def compacted_keys(server: Server, client: pulsar.Client, left: list[int]) -> None:
    """Shows that compaction goes on behind the gap and keeps the last message of each key."""
    call(server, f"{PATH}/compaction", "PUT")
    wait_until(lambda: call(server, f"{PATH}/compaction")["status"] == "SUCCESS", "the end of compaction")
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest, is_read_compacted=True)
    kept = sorted(left[-KEYS:])
    assert [number_of(reader.read_next(RECEIVE_TIMEOUT_MS)) for _ in kept] == kept
