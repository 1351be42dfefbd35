"""Apache BookKeeper's client and shell against our bookies, by both protocols (`Judge.java`)."""

import contextlib
from collections.abc import Iterator
from typing import IO

import pytest

from compat_tests.bookkeeper.apache_bookkeeper import Cluster, running_cluster
from compat_tests.bookkeeper.our_bookie import OurBookie

SCENARIOS = ("crc32c", "crc32", "mac", "dummy", "fence", "fence-empty", "tail", "advanced", "large", "explicit-lac")
ONLY_V2 = ("batch-read",)
"""Java's client has no batch read in v3, because the protocol has a number for this operation but no message."""
ONLY_V3 = ("long-poll", "deferred-sync")
CASES = [("v2", name) for name in SCENARIOS + ONLY_V2] + [("v3", name) for name in SCENARIOS + ONLY_V3]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("bookkeeper")) as made:
        yield made


@pytest.fixture(scope="module")
def bookies(cluster: Cluster) -> list[OurBookie]:
    return [cluster.start_bookie(f"bookie{number}") for number in range(3)]


Verdicts = dict[tuple[str, str], str]


@pytest.fixture(scope="module")
def verdicts(cluster: Cluster, bookies: list[OurBookie]) -> Verdicts:
    """Judges all scenarios of a protocol in one JVM."""
    found: Verdicts = {}
    for protocol in ("v2", "v3"):
        names = [name for each, name in CASES if each == protocol]
        judge = cluster.judge(protocol, *names)
        output, _ = judge.communicate(timeout=300)
        for line in output.splitlines():
            verdict, _, rest = line.partition(" ")
            if verdict in ("PASS", "FAIL"):
                found[protocol, rest.partition(":")[0]] = "" if verdict == "PASS" else line
    return found


@pytest.mark.parametrize(("protocol", "scenario"), CASES)
def test_apaches_client_is_content_with_our_bookies(verdicts: Verdicts, protocol: str, scenario: str) -> None:
    assert (protocol, scenario) in verdicts, "the judge did not come to it"
    assert not verdicts[protocol, scenario]


@pytest.mark.parametrize("protocol", ["v2", "v3"])
def test_a_bookie_killed_in_mid_write_is_replaced_and_nothing_is_lost(
    cluster: Cluster, bookies: list[OurBookie], protocol: str
) -> None:
    with killed_by_the_judge(cluster, bookies, f"{protocol} bookie-killed"):
        pass


@pytest.mark.parametrize("protocol", ["v2", "v3"])
def test_what_a_killed_bookie_acknowledged_is_read_after_its_restart(
    cluster: Cluster, bookies: list[OurBookie], protocol: str
) -> None:
    with killed_by_the_judge(cluster, bookies, f"{protocol} bookie-restarted") as victim:
        victim.start()


@contextlib.contextmanager
def killed_by_the_judge(cluster: Cluster, bookies: list[OurBookie], words: str) -> Iterator[OurBookie]:
    """Kills the bookie that the judge names in the middle of a write; when the block ends the judge goes on, and in the
    end all bookies run again."""
    judge = cluster.judge(*words.split())
    assert judge.stdin is not None
    assert judge.stdout is not None
    try:
        bookie_id = line_with("KILL", judge.stdout).split()[1]
        victim = next(bookie for bookie in bookies if bookie.bookie_id == bookie_id)
        victim.kill()
        yield victim
        judge.stdin.write("\n")
        judge.stdin.flush()
        scenario = words.split()[1]
        assert line_with(scenario, judge.stdout) == f"PASS {scenario}"
    finally:
        judge.kill()
        judge.wait()
        if victim.process.poll() is not None:
            victim.start()


def line_with(word: str, output: IO[str]) -> str:
    """Returns the next line that holds the word. Other lines are skipped, because Apache's client may log to the same
    stream."""
    return next(line.strip() for line in output if word in line)
