"""The command lines of docs/ run as they stand, one after the other, against a real server.

Each page with commands is in one of three tables: it runs here, a test of its own runs it, or the table says why its
lines are only read by the program's parsers (`test_command_lines`).
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from compat_tests.harness import Server
from tests.doc_pages.command_lines import ROOT, lines_of, name_of, pages

ADMIN_URL, SERVICE_URL = "http://127.0.0.1:8080", "pulsar://127.0.0.1:6650"
SECOND_ADMIN_URL, SECOND_SERVICE_URL = "http://127.0.0.1:8081", "pulsar://127.0.0.1:6651"
LINE_SECONDS = 120


@dataclass(frozen=True)
class Page:
    """How a page is run."""

    before: tuple[str, ...] = ()
    """Lines that make what the page takes for granted."""
    before_line: Mapping[str, str] = field(default_factory=dict)
    """The beginning of a line of the page -> a line to run before it."""
    skipped: tuple[str, ...] = ()
    """The beginnings of lines that are not run, because the test has what they make."""
    after: str = ""
    """Only what follows this text of the page is run."""
    second_server: bool = False


SUBSCRIBE = "magnetar admin topics create-subscription"
ORDERS = (
    "magnetar admin topics create orders",
    f"{SUBSCRIBE} orders -s billing",
    "magnetar produce orders -m hello",
)
SHOP = ("magnetar admin tenants create acme", "magnetar admin namespaces create acme/shop")

RUN = {
    "ADMIN.md": Page(
        before=(*ORDERS, f"magnetar admin context set east --admin-url {ADMIN_URL}", "touch ~/west.token"),
        before_line={
            "magnetar admin topics peek": "magnetar admin topics create-subscription shop/web/orders -s billing"
        },
    ),
    "BROWSING.md": Page(
        before=ORDERS,
        skipped=("magnetar story", "curl http://127.0.0.1:8080/admin/v2/persistent/public/default/orders/messages/"),
    ),
    "CONFIGURATION.md": Page(),
    "LEDGERS.md": Page(before=ORDERS),
    "LOGS.md": Page(),
    "MOVING.md": Page(
        before=(
            *SHOP,
            "magnetar admin topics create-partitioned-topic acme/shop/events -p 2",
            "magnetar produce acme/shop/events -m event",
            "magnetar admin topics create acme/shop/orders",
            f"{SUBSCRIBE} acme/shop/orders -s billing",
            "magnetar produce acme/shop/orders -m order",
        ),
        skipped=("magnetar standalone",),
        after="## A standalone server, and back",
        second_server=True,
    ),
    "TROUBLESHOOTING.md": Page(before=ORDERS),
    "WHY.md": Page(before=(*ORDERS, *SHOP, "magnetar produce acme/shop/orders -m hello")),
}
OWN_TEST = {
    "BACKUP.md": "tests/server/backup/test_page.py",
    "MESSAGES.md": "tests/test_messages_page.py",
    "TESTING.md": "tests/testing/test_testing_page.py",
    "SPARK.md": "tests/spark/test_docs.py",
    "spark/audit.md": "tests/spark/test_docs.py",
    "spark/CLUSTERS.md": "tests/spark/test_clusters.py",
    "spark/CONNECTORS.md": "tests/spark/test_docs.py",
    "spark/lake_ingest.md": "tests/spark/test_docs.py",
    "spark/object_stores.md": "tests/spark/test_docs.py",
    "spark/replay.md": "tests/spark/test_docs.py",
    "spark/snapshot_table.md": "tests/spark/test_docs.py",
    "spark/window_agg.md": "tests/spark/test_docs.py",
    "WEBSOCKET.md": "compat_tests/python/test_rest_produce.py",
}
READ_ONLY = {
    "README.md": "installs, and starts servers on the ports of users; tests/installed and tests/test_readme.py do that",
    "CONTRIBUTING.md": "runs this test",
    "BOOKIE.md": "needs a cluster on the ports of users",
    "BROKER.md": "needs a cluster of several machines",
    "CLUSTER.md": "needs a cluster on the ports of users, and breaks it",
    "LOST_MESSAGES.md": "needs lost entries; tests/server/programs/test_unreadable_entries.py has them",
    "MONITORING.md": "needs a collector of OpenTelemetry; tests/server/telemetry has one",
    "ONE_MACHINE.md": "starts a cluster on the ports of users",
    "PERFORMANCE.md": "installs everything, and measures for twenty minutes",
    "SECURITY.md": "starts servers with certificates on the ports of users",
    "SERVICE.md": "installs a service on the machine",
    "ZOOKEEPER.md": "starts servers on the ports of users",
}


def test_each_page_with_commands_runs_or_says_why_not() -> None:
    assert sorted([*RUN, *OWN_TEST, *READ_ONLY]) == sorted(map(name_of, pages()))
    assert all((ROOT / path).exists() for path in OWN_TEST.values())


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("name", RUN)
def test_the_commands_of_a_page_run_as_they_stand(name: str, tmp_path: Path) -> None:
    page = RUN[name]
    home = make_home(tmp_path)
    with ExitStack() as servers:
        first = servers.enter_context(Server(tmp_path / "first"))
        urls = {ADMIN_URL: first.web_url, SERVICE_URL: first.broker_url}
        if page.second_server:
            second = servers.enter_context(Server(tmp_path / "second"))
            urls |= {SECOND_ADMIN_URL: second.web_url, SECOND_SERVICE_URL: second.broker_url}
        environment = {
            **os.environ,
            "HOME": str(home),
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "MAGNETAR_ADMIN_URL": first.web_url,
            "MAGNETAR_SERVICE_URL": first.broker_url,
        }
        for line in script_of(name, page):
            for documented, real in urls.items():
                line = line.replace(documented, real)
            run_line(line, home, environment)
        first.assert_no_errors()


def make_home(folder: Path) -> Path:
    """Returns a home folder whose `bin` has our program, under both of its names."""
    programs = folder / "home" / "bin"
    programs.mkdir(parents=True)
    for name, words in (("magnetar", ""), ("pulsar-admin", " admin")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m magnetar{words} "$@"\n')
        program.chmod(0o755)
    return programs.parent


def script_of(name: str, page: Page) -> list[str]:
    """Returns the lines to run: those of the page, and what has to be there for them."""
    script = list(page.before)
    for line in lines_of(ROOT / "docs" / name, after=page.after):
        script += [other for beginning, other in page.before_line.items() if line.startswith(beginning)]
        if not line.startswith(page.skipped or "\0"):
            script.append(line)
    return script


def run_line(line: str, home: Path, environment: Mapping[str, str]) -> None:
    """Runs a line to its end. `magnetar why` ends with 1 when it has found a reason."""
    if "--watch" in line:
        interrupt_after_output(line, home, environment)
        return
    done = subprocess.run(
        ["bash", "-c", f"set -eo pipefail\n{line}"],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LINE_SECONDS,
        stdin=subprocess.DEVNULL,
    )
    allowed = {0, 1} if line.startswith("magnetar why") else {0}
    assert done.returncode in allowed, f"{line}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, f"{line}\n{done.stderr}"


def interrupt_after_output(line: str, home: Path, environment: Mapping[str, str]) -> None:
    """Runs a line that goes on until Ctrl-C, and presses it when the line has printed something."""
    command = ["bash", "-c", f"exec {line}"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=home, env=environment, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=LINE_SECONDS)
    assert (process.returncode, said) in ((0, ""), (130, "")), line
