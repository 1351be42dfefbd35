"""Auto-recovery between both products: Apache's heals ledgers on our bookies, and ours heals ledgers on Apache's
bookies and on ours.

All tests share one cluster and build on each other. It has bookies of ours and two of Apache's; Apache's AutoRecovery
runs first, then `magnetar autorecovery`. On the way the tests compare what each side says about ledgers and marks.
"""

import asyncio
import contextlib
import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from compat_tests.bookkeeper.apache_bookkeeper import SMALL_CACHES, ApacheBookie, Cluster, running_cluster
from compat_tests.bookkeeper.our_bookie import OurBookie
from compat_tests.products import read_line
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.server.commands.main import main
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.repair.auditor_election import current_auditor
from magnetar.storage.repair.auto_recovery import wall_clock_ms
from magnetar.storage.repair.ledger_checker import LedgerChecker
from magnetar.storage.repair.ledger_index import bookies_of
from magnetar.storage.repair.underreplication import Underreplication
from pulsar_proto.records.entry_digest import DigestType
from pulsar_proto.records.ledger_record import LedgerMetadata, LedgerState
from tests.storage.repair.repair_scene import append
from tests.waiting import moment

pytestmark = [pytest.mark.process, pytest.mark.slow]

T = TypeVar("T")
PASSWORD = b"secret"
ENTRIES = 120
HEAL_SECONDS = 180
SETTINGS = {
    "allowLoopback": "true",
    "zkTimeout": "4000",
    "openLedgerRereplicationGracePeriod": "500",
    "rwRereplicateBackoffMs": "200",
    "auditorPeriodicCheckInterval": "0",
}
SHAPES = ((3, 3, 2), (3, 2, 2), (2, 2, 1))
"""Ensemble size, write quorum and ack quorum of the ledgers."""


class Recovery:
    """A process that runs `magnetar autorecovery`."""

    def __init__(self, folder: Path, zookeeper: str, bookie_id: str) -> None:
        settings = {**SETTINGS, "metadataServiceUri": f"zk://{zookeeper}/ledgers", "bookieId": bookie_id}
        command = [sys.executable, "-m", "magnetar", "autorecovery", "--ready-json"]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        with open(folder / f"{bookie_id}.log", "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, bufsize=0
            )
        assert self.process.stdout is not None
        line = read_line(self.process.stdout, time.monotonic() + 120)
        assert line, (folder / f"{bookie_id}.log").read_text()[-2000:]
        assert json.loads(line)["bookieId"] == bookie_id


class Place:
    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.ours = [cluster.start_bookie(f"ours{number}") for number in range(5)]
        self.ledgers: dict[int, bytes] = {}
        """The passwords of the closed ledgers, by id. Each ledger has ENTRIES entries."""
        self.recoveries: list[Recovery] = []
        self.open_ledger = -1
        """The ledger that was left open last."""
        self.decommission: tuple[str, subprocess.Popen[bytes]] | None = None
        """The bookie that Apache's tool retires while the following tests run, and the tool's process."""

    def run(self, program: Callable[[BookKeeperCluster], Awaitable[T]]) -> T:
        async def work() -> T:
            store = await ZooKeeperStore.open(self.cluster.zookeeper)
            client = await BookKeeperCluster.connect(store)
            try:
                return await program(client)
            finally:
                await client.close()
                await store.close()

        return asyncio.run(work())

    def write_ledgers(self, *, rounds: int = 2) -> None:
        """Writes `rounds` ledgers of every shape, each with the next digest in turn, and leaves the last one open."""
        digests = list(DigestType)

        async def program(client: BookKeeperCluster) -> None:
            for number in range(rounds * len(SHAPES)):
                ensemble, write, ack = SHAPES[number % len(SHAPES)]
                password = PASSWORD if number % 2 else b""
                handle = await client.bookkeeper.create_ledger(
                    ensemble_size=ensemble,
                    write_quorum=write,
                    ack_quorum=ack,
                    digest_type=digests[number % len(digests)],
                    password=password,
                )
                await append(handle, ENTRIES)
                if number == rounds * len(SHAPES) - 2:
                    self.open_ledger = handle.ledger_id
                else:
                    await handle.close()
                self.ledgers[handle.ledger_id] = password

        self.run(program)

    def heal(self, lost: str) -> None:
        """Waits until no ledger names the lost bookie and none is marked. Afterwards everything must be readable."""

        async def program(client: BookKeeperCluster) -> None:
            book = Underreplication(client.store, now_ms=wall_clock_ms)
            async with asyncio.timeout(HEAL_SECONDS):
                while True:
                    records = [(await client.driver.read(ledger_id)).metadata for ledger_id in self.ledgers]
                    marked = [ledger_id async for ledger_id in book.marked()]
                    if not marked and not any(lost in bookies_of(metadata) for metadata in records):
                        break
                    await moment()
            for metadata in records:
                await read_every_copy(client, metadata)

        self.run(program)

    def metadata(self, ledger_id: int) -> LedgerMetadata:
        async def program(client: BookKeeperCluster) -> LedgerMetadata:
            return (await client.driver.read(ledger_id)).metadata

        return self.run(program)

    def auditor(self, *, other_than: str = "") -> str:
        """Waits until there is an auditor, which must not be `other_than`, and returns it."""

        async def program(client: BookKeeperCluster) -> str:
            async with asyncio.timeout(HEAL_SECONDS):
                while (auditor := await current_auditor(client.store)) in (None, other_than):
                    await moment()
            assert auditor is not None
            return auditor

        return self.run(program)

    def bk(self, *words: str) -> list[dict[str, Any]]:
        out = io.StringIO()
        uri = f"zk://{self.cluster.zookeeper}/ledgers"
        with contextlib.redirect_stdout(out):
            assert main(["bk", "--metadata-service-uri", uri, "--json", *words]) in (0, None)
        return [json.loads(line) for line in out.getvalue().splitlines()]

    def apache_recovery(self) -> "subprocess.Popen[bytes]":
        conf = self.cluster.folder / "autorecovery.conf"
        keys = {
            **SETTINGS,
            "metadataServiceUri": f"zk+hierarchical://{self.cluster.zookeeper}/ledgers",
            "bookieId": "apache-recovery",
            "httpServerEnabled": "false",
        }
        conf.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
        main_class = "org.apache.bookkeeper.replication.AutoRecoveryMain"
        return self.cluster.spawn("autorecovery", main_class, "--conf", str(conf))


