"""`magnetar bk` on our bookies with a real ZooKeeper: each verb, as text and as JSON, and its exit code."""

import asyncio
import contextlib
import io
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from compat_tests.bookkeeper.our_bookie import OurBookie
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.server.commands.main import main
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.repair.auto_recovery import AutoRecovery, wall_clock_ms
from magnetar.storage.repair.autorecovery_config import AutoRecoveryConfig
from magnetar.storage.repair.underreplication import Underreplication
from tests.metadata.zookeeper.zookeeper_server import running
from tests.storage.repair.repair_scene import append

pytestmark = pytest.mark.process

T = TypeVar("T")
QUICK = AutoRecoveryConfig(rw_rereplicate_backoff_ms=100, open_ledger_rereplication_grace_period=100)


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class Place:
    """The cluster under test."""

    def __init__(self, folder: Path, zookeeper: str) -> None:
        self.folder = folder
        self.zookeeper = zookeeper
        self.bookies: list[OurBookie] = []
        self._numbers = count()

    def bk(self, *words: str) -> Done:
        out, err = io.StringIO(), io.StringIO()
        uri = f"zk+hierarchical://{self.zookeeper}/ledgers"
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(["bk", "--metadata-service-uri", uri, *words])
            except SystemExit as exit:
                code = int(exit.code or 0)
        return Done(code, out.getvalue(), err.getvalue())

    def start_bookie(self, **settings: str) -> OurBookie:
        bookie = OurBookie(self.folder / f"bookie{next(self._numbers)}", self.zookeeper, settings).start()
        self.bookies.append(bookie)
        return bookie

    def on_cluster(self, program: Callable[[BookKeeperCluster], Awaitable[T]]) -> T:
        async def work() -> T:
            store = await ZooKeeperStore.open(self.zookeeper)
            cluster = await BookKeeperCluster.connect(store)
            try:
                return await program(cluster)
            finally:
                await cluster.close()
                await store.close()

        return asyncio.run(work())

    def write(self, entries: int, *, close: bool = True, bookies: int = 3) -> int:
        """Writes a ledger and returns its id."""

        async def program(cluster: BookKeeperCluster) -> int:
            handle = await cluster.bookkeeper.create_ledger(ensemble_size=bookies, write_quorum=2, ack_quorum=2)
            await append(handle, entries)
            if close:
                await handle.close()
            return handle.ledger_id

        return self.on_cluster(program)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("bk")
    with running(folder) as zookeeper:
        made = Place(folder, zookeeper.address)
        assert made.bk("listbookies").code == 1
        assert made.bk("initnewcluster").code == 0
        try:
            for _ in range(4):
                made.start_bookie(zkTimeout="3000")
            yield made
        finally:
            for bookie in made.bookies:
                bookie.kill()


def test_a_cluster_is_made_once(place: Place) -> None:
    again = place.bk("initnewcluster")
    assert again.code == 1
    assert "already" in again.err
    instance = place.bk("whatisinstanceid").out.strip()
    assert len(instance) == 36
    assert place.bk("whatisinstanceid", "--json").rows == [{"instanceId": instance}]


def test_bookies_are_listed_with_addresses_and_space(place: Place) -> None:
    ids = sorted(bookie.bookie_id for bookie in place.bookies)
    for words in ((), ("-rw",), ("-a",)):
        rows = place.bk("listbookies", *words, "--json").rows
        assert [row["bookieId"] for row in rows] == ids
        assert {row["state"] for row in rows} == {"rw"}
    assert place.bk("listbookies", "-ro", "--json").rows == []
    assert "no such bookies" in place.bk("listbookies", "-ro").out
    assert ids[0] in place.bk("listbookies").out
    space = place.bk("bookieinfo", "--json")
    assert space.code == 0
    assert all(0 < row["free"] < row["total"] for row in space.rows)
    (endpoint,) = place.bk("endpointinfo", ids[0], "--json").rows
    assert (endpoint["protocol"], f"{endpoint['host']}:{endpoint['port']}") == ("bookie-rpc", ids[0])
    assert place.bk("endpointinfo", "nobody:1").code == 1


