"""Data folders as a real server leaves them, and the receipts that its clients were given."""

import shutil
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import pulsar

from compat_tests.harness import Server
from tests.server.official_client import client_of

SETTINGS = {
    "flushInterval": "600000",
    "journalMaxSizeMB": "1",
    "logSizeLimit": str(1 << 20),
    "dbStorage_writeCacheMaxSizeMb": "4",
    "managedLedgerMaxEntriesPerLedger": "300",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "gcWaitTime": "200",
    "readEntryTimeoutSec": "5",
    "addEntryTimeoutSec": "5",
}
"""Files are small, so that there are several of each kind. A checkpoint comes only when one half of the write cache is
full."""
TOPICS = [f"persistent://public/default/kept-{n}" for n in range(4)]
GONE = "persistent://public/default/gone"
SUBSCRIPTION = "reader"
FIRST_PART, SECOND_PART = 250, 520
"""How many messages each topic gets before the folder for old copies is made, and after it. This leaves more than one
journal behind the last checkpoint."""
PAYLOAD_BYTES = 1500

Position = tuple[int, int]
"""(ledger id, entry id)."""


@dataclass(slots=True)
class Receipts:
    """What was acknowledged of each topic, in order."""

    positions: dict[str, dict[Position, int]] = field(default_factory=dict)
    """By topic: where each acknowledged message is, and its number."""
    sent: dict[str, int] = field(default_factory=dict)
    """By topic: how many messages were sent at all. Those behind the last receipt may or may not be stored."""
    consumed: dict[str, int] = field(default_factory=dict)
    """By topic: how many messages the subscription has acknowledged."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A folder to copy for each case, and a copy of an older state of the same server."""

    name: str
    folder: Path
    older: Path
    receipts: Receipts


def payload(topic: str, number: int) -> bytes:
    head = b"<%s %d>" % (topic.encode(), number)
    return (head * (PAYLOAD_BYTES // len(head) + 1))[:PAYLOAD_BYTES]


def make_scenes(folder: Path) -> dict[str, Scene]:
    """Makes the scene `killed`, a server that got SIGKILL behind a checkpoint, and the scene `stopped`, the same server
    after a clean stop."""
    live = folder / "live"
    receipts = Receipts()
    server = Server(folder / "log", settings=SETTINGS, data_dir=live)
    with server, client_of(server) as client:
        publish(client, [GONE], 200, Receipts())
        publish(client, TOPICS[:3], FIRST_PART, receipts)
        consume(client, TOPICS[0], 120, receipts)
        delete(server, GONE)
        server.stop()
        shutil.copytree(live, folder / "older")
    with server, client_of(server) as client:
        publish(client, TOPICS, SECOND_PART, receipts)
        consume(client, TOPICS[0], 300, receipts)
        consume(client, TOPICS[1], 50, receipts)
        server.kill()
        shutil.copytree(live, folder / "killed")
    with server:
        server.stop()
        shutil.copytree(live, folder / "stopped")
    shutil.rmtree(live)
    return {name: Scene(name, folder / name, folder / "older", receipts) for name in ("killed", "stopped")}


def publish(client: pulsar.Client, topics: list[str], count: int, receipts: Receipts) -> None:
    for topic in topics:
        client.subscribe(topic, SUBSCRIPTION).close()
    producers = {topic: client.create_producer(topic, batching_enabled=False) for topic in topics}
    for topic in topics:
        receipts.positions.setdefault(topic, {})
    for _ in range(count):
        for topic, producer in producers.items():
            number = receipts.sent.get(topic, 0)
            receipts.sent[topic] = number + 1
            producer.send_async(payload(topic, number), _keeper(receipts.positions[topic], number))
    for producer in producers.values():
        producer.flush()
        producer.close()
    assert all(len(receipts.positions[topic]) == receipts.sent[topic] for topic in topics)


def _keeper(positions: dict[Position, int], number: int) -> object:
    def keep(result: pulsar.Result, message_id: pulsar.MessageId) -> None:
        assert result == pulsar.Result.Ok, result
        positions[message_id.ledger_id(), message_id.entry_id()] = number

    return keep


def consume(client: pulsar.Client, topic: str, count: int, receipts: Receipts) -> None:
    """Receives and acknowledges messages. Closing the consumer does not store its position; the server does so every
    second."""
    consumer = client.subscribe(topic, SUBSCRIPTION)
    for _ in range(count):
        message = consumer.receive(30_000)
    consumer.acknowledge_cumulative(message)
    consumer.close()
    receipts.consumed[topic] = receipts.consumed.get(topic, 0) + count


def delete(server: Server, topic: str) -> None:
    path = topic.replace("://", "/")
    request = urllib.request.Request(f"{server.web_url}/admin/v2/{path}?force=true", method="DELETE")
    urllib.request.urlopen(request, timeout=30).close()
