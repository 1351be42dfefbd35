"""`magnetar leaks` on a cluster of Apache's alone: it names exactly the ledgers that were leaked on purpose, and none
that Apache's broker uses. The cluster works on after the removal, and a restore gives every byte back."""

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pulsar.schema import JsonSchema, Record, String

from compat_tests.cluster import admin
from compat_tests.cluster.apache_seats import ApacheBookie, ApacheBroker
from compat_tests.cluster.cluster import Cluster, Seats
from compat_tests.harness import wait_until
from compat_tests.products import interpreter

NAMESPACE = "public/default"
EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared
TOOL_SECONDS = 120
RECEIVE_MS = 60_000
HOUR_MS = 3_600_000
DELAYED = 60
SETTINGS = {
    "loadBalancerSheddingEnabled": "false",
    "loadBalancerBrokerOverloadedThresholdPercentage": "1000",
    "metadataStoreSessionTimeoutMillis": "20000",
    "managedLedgerDefaultMarkDeleteRateLimit": "0",
    "managedLedgerMaxEntriesPerLedger": "10",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "managedLedgerInfoCompressionType": "ZSTD",
    "managedCursorInfoCompressionType": "LZ4",
    "managedLedgerMetadataOperationsTimeoutSeconds": "60",
    "brokerDeduplicationEnabled": "true",
    "brokerDeduplicationEntriesInterval": "5",
    "delayedDeliveryTrackerFactoryClassName": "org.apache.pulsar.broker.delayed.BucketDelayedDeliveryTrackerFactory",
    "delayedDeliveryMinIndexCountPerBucket": "5",
    "delayedDeliveryMaxTimeStepPerBucketSeconds": "1",
    "delayedDeliveryFixedDelayDetectionLookahead": "0",
}

BOOKIE_KEYS = {"flushInterval": "1000"}
"""Collected entries vanish from the bookie's index at the next flush."""


class User(Record):  # type: ignore[misc]
    name = String(required_default=True)


class UserOfACity(Record):  # type: ignore[misc]
    name = String(required_default=True)
    city = String(required_default=True)


UserOfACity.__name__ = User.__name__


class Site:
    """The cluster, a client of it, and the tools."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.broker = cluster.brokers[0]
        self.client = self.connect()

    def connect(self) -> pulsar.Client:
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Info, str(self.folder / "client.log"))
        return pulsar.Client(self.broker.broker_url, logger=logger, operation_timeout_seconds=60)

    def leaks(self, *words: str) -> list[dict[str, Any]]:
        code, rows = self._leaks(*words)
        assert code == 0, f"{words}: {code} {rows}"
        return rows

    def find(self) -> dict[str, Any]:
        """Returns what the tool finds. Its exit code says whether there are orphans."""
        code, (found,) = self._leaks("find")
        assert code == bool(found["orphans"]), f"{code} {found}"
        return found

    def _leaks(self, *words: str) -> tuple[int, list[dict[str, Any]]]:
        where = ["--metadata-store", self.cluster.zookeeper.url, "--grace-hours", "0", "-o", "json"]
        return self._tool(["leaks", words[0], *where, *words[1:]])

    def bk(self, *words: str) -> list[dict[str, Any]]:
        uri = f"zk://{self.cluster.zookeeper.address}/ledgers"
        code, rows = self._tool(["bk", "--json", "--metadata-service-uri", uri, *words])
        assert code == 0, f"{words}: {code} {rows}"
        return rows

    def _tool(self, words: list[str]) -> tuple[int, list[dict[str, Any]]]:
        """Returns the exit code, which is that of a tool that did its work, and the rows."""
        command = [*interpreter(), "-m", "magnetar", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS)
        assert done.returncode in (0, 1), f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

    def call(self, topic: str, path: str = "", method: str = "GET", body: Any = None) -> Any:
        return admin.call(self.broker, f"/admin/v2/persistent/{NAMESPACE}/{topic}/{path}".rstrip("/"), method, body)

    def stats(self, topic: str) -> Any:
        return self.call(topic, "internalStats?metadata=false")

    def publish(self, topic: str, count: int, **options: Any) -> None:
        producer = self.client.create_producer(f"{NAMESPACE}/{topic}", **options)
        for number in range(count):
            producer.send(b"%d" % number, partition_key=f"k{number % 3}")
        producer.close()

    def record_of_closed(self, ledger_id: int) -> None:
        """Notes the record of a ledger once the broker has closed the ledger."""

        def is_closed() -> bool:
            return bool(self.bk("ledgermetadata", "-l", str(ledger_id))[0]["state"] == "CLOSED")

        wait_until(is_closed, f"ledger {ledger_id} is closed")
        self.record(ledger_id)

    def compact(self, topic: str) -> int:
        """Compacts a topic and returns its compacted ledger."""
        before = self.stats(topic)["compactedLedger"]["ledgerId"]
        self.call(topic, "compaction", "PUT")

        def has_another() -> bool:
            done = self.call(topic, "compaction")["status"] == "SUCCESS"
            return done and bool(self.stats(topic)["compactedLedger"]["ledgerId"] != before)

        wait_until(has_another, "the topic is compacted", 60)
        return int(self.stats(topic)["compactedLedger"]["ledgerId"])

    def ledgers(self) -> set[int]:
        return {row["ledgerId"] for row in self.bk("listledgers")}

    def record(self, ledger_id: int) -> bytes:
        """Returns the bytes of a ledger's record."""
        path = self.folder / f"record-{ledger_id}"
        self.bk("ledgermetadata", "-l", str(ledger_id), "--dump-to-file", str(path))
        return path.read_bytes()

    def entries(self, ledger_id: int) -> list[dict[str, Any]]:
        return self.bk("readledger", "-l", str(ledger_id), "-m")

    def leak(self, ledger_id: int) -> None:
        """Puts the record of a deleted ledger back, as if the broker had died before it deleted the ledger."""
        path = self.folder / f"record-{ledger_id}"
        self.bk("ledgermetadata", "-l", str(ledger_id), "--restore-from-file", str(path))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    seats = Seats(bookie=ApacheBookie, broker=ApacheBroker)
    with Cluster(tmp_path, bookies=1, brokers=1, settings=SETTINGS, bookie_keys=BOOKIE_KEYS, seats=seats) as made:
        yield Site(made, tmp_path)