def test_cookies_are_shown_stored_and_deleted(place: Place, tmp_path: Path) -> None:
    bookie = place.bookies[0].bookie_id
    shown = place.bk("cookie_get", bookie)
    assert f'bookieHost: "{bookie}"' in shown.out
    saved = tmp_path / "cookie"
    saved.write_text(shown.out.replace(bookie, "other:1"))
    assert place.bk("cookie_create", "-cf", str(saved), bookie).code == 1, "it is another's"
    assert place.bk("cookie_create", "-cf", str(saved), "other:1").code == 0
    assert place.bk("cookie_create", "-cf", str(saved), "other:1").code == 1
    down = [row for row in place.bk("listbookies", "-a", "--json").rows if row["state"] == "down"]
    assert [row["bookieId"] for row in down] == ["other:1"]
    assert "-f" in place.bk("cookie_delete", "other:1").err, "nobody is there to be asked"
    assert place.bk("cookie_delete", "other:1", "-f").code == 0
    assert place.bk("cookie_get", "other:1").code == 1
    assert "running" in place.bk("cookie_delete", bookie).err


def test_ledgers_are_listed_shown_read_and_deleted(place: Place, tmp_path: Path) -> None:
    ledger = str(place.write(25))
    assert ledger in place.bk("listledgers").out.split()
    row = next(row for row in place.bk("listledgers", "-meta", "--json").rows if str(row["ledgerId"]) == ledger)
    assert (row["state"], row["lastEntryId"], row["digestType"]) == ("CLOSED", 24, "CRC32C")
    assert "password" not in row
    member = row["ensembles"]["0"][0]
    assert {"ledgerId": int(ledger)} in place.bk("listledgers", "-bookieid", member, "--json").rows
    (shown,) = place.bk("ledgermetadata", "-l", ledger, "--json").rows
    assert shown["ensembles"] == row["ensembles"]
    read = place.bk("readledger", "-ledgerid", ledger, "-fe", "3", "-le", "5", "-m")
    assert read.out.splitlines()[::2] == [f"ledger {ledger} entry {n}: LAC -1, 10 bytes" for n in (3, 4, 5)]
    assert read.out.splitlines()[1].strip() == "3 3 3 3 3"
    assert len(place.bk("readledger", "-l", ledger, "--json").rows) == 25
    from_one = place.bk("readledger", "-l", ledger, "-b", member, "--json").rows
    assert 0 < len(from_one) < 25, "a striped ledger: two of three bookies have an entry"
    dump = tmp_path / "record"
    assert place.bk("ledgermetadata", "-l", ledger, "--dump-to-file", str(dump)).code == 0
    assert "nobody" in place.bk("deleteledger", "-l", ledger).err.lower()
    assert place.bk("deleteledger", "-l", ledger, "-f").code == 0
    assert place.bk("ledgermetadata", "-l", ledger).code == 1
    assert place.bk("ledgermetadata", "-l", ledger, "--restore-from-file", str(dump)).code == 0
    assert place.bk("ledgermetadata", "-l", ledger, "--restore-from-file", str(dump)).code == 1
    assert place.bk("ledgermetadata", "-l", ledger, "--restore-from-file", str(dump), "--update").code == 0
    assert place.bk("readledger", "-l", ledger, "-le", "0", "--json").rows[0]["entryId"] == 0


def test_an_open_ledger_is_read_and_recovered_when_asked(place: Place) -> None:
    ledger = str(place.write(10, close=False))
    assert len(place.bk("readledger", "-l", ledger, "--json").rows) <= 10
    assert place.bk("ledgermetadata", "-l", ledger, "--json").rows[0]["state"] == "OPEN"
    assert len(place.bk("readledger", "-l", ledger, "-r", "--json").rows) == 10
    assert place.bk("ledgermetadata", "-l", ledger, "--json").rows[0]["state"] == "CLOSED"


def test_the_simple_test_leaves_nothing_behind(place: Place) -> None:
    before = place.bk("listledgers").out
    done = place.bk("simpletest", "-e", "3", "-w", "3", "-a", "2", "-n", "2500", "--json")
    assert (done.code, done.rows[0]["entries"], len(done.rows[0]["ensemble"])) == (0, 2500, 3)
    assert place.bk("listledgers").out == before
    too_many = place.bk("simpletest", "-e", "9")
    assert too_many.code == 1
    assert "4 writable bookies" in too_many.err


