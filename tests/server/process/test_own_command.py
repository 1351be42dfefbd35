"""A process of ours that starts another one gets the same installation, whatever lies in the working folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from magnetar.server.process.own_command import own_command
from magnetar.server.programs.cluster.supervisor import ClusterOptions
from magnetar.testing import Server


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: it holds another `magnetar`, as a checkout does, and a file named as a module of Python."""
    for name in ("magnetar/__init__.py", "json.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("raise SystemExit('imported from the working folder')")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_children_of_a_cluster_look_in_the_working_folder_only_if_their_supervisor_does(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ClusterOptions(checkout).program == (sys.executable, "-P", "-m", "magnetar")
    for here in ("", str(checkout)):
        monkeypatch.setattr(sys, "path", [here, *sys.path])
        assert ClusterOptions(checkout).program == (sys.executable, "-m", "magnetar")
        monkeypatch.undo()
        monkeypatch.chdir(checkout)


@pytest.mark.process
@pytest.mark.usefixtures("checkout")
def test_a_child_runs_this_installation_in_a_folder_with_another_one() -> None:
    done = subprocess.run([*own_command(), "--version"], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.process
@pytest.mark.usefixtures("checkout")
def test_a_server_of_somebodys_tests_starts_in_a_folder_with_another_one() -> None:
    with Server() as server:
        assert server.admin.call("GET", "/admin/v2/clusters") == ["standalone"]