def used_ledgers(site: Site) -> set[int]:
    """Returns the ledgers that Apache's broker itself says it uses, topic by topic; and, by the labels of their
    records, the buckets of delayed messages, which the broker does not tell."""
    used: set[int] = set()
    for topic in admin.call(site.broker, f"/admin/v2/persistent/{NAMESPACE}"):
        stats = site.stats(topic.rpartition("/")[2])
        used |= {each["ledgerId"] for each in (*stats["ledgers"], *stats["schemaLedgers"], stats["compactedLedger"])}
        used |= {each["cursorLedger"] for each in stats["cursors"].values()}
    for row in site.bk("listledgers", "-meta"):
        if "delayed-index-bucket" in json.dumps(row):
            used.add(row["ledgerId"])
    return used - {-1}


def use_everything(site: Site) -> None:
    """Makes topics that stay: with all kinds of subscriptions, schemas, compaction, delayed messages, and half
    acknowledged batches."""
    kinds = {
        "exclusive": pulsar.ConsumerType.Exclusive,
        "shared": SHARED,
        "failover": pulsar.ConsumerType.Failover,
        "key-shared": pulsar.ConsumerType.KeyShared,
    }
    for name, kind in kinds.items():
        consumer = site.client.subscribe(f"{NAMESPACE}/kinds", name, kind, initial_position=EARLIEST)
        if name == "exclusive":
            site.publish("kinds", 45)
        for _ in range(15):
            consumer.acknowledge(consumer.receive(RECEIVE_MS))
        consumer.close()
    batches = {"batching_enabled": True, "batching_max_messages": 5, "batching_max_publish_delay_ms": 1000}
    consumer = site.client.subscribe(
        f"{NAMESPACE}/batches", "s", SHARED, initial_position=EARLIEST, batch_index_ack_enabled=True
    )
    producer = site.client.create_producer(f"{NAMESPACE}/batches", **batches)
    for number in range(20):
        producer.send_async(b"%d" % number, lambda *_: None)
    producer.flush()
    for number in range(20):
        message = consumer.receive(RECEIVE_MS)
        if number % 2:
            consumer.acknowledge(message)
    consumer.close()
    for kind in (User, UserOfACity):
        values = {"name": "ada"} if kind is User else {"name": "bob", "city": "paris"}
        producer = site.client.create_producer(f"{NAMESPACE}/schemas", schema=JsonSchema(kind))
        producer.send(kind(**values))
        producer.close()
    delay(site, "delayed")