def test_switches_of_auto_recovery(place: Place) -> None:
    assert place.bk("autorecovery", "-disable").out == "auto-recovery is disabled\n"
    assert place.bk("autorecovery", "-disable").out == "auto-recovery is disabled already\n"
    assert place.bk("autorecovery", "--json").rows[0]["enabled"] is False
    assert "disabled" in place.bk("triggeraudit").err
    assert place.bk("autorecovery", "-enable").code == 0
    assert place.bk("lostbookierecoverydelay", "-set", "30").out == "lostBookieRecoveryDelay is 30 s\n"
    assert place.bk("lostbookierecoverydelay", "-get", "--json").rows == [{"lostBookieRecoveryDelay": 30}]
    assert place.bk("lostbookierecoverydelay", "-set", "0").code == 0
    assert place.bk("whoisauditor").code == 1
    assert "nobody is the auditor" in place.bk("triggeraudit").out


def test_marks_are_listed_and_filtered(place: Place) -> None:
    async def mark(cluster: BookKeeperCluster) -> None:
        book = Underreplication(cluster.store, now_ms=wall_clock_ms)
        await book.mark(900_001, ["a:1"])
        await book.mark(900_002, ["a:1", "b:1"])

    async def clear(cluster: BookKeeperCluster) -> None:
        book = Underreplication(cluster.store, now_ms=wall_clock_ms)
        for ledger_id in (900_001, 900_002):
            await book.forget(ledger_id)

    place.on_cluster(mark)
    try:
        rows = place.bk("listunderreplicated", "--json").rows
        assert [(row["ledgerId"], row["missingReplicas"]) for row in rows] == [
            (900_001, ["a:1"]),
            (900_002, ["a:1", "b:1"]),
        ]
        assert place.bk("listunderreplicated", "-missingreplica", "b:1", "-c").out == "1\n"
        assert place.bk("listunderreplicated", "-emr", "b:1", "--json").rows[0]["ledgerId"] == 900_001
        assert "missing on b:1" in place.bk("listunderreplicated", "-pmr", "-prw").out
    finally:
        place.on_cluster(clear)
    assert place.bk("listunderreplicated").out == "no ledger lacks copies\n"


def test_what_killed_bookies_held_is_recovered_by_hand(place: Place) -> None:
    ledgers = [place.write(40) for _ in range(4)] + [place.write(40, close=False)]
    members = place.bk("ledgermetadata", "-l", str(ledgers[-1]), "--json").rows[0]["ensembles"]["0"]
    victim = next(bookie for bookie in place.bookies if bookie.bookie_id == members[0])
    place.bookies.remove(victim)
    victim.kill()
    await_down(place, victim.bookie_id)
    asked = place.bk("recover", "-q", victim.bookie_id, "--json").rows
    named = {row["ledgerId"] for row in asked}
    assert named
    assert ledgers[-1] in named, "the open one"
    dry = place.bk("recover", victim.bookie_id, "--dry-run")
    assert f"{len(named)} ledgers would be recovered" in dry.out
    assert "-f" in place.bk("recover", victim.bookie_id).err
    done = place.bk("recover", victim.bookie_id, "-f", "--delete-cookie", "--json")
    assert done.code == 0, done
    assert done.rows[-1]["recovered"] == len(named)
    assert place.bk("recover", "-q", victim.bookie_id, "--json").rows == []
    for ledger in ledgers:
        assert len(place.bk("readledger", "-l", str(ledger), "--json").rows) == 40
    assert place.bk("cookie_get", victim.bookie_id).code == 1
    place.start_bookie(zkTimeout="3000")


