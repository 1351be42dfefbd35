"""The supervisor's files: a layout that is read back, damage that is named, ports that no connection takes away."""

import random
import socket
from itertools import islice
from pathlib import Path

import pytest

from compat_tests.small_disk import small_disk
from magnetar.server.programs.cluster.cluster_files import (
    LAYOUT_FILE,
    ephemeral_first,
    free_ports,
    read_layout,
    with_lack_of_room,
    write_json,
)
from magnetar.server.programs.cluster.cluster_rules import BrokerPorts, ClusterLayout, ClusterLayoutError

LAYOUT = ClusterLayout("c", 1, "", (BrokerPorts(2, 3),), (4, 5))


def test_a_layout_is_read_back(tmp_path: Path) -> None:
    assert read_layout(tmp_path) is None
    write_json(tmp_path / LAYOUT_FILE, LAYOUT.to_json())
    assert read_layout(tmp_path) == LAYOUT
    assert [each.name for each in tmp_path.iterdir()] == [LAYOUT_FILE]


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"cluster": "c", "metadata": {"port": "x"}}', "\0"])
def test_a_damaged_layout_is_named(content: str, tmp_path: Path) -> None:
    (tmp_path / LAYOUT_FILE).write_text(content)
    with pytest.raises(ClusterLayoutError, match=LAYOUT_FILE):
        read_layout(tmp_path)


def test_ports_are_free_different_and_not_those_of_connections() -> None:
    taken = next(free_ports(random.Random(7)))
    with socket.create_server(("127.0.0.1", taken)):
        ports = list(islice(free_ports(random.Random(7)), 20))
    assert taken not in ports
    assert len(set(ports)) == 20
    assert all(port < ephemeral_first() for port in ports)


@pytest.mark.process
def test_a_start_that_fails_on_a_full_disk_names_the_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path, 16) as disk:
        assert with_lack_of_room("no ZooKeeper server answers", tmp_path) == "no ZooKeeper server answers"
        disk.fill(leave_bytes=100 << 10)
        told = f"no ZooKeeper server answers: the disk of {tmp_path} is full, 100 KB are free"
        assert with_lack_of_room("no ZooKeeper server answers", tmp_path).startswith(told)
    assert with_lack_of_room("no folder", tmp_path / "missing") == "no folder"
