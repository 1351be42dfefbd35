"""Servers for unittest and for the runners of other languages."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testing.scenes import SECONDS_MAX

pytestmark = pytest.mark.process

UNITTEST = """
import os
import unittest
from magnetar.testing import PulsarTestMixin

SEEN = []

class First(PulsarTestMixin, unittest.TestCase):
    def test_a(self):
        SEEN.append((self.pulsar_server.pid, self.pulsar_namespace))
        self.assertIn(self.pulsar_namespace, self.pulsar_server.admin.call("GET", "/admin/v2/namespaces/public"))

    def tearDown(self):
        self.assertIn(self.pulsar_namespace, self.pulsar_server.admin.call("GET", "/admin/v2/namespaces/public"))

class Second(PulsarTestMixin, unittest.TestCase):
    def test_b(self):
        ((pid, namespace),) = SEEN
        self.assertEqual(pid, self.pulsar_server.pid)
        self.assertNotIn(namespace, self.pulsar_server.admin.call("GET", "/admin/v2/namespaces/public"))
        self.assertTrue(self.pulsar_url.startswith("pulsar://") and self.pulsar_admin_url.startswith("http://"))
        print("folder", self.pulsar_server.log_path.parent)
"""


def test_test_cases_share_a_server_and_each_test_has_a_namespace(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(UNITTEST)
    done = subprocess.run(
        [sys.executable, "-m", "unittest", "-v"], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert done.returncode == 0, done.stderr
    assert "Ran 2 tests" in done.stderr
    assert not Path(done.stdout.split()[1]).exists()


def command_line(*words: str) -> list[str]:
    return [sys.executable, "-m", "magnetar", "testing", "run", *words]


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command_line(*words), capture_output=True, text=True, timeout=SECONDS_MAX)


def test_the_command_finds_its_server_by_the_environment(tmp_path: Path) -> None:
    script = (
        "import os, urllib.request\n"
        "for key in sorted(os.environ):\n"
        "    if key.startswith(('PULSAR_', 'SPRING_PULSAR_', 'MAGNETAR_')): print(key, os.environ[key])\n"
        "print(urllib.request.urlopen(os.environ['PULSAR_ADMIN_URL'] + '/admin/v2/clusters').read().decode())\n"
    )
    log = tmp_path / "server.log"
    done = run("--log-file", str(log), "--", sys.executable, "-c", script)
    assert (done.returncode, done.stderr) == (0, "")
    *variables, answer = done.stdout.splitlines()
    found = dict(line.split() for line in variables if "_URL" in line)
    assert found["PULSAR_SERVICE_URL"] == found["SPRING_PULSAR_CLIENT_SERVICE_URL"] == found["MAGNETAR_SERVICE_URL"]
    assert found["PULSAR_ADMIN_URL"] == found["SPRING_PULSAR_ADMIN_SERVICE_URL"] == found["MAGNETAR_ADMIN_URL"]
    assert answer == '["standalone"]'
    assert "listening for clients" in log.read_text()


def test_a_setting_without_effect_is_named() -> None:
    done = run("--set", "brokerDedupEnabled=true", "--", "true")
    told = "magnetar: unknown keys, which Apache does not know either: brokerDedupEnabled"
    assert (done.returncode, done.stderr.startswith(told), done.stderr.count("\n")) == (0, True, 1), done.stderr


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (["--", "sh", "-c", "exit 7"], 7, ""),
        (["--", "sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL, ""),
        (["--", "no-such-command"], 127, "magnetar: no-such-command: there is no such command\n"),
        (["--", os.devnull], 126, f"magnetar: {os.devnull}: Permission denied\n"),
    ],
)
def test_the_exit_code_is_that_of_the_command(words: list[str], code: int, complaint: str) -> None:
    done = run(*words)
    assert (done.returncode, done.stderr) == (code, complaint)


def test_a_server_that_cannot_start_is_an_exit_code_of_its_own() -> None:
    done = run("--set", "brokerServicePort=many", "--", "true")
    assert done.returncode == 125
    assert "brokerServicePort=many: expected a whole number" in done.stderr


def test_a_log_that_cannot_be_kept_does_not_change_the_exit_code(tmp_path: Path) -> None:
    done = run("--log-file", str(tmp_path / "no" / "log"), "--", "sh", "-c", "exit 7")
    assert done.returncode == 7
    assert done.stderr == f"magnetar: --log-file {tmp_path}/no/log: No such file or directory\n"


def test_signals_reach_the_command_which_ends_as_it_likes() -> None:
    script = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done"
    process = subprocess.Popen(command_line("--", "sh", "-c", script), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 9
