"""`magnetar leaks` as a command: on our bookies with a real ZooKeeper, and on a standalone server's data folder."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from compat_tests.bookkeeper.our_bookie import OurBookie
from compat_tests.harness import Server
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.server.commands.main import main
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.managed.ledger_labels import ledger_labels
from pulsar_proto.records.ledger_record import ledger_path
from tests.metadata.zookeeper.zookeeper_server import running
from tests.server.programs.leaks.leaks_command import call

pytestmark = pytest.mark.process

GONE = "public/default/persistent/gone"
CLUSTER = ["initialize-cluster-metadata", "--cluster", "c", "--web-service-url", "http://127.0.0.1:8080"]


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("leaks")
    with running(folder) as server:
        assert main([*CLUSTER, "--metadata-store", f"zk:{server.address}"]) == 0
        add_topics(server.address)
        bookie = OurBookie(folder / "bookie", server.address, {}).start()
        try:
            yield server.address
        finally:
            bookie.kill()


def write(zookeeper: str, name: str) -> int:
    """Writes a ledger of a topic that has no record, and returns its id."""

    async def work() -> int:
        store = await ZooKeeperStore.open(zookeeper)
        cluster = await BookKeeperCluster.connect(store)
        try:
            handle = await cluster.bookkeeper.create_ledger(custom_metadata=ledger_labels(name))
            await handle.add(b"message")
            await handle.close()
            return handle.ledger_id
        finally:
            await cluster.close()
            await store.close()

    return asyncio.run(work())


def add_topics(connect: str) -> None:
    """Makes the record below which the topics of a cluster have theirs."""

    async def work() -> None:
        store = await ZooKeeperStore.open(connect)
        await store.create("/managed-ledgers/public/default", make_parents=True)
        await store.close()

    asyncio.run(work())


def exists(zookeeper: str, path: str) -> bool:
    async def work() -> bool:
        store = await ZooKeeperStore.open(zookeeper)
        try:
            return await store.exists(path) is not None
        finally:
            await store.close()

    return asyncio.run(work())


def test_a_leak_is_found_explained_backed_up_removed_and_restored(zookeeper: str, tmp_path: Path) -> None:
    where = ["--metadata-store", f"zk:{zookeeper}", "--grace-hours", "0"]
    assert call("find", *where).code == 0
    orphan = write(zookeeper, GONE)
    found = call("find", *where, "-o", "json")
    assert found.code == 1
    (row,) = found.row["orphans"]
    assert (row["ledgerId"], row["reason"], row["entries"], row["bytes"]) == (orphan, "topic deleted", 1, 7)
    assert "there is no topic persistent://public/default/gone" in call("find", *where).out
    young = call("find", "--metadata-store", f"zk:{zookeeper}")
    assert (young.code, "1 young: younger than the grace period" in young.out) == (0, True)
    explained = call("explain", str(orphan), *where)
    assert (explained.code, "persistent://public/default/gone" in explained.out) == (1, True)
    assert call("explain", ledger_path(orphan), *where).out == explained.out
    assert call("explain", "/admin/policies/public/default", *where).code == 0
    assert call("explain", "999999", *where).out == "ledger 999999 is gone\n"

    backup = str(tmp_path / "backup")
    assert call("backup", backup, "--entries", *where, "-o", "json").row["entries"] == 1
    early = call("remove", backup, "-f", *where)
    assert (early.code, "second look is due in 60 minutes" in early.err) == (3, True)
    remove = ["remove", backup, "--second-look-hours", "0", *where]
    assert "-f" in call(*remove).err, "nobody is there to be asked"
    assert exists(zookeeper, ledger_path(orphan))
    assert call(*remove, "-f").out == f"ledger {orphan}: removed\n"
    assert not exists(zookeeper, ledger_path(orphan))
    assert call("find", *where).code == 0
    assert "removed" in (tmp_path / "backup" / "log").read_text()
    assert call("restore", backup, "-f", *where, "-o", "json").row["done"]
    assert exists(zookeeper, ledger_path(orphan))
    changed = call(*remove, "-f")
    assert (changed.code, "was changed since the backup" in changed.out) == (1, True), "a restore is a change, too"


def test_another_cluster_on_the_same_ledgers_must_be_given(zookeeper: str) -> None:
    for chroot in ("/second", "/deep/third"):
        uri = f"zk+null://{zookeeper}/ledgers"
        words = [*CLUSTER, "--metadata-store", f"zk:{zookeeper}{chroot}", "--existing-bk-metadata-service-uri", uri]
        assert main(words) == 0
        add_topics(f"{zookeeper}{chroot}")
    first = ["--metadata-store", f"zk:{zookeeper}", "--grace-hours", "0"]
    second = ["--metadata-store", f"zk:{zookeeper}/second"]
    refused = call("find", *first, *second)
    assert (refused.code, f"give --metadata-store zk:{zookeeper}/deep/third, too" in refused.err) == (3, True)
    ledgers = ["--metadata-service-uri", f"zk://{zookeeper}/ledgers"]
    third = ["--metadata-store", f"zk:{zookeeper}/deep/third"]
    beside = call("find", *second, *third, *ledgers)
    assert (beside.code, f"give --metadata-store zk:{zookeeper}, too" in beside.err) == (3, True)
    all_of_them = [*first, *second, *third]
    assert call("find", *all_of_them).code in (0, 1)
    assert call("find", *first, "--all-clusters-given").code in (0, 1)


def test_a_chroot_that_is_not_there_is_not_made(zookeeper: str) -> None:
    missing = call("find", "--metadata-store", f"zk:{zookeeper}/nothing")
    assert (missing.code, "has no /nothing" in missing.err) == (3, True)
    assert not exists(zookeeper, "/nothing")


def test_wrong_usage_and_missing_servers_have_exit_codes_of_their_own(tmp_path: Path) -> None:
    assert call("find").code == 2
    assert call("find", "--metadata-store", "zk:a:1", "--data-dir", "x").code == 2
    assert call("find", "--data-dir", "x", "--grace-hours", "-1").code == 2
    nobody = call("find", "--data-dir", str(tmp_path / "none"))
    assert (nobody.code, "no metadata.sqlite" in nobody.err) == (3, True)
    assert not (tmp_path / "none").exists()


def use(server: Server) -> None:
    """Uses a topic that stays, with a schema and a compacted part, and deletes another one."""
    client = pulsar.Client(server.address.broker_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    client.subscribe("stays", "s", schema=pulsar.schema.StringSchema()).close()
    producer = client.create_producer("stays", schema=pulsar.schema.StringSchema())
    for number in range(5):
        producer.send(str(number), partition_key="k")
    client.close()


def test_a_standalone_server_keeps_all_that_it_uses(tmp_path: Path) -> None:
    where = ["--data-dir", str(tmp_path / "data"), "--grace-hours", "0", "-o", "json"]
    with Server(tmp_path, settings={"brokerDeduplicationEnabled": "true"}) as server:
        use(server)
        busy = call("find", *where)
        assert (busy.code, "is in use by pid" in busy.err) == (3, True)
    found = call("find", *where)
    assert (found.code, found.row["orphans"], found.row["dangling"]) == (0, [], [])
    assert found.row["ledgers"] >= 2
    backup = str(tmp_path / "backup")
    assert call("backup", backup, *where).row["records"] == 0
    assert call("remove", backup, "-f", "--second-look-hours", "0", *where).rows == []
    server.start()
    client = pulsar.Client(server.address.broker_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    reader = client.create_reader("stays", pulsar.MessageId.earliest, schema=pulsar.schema.StringSchema())
    assert [reader.read_next(30_000).value() for _ in range(5)] == ["0", "1", "2", "3", "4"]
    client.close()
    server.stop()
