"""`magnetar backup` and `magnetar restore` as processes, as an operator runs them."""

import re
import subprocess
from pathlib import Path

from compat_tests.harness import Server
from compat_tests.products import interpreter
from magnetar.server.backup.backup_folder import read_manifest
from magnetar.server.backup.manifest_rules import Manifest

SECONDS_MAX = 120


def start(*arguments: str | Path) -> "subprocess.Popen[str]":
    command = [*interpreter(), "-m", "magnetar", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    process = start(*arguments)
    out, err = process.communicate(timeout=SECONDS_MAX)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def back_up(server: Server, folder: Path, *options: str) -> int:
    """Makes a backup and returns how many bytes the command received."""
    done = run("backup", folder, "--admin-url", server.web_url, *options)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    received = re.search(r"(\d+) bytes received", done.stdout)
    assert received is not None, done.stdout
    return int(received[1])


def verified(folder: Path) -> Manifest:
    """Verifies a backup by the command, which must find it sound, and returns its manifest."""
    done = run("restore", "--verify-only", folder)
    assert done.returncode == 0, done.stderr
    return read_manifest(folder)


def restore(folder: Path, data_dir: Path) -> None:
    done = run("restore", folder, "--data-dir", data_dir)
    assert done.returncode == 0, done.stderr
    assert str(data_dir) in done.stdout
