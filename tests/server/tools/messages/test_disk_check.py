"""`check disk` asks a real bookie for the sizes of its disks."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.bookkeeper.our_bookie import OurBookie
from compat_tests.harness import free_port
from magnetar.server.tools.messages.check_measures import FREE, USED
from magnetar.server.tools.messages.check_rules import Outcome, State, Thresholds
from magnetar.server.tools.messages.disk_check import check_disk
from tests.metadata.zookeeper.zookeeper_server import running

ANY = Thresholds({"used": 101}, {"used": 101})


@pytest.mark.process
def test_the_disks_of_a_bookie(tmp_path: Path) -> None:
    with running(tmp_path) as zookeeper:
        uri = f"zk+hierarchical://{zookeeper.address}/ledgers"
        command = [sys.executable, "-m", "magnetar", "bk", "--metadata-service-uri", uri, "initnewcluster"]
        subprocess.run(command, check=True, capture_output=True)
        port = free_port()
        settings = {"httpServerEnabled": "true", "httpServerHost": "127.0.0.1", "httpServerPort": str(port)}
        bookie = OurBookie(tmp_path / "bookie", zookeeper.address, settings)
        try:
            bookie.start()
            outcome = Outcome("disk", "")
            check_disk(outcome, [], [f"http://127.0.0.1:{port}", f"127.0.0.1:{port}/"], ANY, 30)
        finally:
            bookie.kill()
    assert (outcome.state, outcome.text) == (State.OK, "")
    found = {measure.kind: measure.value for measure in outcome.measures}
    disk = shutil.disk_usage(tmp_path)
    assert found[USED] == pytest.approx(100 * (1 - disk.free / disk.total), abs=10)
    assert found[FREE] == pytest.approx(disk.free, rel=0.2)


def test_the_fullest_disk_and_the_least_room_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"a": (50, 100), "b": (1000, 10_000), "c": (200, 400)}
    monkeypatch.setattr(
        "magnetar.server.tools.messages.disk_check._bookie_sizes", lambda bookie, timeout_s: sizes[bookie]
    )
    outcome = Outcome("disk", "")
    check_disk(outcome, [], list(sizes), Thresholds(), 1)
    assert [measure.value for measure in outcome.measures] == [90.0, 50]
    assert outcome.state is State.WARNING
