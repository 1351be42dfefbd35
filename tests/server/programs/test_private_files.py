"""Only the server's user can read what it wrote, whatever the umask of whoever started it, and whichever library wrote
the file."""

import stat
import subprocess
import sys
from pathlib import Path

import pulsar
import pytest

from compat_tests.bookkeeper.our_bookie import OurBookie
from compat_tests.harness import Server
from compat_tests.products import INTERPRETER_VARIABLE, Magnetar
from tests.metadata.zookeeper.zookeeper_server import running

pytestmark = pytest.mark.process

OPEN_UMASK = ("sh", "-c", 'umask 0; exec "$0" "$@"', sys.executable)


def readable_by_others(folder: Path) -> list[str]:
    """Returns the files that others or the group can read."""
    found = [path for path in (folder, *folder.rglob("*")) if path.lstat().st_mode & 0o077]
    return [f"{path} {stat.filemode(path.lstat().st_mode)}" for path in found]


def use(server: Server, folder: Path) -> None:
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(folder / "client.log"))
    client = pulsar.Client(server.broker_url, logger=logger)
    consumer = client.subscribe("private", "s")
    producer = client.create_producer("private", schema=pulsar.schema.StringSchema())
    producer.send("mine")
    consumer.acknowledge(consumer.receive(timeout_millis=60_000))
    client.close()


def test_every_file_of_a_used_data_folder_is_private(tmp_path: Path) -> None:
    with Server(tmp_path, product=Magnetar(OPEN_UMASK)) as server:
        for _ in range(2):
            use(server, tmp_path)
            server.kill()  # A running server deletes files while they are looked at.
            assert readable_by_others(server.data_dir) == []
            server.start()
    assert len(list(server.data_dir.rglob("*"))) > 15, "journal, entry logs, index, metadata, locks"
    assert readable_by_others(server.data_dir) == []


def test_what_a_former_version_left_open_is_closed_to_others_but_not_to_a_group(tmp_path: Path) -> None:
    with Server(tmp_path, product=Magnetar(OPEN_UMASK)) as server:
        server.stop()
        for path in (server.data_dir, *server.data_dir.iterdir()):
            path.chmod(path.stat().st_mode | 0o055)
        server.start()
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in server.data_dir.iterdir()}
        assert (modes["journal"], modes["ledgers"]) == (0o750, 0o750)
        assert modes["metadata.sqlite"] & 0o007 == 0
        assert stat.S_IMODE(server.data_dir.stat().st_mode) == 0o755


def test_a_bookie_s_files_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\numask 0\nexec {sys.executable} "$@"\n')
    script.chmod(0o700)
    monkeypatch.setenv(INTERPRETER_VARIABLE, str(script))
    with running(tmp_path) as zookeeper:
        uri = f"zk+hierarchical://{zookeeper.address}/ledgers"
        command = [sys.executable, "-m", "magnetar", "bk", "--metadata-service-uri", uri, "initnewcluster"]
        subprocess.run(command, check=True, capture_output=True)
        bookie = OurBookie(tmp_path / "bookie", zookeeper.address)
        try:
            bookie.start().stop()
        finally:
            bookie.kill()
    for folder in ("journal", "ledgers"):
        assert readable_by_others(bookie.folder / folder) == []


def test_secret_and_private_keys_are_private(tmp_path: Path) -> None:
    for arguments in (
        ("create-secret-key", "--output", "secret"),
        ("create-key-pair", "--output-private-key", "private", "--output-public-key", "public"),
    ):
        command = [*OPEN_UMASK, "-m", "magnetar", "tokens", *arguments]
        subprocess.run(command, check=True, cwd=tmp_path, env={"PYTHONPATH": str(Path.cwd())}, capture_output=True)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert (modes["secret"], modes["private"]) == (0o600, 0o600)
