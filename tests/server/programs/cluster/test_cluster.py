"""`magnetar cluster` as a process: it starts its children in order, brings the dead back, and leaves nobody behind."""

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.harness import wait_until
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.server.commands.main import main
from tests.metadata.zookeeper.zookeeper_server import ZooKeeperServer, running
from tests.server.programs.cluster.cluster_scene import Supervisor, lives

TAKEOVER_SECONDS_MAX = 1.5
"""The goal for everything from the death of a broker to the first receipt of the next owner."""


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with running(tmp_path_factory.mktemp("cluster")) as server:
        yield server


@pytest.fixture
def supervisor(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[Supervisor]:
    made = Supervisor(tmp_path, f"{zookeeper.address}/{tmp_path.name}")
    yield made
    made.close()


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["cluster", "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "magnetar cluster --data-dir" in text
    assert "processes.json" in text


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--brokers", "0"], "'0' is not a number from 1 to 64"),
        (["--bookies", "x"], "'x' is not a number from 1 to 64"),
        (["--broker-port", "70000"], "'70000' is not a port"),
    ],
)
def test_wrong_usage_is_refused(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["cluster", *words])
    assert caught.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_layout_that_does_not_fit_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layout = {"cluster": "c", "metadata": {"port": 1}, "bookies": [{"port": 2}, {"port": 3}], "brokers": []}
    (tmp_path / "cluster.json").write_text(json.dumps(layout))
    assert main(["cluster", "--data-dir", str(tmp_path), "--bookies", "1"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("magnetar: the data folder has 2 bookies")


@pytest.mark.process
async def test_a_dead_broker_loses_its_records_at_once_and_comes_back(supervisor: Supervisor) -> None:
    supervisor.start()
    first, second = supervisor.ready["brokers"]
    assert list(supervisor.ready["bookies"][0]) == ["address", "pid"]
    paths = [f"/loadbalance/brokers/{each['webServiceUrl'].removeprefix('http://')}" for each in (first, second)]
    store = await ZooKeeperStore.open(supervisor.metadata)
    try:
        before = [await store.exists(path) for path in paths]
        assert all(before)
        began = time.monotonic()
        os.kill(first["pid"], signal.SIGKILL)
        while await store.exists(paths[0]) == before[0]:
            assert time.monotonic() - began < TAKEOVER_SECONDS_MAX, supervisor.log
        wait_until(lambda: supervisor.processes["brokers"][0]["pid"] not in (None, first["pid"]), "a new broker")
        again = supervisor.processes["brokers"]
        assert again[0] == {**first, "pid": again[0]["pid"]}, "it has its old addresses"
        assert again[1] == second
        assert await store.exists(paths[0])
        assert await store.exists(paths[1]) == before[1], "the other broker's session was left alone"
    finally:
        await store.close()
    assert "broker-1  | broker at" in supervisor.log
    supervisor.send(signal.SIGTERM)
    assert supervisor.wait() == 0
    assert not (supervisor.data / "processes.json").exists()


@pytest.mark.process
def test_a_killed_supervisor_leaves_nobody_and_nothing_that_delays_the_next_start(supervisor: Supervisor) -> None:
    first = supervisor.start().ready
    pids = supervisor.pids()
    os.kill(pids[0], signal.SIGSTOP)
    supervisor.send(signal.SIGKILL)
    supervisor.wait()
    wait_until(lambda: not any(map(lives, pids)), "the end of the children")
    began = time.monotonic()
    again = supervisor.start().ready
    assert time.monotonic() - began < 9, "a bookie waits 10 s for a session that nobody has ended"

    def without_pids(ready: dict[str, list[dict[str, object]]]) -> list[object]:
        return [{**each, "pid": 0} for kind in ("brokers", "bookies") for each in ready[kind]]

    assert without_pids(again) == without_pids(first)


@pytest.mark.process
def test_the_stop_has_an_order_and_a_second_signal_does_not_wait(supervisor: Supervisor) -> None:
    (supervisor.broker_folder(2) / "hang").touch()
    supervisor.start()
    broker, hanging, bookie = supervisor.pids()
    supervisor.send(signal.SIGINT)
    wait_until(lambda: not lives(broker), "the end of the broker that obeys")
    assert lives(hanging)
    assert lives(bookie), "bookies stop when all brokers have ended"
    supervisor.send(signal.SIGINT)
    assert supervisor.wait() == 0
    assert not lives(hanging)
    assert not lives(bookie)
    assert "killing broker-2" in supervisor.log


@pytest.mark.process
def test_a_child_that_cannot_start_ends_all_with_its_sentence(supervisor: Supervisor) -> None:
    (supervisor.broker_folder(2) / "refuse").write_text("port 7 is in use by pid 8")
    supervisor.spawn()
    assert supervisor.wait() == 1
    assert supervisor.log.splitlines()[-1] == "magnetar: broker-2: port 7 is in use by pid 8"
    assert supervisor.process.stdout is not None
    assert supervisor.process.stdout.read() == b"", "it never was ready, and no child holds the pipe"


@pytest.mark.process
def test_a_stop_breaks_a_start_off(supervisor: Supervisor) -> None:
    (supervisor.broker_folder(1) / "silent").touch()
    supervisor.spawn(brokers=1)
    wait_until(lambda: "has its record" in supervisor.log, "the start of the broker")
    supervisor.send(signal.SIGTERM)
    assert supervisor.wait() == 0


@pytest.mark.process
def test_the_folder_belongs_to_one_supervisor(supervisor: Supervisor, capsys: pytest.CaptureFixture[str]) -> None:
    supervisor.start(brokers=1)
    assert main(["cluster", "--data-dir", str(supervisor.data)]) == 1
    assert f"is in use by pid {supervisor.process.pid}" in capsys.readouterr().err
    address = supervisor.ready["bookies"][0]["address"].partition(":")
    with socket.create_connection((address[0], int(address[2])), timeout=10):
        pass  # The bookie of the first one was left alone.
