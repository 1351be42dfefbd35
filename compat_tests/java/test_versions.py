"""Older versions of Apache's Java client and admin client work, with every feature that they have (`versions/`)."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from compat_tests.conftest import ServerFactory
from compat_tests.harness import Server
from compat_tests.java.client_jars import client_and_admin_jars
from compat_tests.java.javac import compiled
from compat_tests.maven_jars import need_java
from compat_tests.python.rest import Admin

VERSIONS = ("2.8.4", "2.10.6")
SOURCES = Path(__file__).parent / "versions"
CLASSES = ("Sending", "Receiving", "Reading", "Pojos", "Later", "Administrating")
CHECKS = 89
"""The number of checks in all these classes together."""
OPENED = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.nio", "java.lang", "sun.net", "jdk.internal.misc")
)
DEADLINE_SECONDS = 120

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("version", VERSIONS)]


def command(version: str, built: Path, server: Server, topic: str, *classes: str) -> list[str]:
    """Compiles the programs against this version of the client, and returns the command that runs them."""
    need_java()
    jars = client_and_admin_jars(version)
    compiled(built, jars, *(SOURCES / f"{name}.java" for name in ("Checks", *classes)))
    java = ["java", f"-Dclient={version}", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *OPENED]
    word = topic.rpartition("/")[2]
    return [*java, "-cp", f"{built}:{jars}", "Checks", server.broker_url, server.web_url, word, *classes]


def said(output: str) -> Mapping[str, str]:
    return dict(line.split("=", 1) for line in output.splitlines() if "=" in line)


def test_every_feature(make_server: ServerFactory, topic: str, version: str, tmp_path: Path) -> None:
    """Transactions are off, because one check is what a client is told then."""
    server = make_server(settings={"transactionCoordinatorEnabled": "false"})
    server.start()
    admin = Admin(server)
    for name, policies in (
        ("once", {"deduplicationEnabled": True}),
        ("closed", {"autoTopicCreationOverride": {"allowAutoTopicCreation": False}}),
    ):
        if f"public/{name}" not in admin.get("namespaces/public"):
            admin.put(f"namespaces/public/{name}", policies)
    program = command(version, tmp_path, server, topic, *CLASSES)
    done = subprocess.run(program, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    results = said(done.stdout)
    assert {name: result for name, result in results.items() if result != "ok"} == {}, done.stderr[-2000:]
    assert len(results) == CHECKS


def test_a_kill_and_a_restart(own_server: Server, topic: str, version: str, tmp_path: Path) -> None:
    program = command(version, tmp_path, own_server, topic, "Surviving")
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "sending\n"
        own_server.kill()
        own_server.start()
        output, _ = running.communicate(timeout=DEADLINE_SECONDS)
    assert said(output) == {"survives_a_kill": "ok"}
