"""`magnetar bookie` as a command: its help, its faults as one sentence, and a start that is interrupted."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.bookkeeper.our_bookie import OurBookie
from magnetar.metadata import paths
from magnetar.metadata.cluster_init import LAYOUT_VALUE
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.server.commands.main import main
from tests.metadata.zookeeper.zookeeper_server import ZooKeeperServer, running
from tests.waiting import until


def test_help_has_examples_and_explains_cookies(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["bookie", "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert "magnetar bookie --conf bk_server.conf" in text
    assert "when the start stops because of a cookie" in text


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (["--conf", "none.conf"], "none.conf: cannot be read"),
        (["--set", "metadataServiceUri=etcd://h/ledgers"], "metadataServiceUri 'etcd://h/ledgers'"),
        (["--set", "bookiePort=65536"], "expected a whole number from 0 to 65535"),
        (["--set", "advertisedAddress=h", "--set", "bookieId=readonly"], "is not a valid bookie id"),
        (["--set", "ledgerDirectories=/a", "--set", "journalDirectories=,"], "a list of different directories"),
    ],
)
def test_a_fault_is_one_sentence_and_exit_code_1(
    settings: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bookie", "--set", "bookiePort=0", *settings]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("magnetar: ")
    assert reason in line


def test_a_port_in_use_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = ["--set", f"bookiePort={port}", "--set", "listeningInterface=lo", "--set", "allowLoopback=true"]
        assert main(["bookie", *words]) == 1
    assert f"port {port} is in use by" in capsys.readouterr().err


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    with running(tmp_path) as server:
        yield server


@pytest.mark.process
async def test_sigterm_cuts_a_waiting_start_off(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    store = await ZooKeeperStore.open(zookeeper.address)
    for path, value in ((paths.LAYOUT, LAYOUT_VALUE), (paths.INSTANCE_ID, b"i"), (paths.READ_ONLY_BOOKIES, b"")):
        await store.create(path, value, make_parents=True)
    await store.create(paths.bookie_path("b1"), ephemeral=True)
    bookie = OurBookie(tmp_path / "b1", zookeeper.address, {"bookieId": "b1", "zkTimeout": "20000"})
    process = bookie.spawn()
    try:
        await until(lambda: "still registered by an earlier session" in bookie.log)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stdout is not None
        assert process.stdout.read() == b"", "it never was ready"
    finally:
        bookie.kill()
        await store.close()