async def read_every_copy(client: BookKeeperCluster, metadata: LedgerMetadata) -> None:
    """Reads each entry from each bookie that should have it, and then all entries as a reader does."""
    if not metadata.is_closed:
        await client.bookkeeper.open_ledger(metadata.ledger_id, password=metadata.password or b"")
    checker = LedgerChecker(client, percentage=100)
    assert await checker.check(await checker.open(metadata.ledger_id)) == []
    reader = await client.bookkeeper.open_ledger(metadata.ledger_id, password=metadata.password or b"")
    assert reader.last_add_confirmed == ENTRIES - 1
    entries: list[bytes] = []
    while len(entries) < ENTRIES:
        entries += await reader.read(len(entries), ENTRIES - 1)
    assert [entry[reader.payload_offset :] for entry in entries] == [b"%d " % n * 5 for n in range(ENTRIES)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with running_cluster(tmp_path_factory.mktemp("repair")) as cluster:
        made = Place(cluster)
        try:
            yield made
        finally:
            for recovery in made.recoveries:
                recovery.process.kill()
                recovery.process.wait()


def busiest(place: Place, bookies: list[str]) -> str:
    """Returns the bookie that most ledgers name."""
    named = [bookies_of(place.metadata(ledger_id)) for ledger_id in place.ledgers]
    return max(bookies, key=lambda bookie: sum(bookie in one for one in named))


def read_by_apache(place: Place, ledgers: list[int]) -> None:
    """Reads all entries with Apache's client."""
    for ledger_id in ledgers:
        shown = place.cluster.shell("readledger", "-ledgerid", str(ledger_id), "-fe", "0", "-le", str(ENTRIES - 1))
        assert shown.returncode == 0, shown.stdout[-2000:]
        assert shown.stdout.count(f"Lid={ledger_id}, Eid=") == ENTRIES, shown.stdout[-2000:]


def take(place: Place, bookie_id: str) -> OurBookie:
    victim = next(bookie for bookie in place.ours if bookie.bookie_id == bookie_id)
    place.ours.remove(victim)
    return victim


def test_apaches_auto_recovery_heals_ledgers_on_our_bookies(place: Place) -> None:
    place.write_ledgers()
    recovery = place.apache_recovery()
    assert place.auditor() == "apache-recovery"
    victim = take(place, busiest(place, list(place.metadata(place.open_ledger).ensembles[0][1])))
    victim.kill()
    place.heal(victim.bookie_id)
    assert place.metadata(place.open_ledger).state is LedgerState.CLOSED
    read_by_apache(place, list(place.ledgers))
    recovery.kill()
    recovery.wait()


def test_both_tools_say_the_same_of_ledgers_and_marks(place: Place) -> None:
    marked = sorted(place.ledgers)[:2]

    async def mark(client: BookKeeperCluster) -> None:
        book = Underreplication(client.store, now_ms=wall_clock_ms)
        for ledger_id in marked:
            await book.mark(ledger_id, ["gone:3181"])

    place.run(mark)
    told = place.cluster.shell("listunderreplicated", "-printmissingreplica").stdout
    rows = place.bk("listunderreplicated")
    assert [row["ledgerId"] for row in rows] == marked
    for row in rows:
        assert str(row["ledgerId"]) in told
        assert row["missingReplicas"] == ["gone:3181"]
    assert told.count("gone:3181") == len(marked)
    for ledger_id in marked:
        shown = place.cluster.shell("ledgermetadata", "-ledgerid", str(ledger_id)).stdout
        (row,) = place.bk("ledgermetadata", "-l", str(ledger_id))
        for value in (
            f"ensembleSize={row['ensembleSize']}",
            f"writeQuorumSize={row['writeQuorumSize']}",
            f"ackQuorumSize={row['ackQuorumSize']}",
            f"state={row['state']}",
            f"length={row['length']}",
            f"lastEntryId={row['lastEntryId']}",
            ", ".join(row["ensembles"]["0"]),
        ):
            assert value in shown, (value, shown)
    assert place.bk("whatisinstanceid")[0]["instanceId"] in place.cluster.shell("whatisinstanceid").stdout
    assert place.cluster.shell("lostbookierecoverydelay", "-set", "3").returncode == 0
    assert place.bk("lostbookierecoverydelay", "-get") == [{"lostBookieRecoveryDelay": 3}]
    place.bk("lostbookierecoverydelay", "-set", "0")
    assert place.cluster.shell("autorecovery", "-disable").returncode == 0
    assert place.bk("autorecovery", "-status")[0]["enabled"] is False
    place.bk("autorecovery", "-enable")


def test_ours_heals_ledgers_on_apaches_bookies(place: Place) -> None:
    apache = [ApacheBookie(place.cluster, f"apache{number}", SMALL_CACHES).start() for number in range(2)]
    place.recoveries = [Recovery(place.cluster.folder, place.cluster.zookeeper, f"r{number}") for number in range(2)]
    # Apache's auditor was killed, and its session may not have expired yet.
    assert place.auditor(other_than="apache-recovery") == "r0"
    shown = place.cluster.shell("whoisauditor")
    assert "r0" in shown.stdout, shown.stdout
    place.write_ledgers(rounds=3)
    victim = max(apache, key=lambda one: len(place.bk("listledgers", "-bookieid", one.bookie_id)))
    assert place.bk("listledgers", "-bookieid", victim.bookie_id)
    victim.process.kill()
    victim.process.wait()
    place.heal(victim.bookie_id)
    # Apache's tool waits half a minute for the auditor to answer.
    shell = ("org.apache.bookkeeper.bookie.BookieShell", "-conf", str(place.cluster.conf))
    process = place.cluster.spawn("decommission", *shell, "decommissionbookie", "-bookieid", victim.bookie_id)
    place.decommission = victim.bookie_id, process
    for _ in range(2):
        stopped = take(place, place.ours[0].bookie_id)
        stopped.stop()
        place.heal(stopped.bookie_id)
    survivor = next(one.bookie_id for one in apache if one is not victim)
    rows = place.bk("listledgers", "-meta")
    assert all(survivor in members for row in rows if row["ensembleSize"] == 3 for members in row["ensembles"].values())


def test_the_auditors_end_makes_another_the_auditor_who_goes_on(place: Place) -> None:
    first = place.recoveries[0]
    assert place.auditor() == "r0"
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    spare = place.cluster.start_bookie("spare")
    victim = take(place, busiest(place, [bookie.bookie_id for bookie in place.ours]))
    victim.kill()
    assert place.auditor(other_than="r0") == "r1"
    place.heal(victim.bookie_id)
    assert any(spare.bookie_id in bookies_of(place.metadata(ledger_id)) for ledger_id in place.ledgers)
    read_by_apache(place, list(place.ledgers)[-4:])


def test_apaches_tool_retired_the_bookie_by_our_auditor(place: Place) -> None:
    assert place.decommission is not None
    bookie_id, process = place.decommission
    assert process.wait(HEAL_SECONDS) == 0, (place.cluster.folder / "decommission.log").read_text()[-2000:]
    assert bookie_id not in place.cluster.shell("listbookies", "-a").stdout
    last = place.recoveries[1].process
    last.send_signal(signal.SIGTERM)
    assert last.wait(60) == 0
