"""Apache's BookieShell gives the same answers about our bookies as about Apache's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.bookkeeper.apache_bookkeeper import Cluster, running_cluster
from compat_tests.bookkeeper.our_bookie import SESSION_MS, OurBookie

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("shell")) as made:
        yield made


@pytest.fixture(scope="module")
def bookies(cluster: Cluster) -> list[OurBookie]:
    return [cluster.start_bookie(f"bookie{number}") for number in range(3)]


@pytest.fixture(scope="module")
def read_only(cluster: Cluster) -> OurBookie:
    return cluster.start_bookie("read-only", forceReadOnlyBookie="true")


@pytest.fixture(scope="module")
def ledger(cluster: Cluster, bookies: list[OurBookie]) -> str:
    """Writes a closed ledger of 100 entries to all three bookies, and returns its id."""
    output, _ = cluster.judge("v3", "kept").communicate(timeout=60)
    return next(line.split()[1] for line in output.splitlines() if line.startswith("LEDGER "))


def run(cluster: Cluster, command: str, conf: Path | None = None) -> str:
    done = cluster.shell(*command.split(), conf=conf)
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


@pytest.mark.parametrize("quorums", ["-e 1 -w 1 -a 1", "-e 3 -w 2 -a 2"])
def test_simpletest_writes_and_reads(cluster: Cluster, bookies: list[OurBookie], quorums: str) -> None:
    assert "100 entries written to ledger" in run(cluster, f"simpletest {quorums} -n 100")


def test_bookiesanity_finds_a_bookie_sane(cluster: Cluster, bookies: list[OurBookie], tmp_path: Path) -> None:
    conf = tmp_path / "sanity.conf"
    conf.write_text(f"{cluster.conf.read_text()}advertisedAddress=127.0.0.1\nbookiePort={bookies[0].port}\n")
    assert "Read 10 entries from ledger" in run(cluster, "bookiesanity -e 10 -t 10", conf)


def test_bookies_are_listed_as_what_they_are(cluster: Cluster, bookies: list[OurBookie], read_only: OurBookie) -> None:
    writable = run(cluster, "listbookies -rw")
    assert all(f"BookieID:{bookie.bookie_id}, IP:127.0.0.1, Port:{bookie.port}" in writable for bookie in bookies)
    assert read_only.bookie_id not in writable
    others = run(cluster, "listbookies -ro")
    assert read_only.bookie_id in others
    assert bookies[0].bookie_id not in others
    everyone = run(cluster, "listbookies -a")
    assert all(bookie.bookie_id in everyone for bookie in [*bookies, read_only])


def test_bookieinfo_tells_the_room(cluster: Cluster, bookies: list[OurBookie]) -> None:
    told = [line for line in run(cluster, "bookieinfo").splitlines() if "Free: " in line and "Total: " in line]
    for bookie in bookies:
        assert any(f"BookieID:{bookie.bookie_id}" in line for line in told)


def test_ledgers_are_listed_described_and_read(cluster: Cluster, bookies: list[OurBookie], ledger: str) -> None:
    assert ledger in run(cluster, "listledgers")
    assert f"ledgerID: {ledger}" in run(cluster, f"ledgermetadata -l {ledger}")
    output = run(cluster, f"readledger -l {ledger} -fe 0 -le 99 -r")
    assert [f"Lid={ledger}, Eid={number}," in output for number in range(100)] == [True] * 100
    direct = run(cluster, f"readledger -l {ledger} -fe 5 -le 8 -b {bookies[0].bookie_id}")
    assert [f"Lid={ledger}, Eid={number} " in direct for number in (5, 6, 7)] == [True] * 3


def test_cookies_and_endpoints_are_read(cluster: Cluster, bookies: list[OurBookie]) -> None:
    cookie = run(cluster, f"cookie_get {bookies[0].bookie_id}")
    assert f'bookieHost: "{bookies[0].bookie_id}"' in cookie
    assert f'journalDir: "{bookies[0].folder}/journal"' in cookie
    instance = run(cluster, "whatisinstanceid")
    identity = cookie.partition('instanceId: "')[2].partition('"')[0]
    assert identity
    assert identity in instance
    endpoint = run(cluster, f"endpointinfo -b {bookies[0].bookie_id}")
    assert f"Address: 127.0.0.1 : {bookies[0].port}" in endpoint
    assert "Protocol: bookie-rpc" in endpoint


def test_a_bookies_end_is_clean_and_quick(cluster: Cluster) -> None:
    bookie = cluster.start_bookie("short-lived")
    assert bookie.bookie_id in run(cluster, "listbookies -rw")
    assert bookie.stop() < SESSION_MS / 1000, "its session was closed, and no call waited for its time-out"
    assert bookie.bookie_id not in cluster.shell("listbookies", "-rw").stdout


def test_a_bookie_that_may_not_start_says_why_and_exits_with_1(cluster: Cluster) -> None:
    bookie = cluster.start_bookie("mismatched")
    bookie.stop()
    bookie.settings["ledgerDirectories"] += "-elsewhere"
    assert "magnetar: the cookie in" in bookie.refused_start()


def test_apaches_client_finds_a_bookie_whose_id_is_no_address(cluster: Cluster) -> None:
    named = cluster.start_bookie("named", bookieId="rack-1.bookie_a")
    assert named.bookie_id == "rack-1.bookie_a"
    judge = cluster.judge("v2", f"written-on:{named.bookie_id}")
    output, _ = judge.communicate(timeout=60)
    assert f"PASS written-on:{named.bookie_id}" in output.splitlines()
    named.stop()