def delay(site: Site, topic: str) -> None:
    """Publishes messages for later and waits until the broker has put some of them into buckets."""
    before = len(buckets(site))
    consumer = site.client.subscribe(f"{NAMESPACE}/{topic}", "s", SHARED, initial_position=EARLIEST)
    producer = site.client.create_producer(f"{NAMESPACE}/{topic}")
    for number in range(DELAYED):
        producer.send(b"%d" % number, deliver_at=int(time.time() * 1000) + HOUR_MS + number * 1000)
    wait_until(lambda: len(buckets(site)) > before, "a bucket is stored", 60)
    consumer.close()
    producer.close()


def buckets(site: Site) -> set[int]:
    rows = site.bk("listledgers", "-meta")
    return {row["ledgerId"] for row in rows if "delayed-index-bucket" in json.dumps(row)}


def leak_everything(site: Site) -> dict[int, str]:
    """Has the broker delete ledgers, and puts their records back. Returns the leaked ledgers with the reason that the
    tool has to find."""
    planted: dict[int, str] = {}
    first = compacted_topic(site)
    site.record_of_closed(first)
    site.publish("compacted", 20)
    site.compact("compacted")
    site.call("compacted", "unload", "PUT")  # The newest entry of a cursor's ledger may not be confirmed: see the docs.
    planted[first] = "superseded compaction"
    planted |= dict.fromkeys(ledgers_of_a_deleted_topic(site), "topic deleted")
    site.publish("kinds", 1)
    consumer = site.client.subscribe(f"{NAMESPACE}/kinds", "unsubscribed", initial_position=EARLIEST)
    consumer.acknowledge_cumulative(consumer.receive(RECEIVE_MS))
    wait_until(lambda: cursor_ledger(site, "unsubscribed") >= 0, "the subscription has a ledger")
    consumer.close()
    cursor = cursor_ledger(site, "unsubscribed")
    site.record(cursor)
    site.call("kinds", "subscription/unsubscribed", "DELETE")
    planted[cursor] = "subscription deleted"
    wait_until(lambda: not planted.keys() & site.ledgers(), "the broker has deleted them", 60)
    for ledger_id in planted:
        site.leak(ledger_id)
    site.bk("readledger", "-l", str(cursor), "--force-recovery")  # Closes the ledger.
    return planted


def cursor_ledger(site: Site, subscription: str) -> int:
    return int(site.stats("kinds")["cursors"][subscription]["cursorLedger"])


def compacted_topic(site: Site) -> int:
    site.client.subscribe(f"{NAMESPACE}/compacted", "s", initial_position=EARLIEST).close()
    site.publish("compacted", 20)
    return site.compact("compacted")


def ledgers_of_a_deleted_topic(site: Site) -> set[int]:
    """Uses a topic, deletes it with its schema, and returns the ledgers that it had."""
    consumer = site.client.subscribe(f"{NAMESPACE}/gone", "s", SHARED, initial_position=EARLIEST)
    site.publish("gone", 25)
    for _ in range(12):
        consumer.acknowledge(consumer.receive(RECEIVE_MS))
    consumer.close()
    others = buckets(site)
    delay(site, "gone")
    stats = site.stats("gone")
    had = {each["ledgerId"] for each in stats["ledgers"]}
    had |= {each["cursorLedger"] for each in stats["cursors"].values()} - {-1}
    had |= buckets(site) - others
    for ledger_id in had:
        site.record(ledger_id)
    site.call("gone", "?force=true", "DELETE")
    return had


