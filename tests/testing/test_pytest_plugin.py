"""The pytest plugin: its fixtures, its options, and the server's log in the report of a failed test."""

import re
import tomllib
from pathlib import Path

import pytest

from magnetar.testing import Server
from tests.testing.scenes import run_pytest

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[2]

USES_ALL = """
import pulsar

SEEN = []

def publish(url, namespace):
    client = pulsar.Client(url)
    client.create_producer(f"persistent://{namespace}/orders").send(b"one")
    client.close()
    SEEN.append(namespace)

def test_first(pulsar_server, pulsar_url, pulsar_admin_url, pulsar_namespace):
    assert (pulsar_server.service_url, pulsar_server.admin_url) == (pulsar_url, pulsar_admin_url)
    publish(pulsar_url, pulsar_namespace)

def test_second(pulsar_server, pulsar_url, pulsar_namespace):
    assert pulsar_namespace not in SEEN
    names = pulsar_server.admin.call("GET", "/admin/v2/namespaces/public")
    assert SEEN[0] not in names and pulsar_namespace in names
    publish(pulsar_url, pulsar_namespace)

def test_a_killed_server_is_back_for_the_next_test(pulsar_server):
    pulsar_server.kill()

def test_last(pulsar_url, pulsar_namespace):
    publish(pulsar_url, pulsar_namespace)
"""


def write(folder: Path, text: str, ini: str = "") -> None:
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text(f"[pytest]\n{ini}\n")


def test_each_test_gets_the_sessions_server_and_a_namespace_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, USES_ALL)
    printed = run_pytest(tmp_path)
    assert "4 passed" in printed, printed


def test_a_setting_without_effect_is_a_warning(tmp_path: Path) -> None:
    write(tmp_path, "def test_it(pulsar_server): pass\n", "pulsar_settings = brokerDedupEnabled=true")
    printed = run_pytest(tmp_path)
    told = "PytestWarning: pulsar_server: unknown keys, which Apache does not know either: brokerDedupEnabled"
    assert told in printed, printed
    assert "1 passed, 1 warning" in printed, printed


def test_each_worker_of_xdist_has_a_server_of_its_own(tmp_path: Path) -> None:
    write(
        tmp_path,
        "import os, pytest\n"
        "@pytest.mark.parametrize('number', range(4))\n"
        "def test_it(pulsar_server, pulsar_namespace, number):\n"
        "    with open('seen', 'a') as seen:\n"
        "        print(os.environ['PYTEST_XDIST_WORKER'], pulsar_server.pid, file=seen)\n",
    )
    printed = run_pytest(tmp_path, "-n", "2", "--dist", "each", plugins=("xdist.plugin",))
    assert "8 passed" in printed, printed
    seen = {tuple(line.split()) for line in (tmp_path / "seen").read_text().splitlines()}
    assert len(seen) == len({worker for worker, _ in seen}) == len({pid for _, pid in seen}) == 2


def test_settings_come_from_the_ini_file_and_the_command_line_outranks_it(tmp_path: Path) -> None:
    write(
        tmp_path,
        "def test_it(pulsar_server):\n"
        "    told = pulsar_server.admin.call('GET', '/admin/v2/brokers/configuration/runtime')\n"
        "    assert told['maxProducersPerTopic'] == '7'\n"
        "    assert told['maxConsumersPerTopic'] == '5'\n",
        ini="pulsar_settings =\n  maxProducersPerTopic=6\n  maxConsumersPerTopic=5",
    )
    printed = run_pytest(tmp_path, "--pulsar-set", "maxProducersPerTopic=7")
    assert "1 passed" in printed, printed


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--pulsar-set", "maxProducersPerTopic"], "pulsar settings: 'maxProducersPerTopic' is not KEY=VALUE"),
        (["--pulsar-url", "pulsar://localhost:6650"], "--pulsar-url and --pulsar-admin-url need each other"),
    ],
)
def test_wrong_options_are_refused_before_the_first_test(tmp_path: Path, words: list[str], complaint: str) -> None:
    write(tmp_path, "def test_it(): pass")
    printed = run_pytest(tmp_path, *words)
    assert complaint in printed
    assert printed.endswith("exit code 4")


FAILS = """
def test_before(pulsar_server):
    pulsar_server.admin.call("PUT", "/admin/v2/persistent/public/default/of-the-one-before")

def test_passes_nothing_on():
    assert False, "does not use the server"

def test_fails(pulsar_server):
    pulsar_server.admin.call("PUT", "/admin/v2/persistent/public/default/of-this-one")
    assert False, "on purpose"
"""


def test_the_report_of_a_failed_test_holds_what_the_server_logged_meanwhile(tmp_path: Path) -> None:
    write(tmp_path, FAILS, ini="pulsar_log_level = DEBUG")
    printed = run_pytest(tmp_path)
    assert "2 failed, 1 passed" in printed, printed
    (section,) = re.findall(r"-+ log of pulsar_server -+\n(.*?)\n(?:=|_)", printed, re.DOTALL)
    assert "of-this-one" in section
    assert "of-the-one-before" not in section


def test_a_server_that_cannot_start_fails_its_tests_with_the_reason(tmp_path: Path) -> None:
    write(tmp_path, "def test_it(pulsar_url): pass\n", ini="pulsar_settings = brokerServicePort=many")
    printed = run_pytest(tmp_path)
    assert "1 error" in printed
    assert "brokerServicePort=many: expected a whole number" in printed


def test_the_same_tests_run_against_a_server_that_is_there_already(tmp_path: Path) -> None:
    write(
        tmp_path,
        "def test_urls(pulsar_url, pulsar_namespace, pulsar_admin_url):\n"
        "    open('seen', 'w').write(f'{pulsar_url} {pulsar_admin_url} {pulsar_namespace}')\n"
        "def test_server(pulsar_server): pass\n",
    )
    with Server() as server:
        words = ("--pulsar-url", server.service_url, "--pulsar-admin-url", server.admin_url)
        printed = run_pytest(tmp_path, *words)
        url, admin_url, namespace = (tmp_path / "seen").read_text().split()
        assert (url, admin_url) == (server.service_url, server.admin_url)
        assert namespace not in server.admin.call("GET", "/admin/v2/namespaces/public")
    assert "1 passed, 1 error" in printed, printed
    assert "the server is not ours" in printed


def test_pytest_finds_the_plugin_in_every_installation() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"magnetar": "magnetar.testing.pytest_plugin"}
