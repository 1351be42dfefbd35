"""A server under the load of the real client is backed up, killed and restored: what was confirmed is there."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pulsar
import pytest
from pulsar.schema import AvroSchema, Record, String

from compat_tests.harness import Server, wait_until
from compat_tests.python.compaction import compact
from compat_tests.python.rest import Admin
from tests.server.backup.commands import back_up, restore, run, verified
from tests.server.official_client import client_of

pytestmark = pytest.mark.process

LOADED = "persistent://public/default/loaded"
SMALL_LEDGERS = {"managedLedgerMaxEntriesPerLedger": "300", "managedLedgerMinLedgerRolloverTimeMinutes": "0"}
RECEIVE_MS = 30_000


class Person(Record):  # type: ignore[misc]  # pulsar-client has no types
    name = String()


class Load:
    """Publishes numbers to LOADED from a thread of its own, and counts the receipts, which come in order."""

    def __init__(self, client: pulsar.Client) -> None:
        self._producer = client.create_producer(LOADED, max_pending_messages=200, block_if_queue_full=True)
        client.subscribe(LOADED, "keep").close()
        self._stop = threading.Event()
        self.confirmed = 0
        self.faults: list[object] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            self._producer.send_async(b"%d" % number, self._received)
            number += 1
        self._producer.flush()

    def _received(self, result: object, message_id: object) -> None:
        if result == pulsar.Result.Ok:
            self.confirmed += 1
        else:
            self.faults.append(result)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


@contextmanager
def loading(client: pulsar.Client) -> Iterator[Load]:
    load = Load(client)
    try:
        wait_until(lambda: load.confirmed > 1000, "a thousand receipts")
        yield load
    finally:
        load.stop()
    assert load.faults == []


def numbers(client: pulsar.Client, topic: str) -> list[int]:
    """Reads a topic of numbers from its begin to its end."""
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    found = []
    while reader.has_message_available():
        found.append(int(reader.read_next(RECEIVE_MS).data()))
    reader.close()
    return found


def all_of(consumer: pulsar.Consumer, count: int) -> list[bytes]:
    return [bytes(consumer.receive(RECEIVE_MS).data()) for _ in range(count)]


def prepare(client: pulsar.Client, admin: Admin, server: Server) -> None:
    """Fills topics with everything that a backup has to bring back."""
    admin.put("tenants/shop", {"allowedClusters": ["standalone"]})
    admin.put("namespaces/shop/orders", {})
    admin.post("namespaces/shop/orders/deduplication", True)
    admin.post("namespaces/shop/orders/retention", {"retentionTimeInMinutes": 7, "retentionSizeInMB": 9})

    holes = client.subscribe("holes", "sub", pulsar.ConsumerType.Shared, unacked_messages_timeout_ms=None)
    producer = client.create_producer("holes")
    for number in range(50):
        producer.send(b"%d" % number)
    for number in range(50):
        message = holes.receive(RECEIVE_MS)
        if number % 3:
            holes.acknowledge(message)
    client.create_producer("people", schema=AvroSchema(Person)).send(Person(name="Ada"))
    keyed = client.create_producer("keyed")
    for number in range(20):
        keyed.send(b"%d" % number, partition_key=f"k{number % 4}")
    compact(server, "persistent://public/default/keyed")
    delayed = client.create_producer("delayed")
    client.subscribe("delayed", "sub", pulsar.ConsumerType.Shared)
    delayed.send(b"later", deliver_after=timedelta(hours=1))
    delayed.send(b"now")
    once = client.create_producer("persistent://shop/orders/once", producer_name="till")
    for number in range(10):
        once.send(b"%d" % number, sequence_id=number)
    holes.close()


def check(client: pulsar.Client, admin: Admin) -> None:
    """Compares a restored server with what `prepare` made."""
    assert "shop" in admin.get("tenants")
    assert admin.get("namespaces/shop/orders/retention") == {"retentionTimeInMinutes": 7, "retentionSizeInMB": 9}
    holes = client.subscribe("holes", "sub", pulsar.ConsumerType.Shared)
    assert sorted(map(int, all_of(holes, 17))) == list(range(0, 50, 3))
    with pytest.raises(pulsar.Timeout):
        holes.receive(300)
    people = client.subscribe(
        "people", "new", schema=AvroSchema(Person), initial_position=pulsar.InitialPosition.Earliest
    )
    assert people.receive(RECEIVE_MS).value().name == "Ada"
    assert admin.get("schemas/public/default/people/schema")["type"] == "AVRO"
    newest = client.create_reader("keyed", pulsar.MessageId.earliest, is_read_compacted=True)
    assert [int(newest.read_next(RECEIVE_MS).data()) for _ in range(4)] == [16, 17, 18, 19]
    assert not newest.has_message_available()
    delayed = client.subscribe("delayed", "sub", pulsar.ConsumerType.Shared)
    assert all_of(delayed, 1) == [b"now"]
    with pytest.raises(pulsar.Timeout):
        delayed.receive(300)
    once = client.create_producer("persistent://shop/orders/once", producer_name="till")
    assert once.last_sequence_id() == 9
    once.send(b"again", sequence_id=9)
    once.send(b"10", sequence_id=10)
    assert numbers(client, "persistent://shop/orders/once") == list(range(11))


def test_what_was_confirmed_before_a_backup_is_there_after_a_kill_and_a_restore(tmp_path: Path) -> None:
    folder, restored_data = tmp_path / "backup", tmp_path / "restored" / "data"
    server = Server(tmp_path / "first", settings=SMALL_LEDGERS)
    with server, client_of(server) as client:
        prepare(client, Admin(server), server)
        with loading(client) as load:
            confirmed = load.confirmed
            back_up(server, folder)
            during = load.confirmed
            wait_until(lambda: load.confirmed > during, "publishing goes on")
        server.assert_no_errors()
        server.kill()
        server.log_path.unlink()
    manifest = verified(folder)
    restore(folder, restored_data)
    with Server(tmp_path / "second", settings=SMALL_LEDGERS, data_dir=restored_data) as second:
        with client_of(second) as client:
            found = numbers(client, LOADED)
            assert found == list(range(len(found)))
            assert len(found) >= confirmed
            check(client, Admin(second))
            client.create_producer("fresh").send(b"new")
        fresh = Admin(second).get("persistent/public/default/fresh/internalStats")["ledgers"][0]["ledgerId"]
        assert fresh > max(manifest.ledgers)
        second.assert_no_errors()
        second.restart()
        with client_of(second) as client:
            assert numbers(client, LOADED) == found
            kept = client.subscribe(LOADED, "keep")
            assert [int(data) for data in all_of(kept, len(found))] == found


def test_the_next_backup_reads_only_what_is_new_and_forgets_deleted_topics(tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    with Server(tmp_path / "first") as server, client_of(server) as client:
        producer = client.create_producer("a")
        for _ in range(20):
            producer.send(b"x" * 100_000)
        client.create_producer("gone").send(b"y" * 100_000)
        client.close()
        first = back_up(server, folder)
        assert first > 2_100_000
        assert back_up(server, folder) < 20_000
        Admin(server).delete("persistent/public/default/gone?force=true")
        with client_of(server) as again:
            again.create_producer("a").send(b"z" * 50_000)
        assert 50_000 < back_up(server, folder) < 80_000
        manifest = verified(folder)
        held = {path.name for path in (folder / "ledgers").iterdir()}
        assert held == {copy.part.name for copy in manifest.ledgers.values() if copy.part.name}
        assert sum(path.stat().st_size for path in (folder / "ledgers").iterdir()) < 2_090_000
        assert back_up(server, folder, "--full") > 2_050_000
        verified(folder)


def test_a_restored_server_has_a_history_of_its_own_so_its_backup_mixes_nothing(tmp_path: Path) -> None:
    folder, data = tmp_path / "backup", tmp_path / "restored"
    with Server(tmp_path / "first") as server:
        with client_of(server) as client:
            client.create_producer("a").send(b"1")
        back_up(server, folder)
        with client_of(server) as client:
            client.create_producer("b").send(b"2")
    restore(folder, data)
    with Server(tmp_path / "second", data_dir=data) as second:
        with client_of(second) as client:
            client.create_producer("c").send(b"3")
        done = run("backup", folder, "--admin-url", second.web_url)
    assert done.returncode == 0
    assert "another history" in done.stderr
    manifest = verified(folder)
    assert manifest.generation == 2
    assert all(copy.part.name.endswith("-2.entries") for copy in manifest.ledgers.values() if copy.part.name)


def test_a_restore_refuses_a_folder_that_is_not_empty_and_a_folder_without_a_backup(tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").write_text("mine")
    with Server(tmp_path / "first") as server:
        back_up(server, tmp_path / "backup")
        refused = run("backup", tmp_path / "used", "--admin-url", server.web_url)
    assert "holds other files" in refused.stderr
    done = run("restore", tmp_path / "backup", "--data-dir", tmp_path / "used")
    assert done.returncode == 1
    assert done.stderr == f"magnetar: {tmp_path}/used is not empty: name a folder that is new or empty\n"
    assert [path.name for path in (tmp_path / "used").iterdir()] == ["file"]
    nothing = run("restore", tmp_path / "used", "--data-dir", tmp_path / "new")
    assert nothing.returncode == 1
    assert "holds no backup" in nothing.stderr
    assert not (tmp_path / "new").exists()