def assert_everything_works(site: Site) -> None:
    """Reads what `use_everything` left."""
    for name in ("exclusive", "shared", "failover", "key-shared"):
        kind = pulsar.ConsumerType.Exclusive if name == "exclusive" else SHARED
        kind = {"failover": pulsar.ConsumerType.Failover, "key-shared": pulsar.ConsumerType.KeyShared}.get(name, kind)
        consumer = site.client.subscribe(f"{NAMESPACE}/kinds", name, kind)
        got = {consumer.receive(RECEIVE_MS).data() for _ in range(30)}
        assert {b"44", b"20"} <= got
        consumer.close()
    consumer = site.client.subscribe(f"{NAMESPACE}/batches", "s", SHARED, batch_index_ack_enabled=True)
    left = set(range(0, 20, 2))
    while left:  # Apache's broker also sends the acknowledged parts of batches again after a restart.
        left.discard(int(consumer.receive(RECEIVE_MS).data()))
    consumer.close()
    reader = site.client.create_reader(f"{NAMESPACE}/compacted", pulsar.MessageId.earliest, is_read_compacted=True)
    assert {reader.read_next(RECEIVE_MS).data() for _ in range(3)} == {b"17", b"18", b"19"}
    reader.close()
    answer = admin.call(site.broker, f"/admin/v2/schemas/{NAMESPACE}/schemas/schemas")
    assert [each["version"] for each in answer["getSchemaResponses"]] == [0, 1]
    assert site.stats("delayed")["numberOfEntries"] == DELAYED
    consumer = site.client.subscribe(f"{NAMESPACE}/delayed", "s", SHARED)
    wait_until(
        lambda: site.call("delayed", "stats")["subscriptions"]["s"]["msgDelayed"] == DELAYED,
        "all delayed messages are in the index",
        60,
    )
    consumer.close()


def assert_found(site: Site, planted: dict[int, str]) -> None:
    """Checks that the tool finds the leaked ledgers and nothing else. A leaked ledger that was never closed is kept as
    long as its topic has a record, or a broker that may load the topic, and in the first minutes after it was made."""
    closed = {each for each in planted if site.bk("ledgermetadata", "-l", str(each))[0]["state"] == "CLOSED"}
    found = site.find()
    orphans = {each["ledgerId"]: each["reason"] for each in found["orphans"]}
    kept = {each["ledgerId"]: each["verdict"] for each in found["kept"]}
    assert orphans | {each: planted[each] for each in kept} == planted
    assert closed <= orphans.keys()
    assert set(kept.values()) <= {"open", "young"}
    in_use = used_ledgers(site)
    assert len(in_use) > len(planted)
    assert not in_use & orphans.keys() - buckets(site)
    assert (found["dangling"], found["damaged"], found["unreadable"]) == ([], [], [])
    reasons = {"superseded compaction", "topic deleted", "subscription deleted"}
    assert {planted[each] for each in closed} == reasons, "each kind of leak has a ledger that was closed"


def collect_garbage(site: Site) -> None:
    """Has the bookie delete the entries of ledgers without records now."""
    for bookie in site.cluster.bookies:
        assert isinstance(bookie, ApacheBookie)
        url = f"{bookie.http_url}/api/v1/bookie/gc"
        request = urllib.request.Request(url, b"{}", {"Content-Type": "application/json"}, method="PUT")
        with urllib.request.urlopen(request, timeout=TOOL_SECONDS) as answer:
            answer.read()


def test_only_what_was_leaked_is_found_and_removed_and_all_of_it_comes_back(site: Site, tmp_path: Path) -> None:
    use_everything(site)
    assert site.find()["orphans"] == [], "nothing is leaked yet"
    planted = leak_everything(site)
    assert_found(site, planted)
    admin.call(site.broker, f"/admin/v2/namespaces/{NAMESPACE}/unload", "PUT")
    assert_found(site, planted)
    before = {ledger_id: site.record(ledger_id) for ledger_id in site.ledgers()}
    entries = {ledger_id: site.entries(ledger_id) for ledger_id in planted}
    assert any(entries.values())
    backup = str(tmp_path / "backup")
    site.leaks("backup", backup, "--entries")
    rows = site.leaks("remove", backup, "-f", "--second-look-hours", "0")
    removed = {row["ledgerId"] for row in rows}
    assert removed <= planted.keys()
    assert not removed & site.ledgers()
    assert used_ledgers(site) - buckets(site) <= site.ledgers()
    collect_garbage(site)

    site.client.close()
    site.broker.stop()
    for bookie in site.cluster.bookies:  # For minutes it refuses the entries of a ledger that it has just collected.
        bookie.stop()
        bookie.start()
    site.broker.start()
    site.client = site.connect()
    assert_everything_works(site)
    found = site.find()
    assert {each["ledgerId"] for each in (*found["orphans"], *found["kept"])} == planted.keys() - removed
    assert found["dangling"] == []

    texts = [row["text"] for row in site.leaks("restore", backup, "-f")]
    assert any(text.startswith("restored, with ") for text in texts), "the bookie had collected entries"
    assert {each: site.record(each) for each in removed} == {each: before[each] for each in removed}
    assert {each: site.entries(each) for each in removed} == {each: entries[each] for each in removed}
    site.client.close()
