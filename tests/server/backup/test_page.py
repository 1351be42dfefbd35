"""The commands of docs/BACKUP.md run as they stand there, against a real server."""

import os
import re
import subprocess
from pathlib import Path

import pulsar
import pytest

from compat_tests.harness import Server
from compat_tests.products import interpreter
from tests.server.backup.commands import SECONDS_MAX
from tests.server.official_client import client_of

PAGE = Path(__file__).resolve().parents[3] / "docs" / "BACKUP.md"


def commands() -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [line.split() for block in blocks for line in block.splitlines()]


@pytest.mark.process
def test_the_commands_of_the_page_bring_a_server_back(tmp_path: Path) -> None:
    places = {"/backups/pulsar": tmp_path / "backup", "/var/lib/pulsar-restored": tmp_path / "restored"}
    lines = [[str(places.get(word, word)) for word in line] for line in commands()]
    assert [line[:2] for line in lines[:2]] == [["magnetar", "backup"], ["magnetar", "restore"]]
    assert lines[-1] == ["magnetar", "standalone", "--data-dir", str(tmp_path / "restored")]
    with Server(tmp_path / "first") as server:
        with client_of(server) as client:
            client.create_producer("a").send(b"kept")
            client.subscribe("a", "sub", initial_position=pulsar.InitialPosition.Earliest).close()
        environment = {**os.environ, "MAGNETAR_ADMIN_URL": server.web_url}
        for line in lines[:-1]:
            command = [*interpreter(), "-m", *line]
            subprocess.run(command, env=environment, check=True, capture_output=True, timeout=SECONDS_MAX)
    with Server(tmp_path / "second", data_dir=tmp_path / "restored") as server, client_of(server) as client:
        assert client.subscribe("a", "sub").receive(10_000).data() == b"kept"