def test_a_stopped_bookie_is_retired_by_auto_recovery(place: Place) -> None:
    ledgers = [place.write(30) for _ in range(4)]
    victim = place.bookies[0]
    refused = place.bk("decommissionbookie", "-bookieid", victim.bookie_id)
    assert refused.code == 1
    assert "stop it first" in refused.err
    place.bookies.remove(victim)
    victim.stop()
    late = place.bk("decommissionbookie", "-bookieid", victim.bookie_id, "--timeout", "1")
    assert late.code == 1
    assert "no auditor is running" in late.err

    async def decommission_beside_recovery(cluster: BookKeeperCluster) -> Done:
        recovery = AutoRecovery(cluster, QUICK, "r0")
        await recovery.start()
        try:
            words = ("decommissionbookie", "-bookieid", victim.bookie_id, "--timeout", "60", "--json")
            return await asyncio.to_thread(place.bk, *words)
        finally:
            await recovery.stop()

    done = place.on_cluster(decommission_beside_recovery)
    assert done.code == 0, done
    assert done.rows == [{"bookieId": victim.bookie_id, "ledgers": done.rows[0]["ledgers"], "cookieDeleted": True}]
    assert place.bk("listledgers", "-bookieid", victim.bookie_id, "--json").rows == []
    for ledger in ledgers:
        assert len(place.bk("readledger", "-l", str(ledger), "--json").rows) == 30


def test_files_of_a_running_bookie_are_dumped_and_checked(place: Place) -> None:
    ledger = str(place.write(12, bookies=3))
    bookie = next(one for one in place.bookies if place.bk("readledger", "-l", ledger, "-b", one.bookie_id).out)
    folders = [
        "--set",
        f"journalDirectories={bookie.folder}/journal",
        "--set",
        f"ledgerDirectories={bookie.folder}/ledgers",
    ]
    entries = [
        entry["entryId"]
        for row in place.bk("journal", *folders, "-l", ledger, "--json").rows
        for entry in row.get("entries", ())
    ]
    assert entries == sorted(set(entries))
    assert entries
    place.bookies.remove(bookie)
    bookie.stop()
    rows = place.bk("index", *folders, "-l", ledger, "--json").rows
    assert rows[0] == {"ledgerId": int(ledger), "fenced": False, "kept": False, "hasExplicitLac": False}
    runs = rows[1:]
    assert runs
    blocks = place.bk("entrylog", *folders, "-l", ledger, "--json").rows
    assert {(row["offset"], row["bytes"]) for row in runs} == {(row["offset"], row["bytes"]) for row in blocks}
    shown = place.bk("entrylog", *folders, "-l", ledger, "-e", str(entries[0]), "-m")
    assert f"ledger {ledger} entry {entries[0]}:" in shown.out
    sound = place.bk("check", *folders)
    assert sound.code == 0, sound
    assert "nothing damaged" in sound.out
    path = Path(blocks[0]["file"])
    content = bytearray(path.read_bytes())
    content[blocks[0]["offset"] + 50] ^= 1
    path.write_bytes(content)
    found = place.bk("check", *folders, "--json")
    assert found.code == 1
    damage = found.rows[0]
    assert (damage["file"], damage["offset"]) == (str(path), blocks[0]["offset"])
    assert [one["ledgerId"] for one in damage["lost"]] == [int(ledger)]
    assert "DAMAGE" in place.bk("entrylog", *folders).out
    place.start_bookie(zkTimeout="3000")


def await_down(place: Place, bookie_id: str) -> None:
    """Waits until the session of the killed bookie has ended."""

    async def program(cluster: BookKeeperCluster) -> None:
        down = asyncio.Event()
        cluster.registry.on_change(down.set)
        async with asyncio.timeout(60):
            while bookie_id in cluster.registry.bookies.all:
                await down.wait()
                down.clear()

    place.on_cluster(program)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("nonsense",), "invalid choice"),
        (("readledger",), "required"),
        (("readledger", "-l", "x"), "whole number"),
        (("lostbookierecoverydelay",), "required"),
        (("recover", ","), "at least one"),
        (("journal", "-id", "zz"), "no file's id"),
    ],
)
def test_wrong_usage_is_exit_code_2(words: tuple[str, ...], what: str) -> None:
    done = Place(Path(), "127.0.0.1:1").bk(*words)
    assert done.code == 2
    assert what in done.err


def test_a_zookeeper_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("magnetar.server.programs.bk.verb_running.CALL_SECONDS", 0.3)
    began = time.monotonic()
    done = Place(tmp_path, "127.0.0.1:1").bk("listbookies")
    assert done.code == 1
    assert "127.0.0.1:1" in done.err
    assert time.monotonic() - began < 10
