"""Apache's command-line tools over ws://: `pulsar-client --url ws://… produce | consume | read`, and `pulsar-perf
websocket-producer`. Both speak WebSockets by Jetty's client. Maven Central carries them up to 4.0.6."""

import json
import re
import subprocess
import uuid
from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path

import pytest

from compat_tests.harness import Server, wait_until
from compat_tests.java.client_jars import JAVA, NOT_OF_PERF, PERF, PERF_JAVA, TOOLS
from compat_tests.maven_jars import class_path, need_java
from compat_tests.python.rest import Admin
from compat_tests.websocket.socket_client import socket_url

pytestmark = pytest.mark.slow

DEADLINE_SECONDS = 90


def started(
    folder: Path, jars: str, program: str, *arguments: str, java: Sequence[str] = JAVA
) -> "subprocess.Popen[str]":
    configuration = folder / "client.conf"
    configuration.touch()
    command = [*java, "-cp", jars, program, str(configuration), *arguments]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def said(process: "subprocess.Popen[str]") -> str:
    """What the program said until it ended by itself."""
    try:
        return process.communicate(timeout=DEADLINE_SECONDS)[0]
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def tools(tmp_path: Path) -> tuple[Path, str, str]:
    need_java()
    return tmp_path, class_path("pulsar-tools", TOOLS), "org.apache.pulsar.client.cli.PulsarClientTool"


def payloads(text: str) -> list[bytes]:
    """The tool prints each message as the server's JSON."""
    lines = [line for line in text.splitlines() if line.startswith("{")]
    return [b64decode(json.loads(line)["payload"]) for line in lines]


def test_the_client_tool_consumes_what_another_produces(server: Server, tools: tuple[Path, str, str]) -> None:
    short = f"java-{uuid.uuid4().hex[:8]}"
    topic, url, admin = f"persistent://public/default/{short}", socket_url(server, ""), Admin(server)
    at = ["--url", url]
    consumer = started(*tools, *at, "consume", topic, "-s", "sub", "-n", "5")
    place = f"persistent/public/default/{short}"
    wait_until(lambda: has_subscription(admin, place), "the consumer is there")
    producer = started(*tools, *at, "produce", topic, "-m", "one,two", "-n", "3", "-k", "key", "-p", "a=1")
    assert producer.wait(DEADLINE_SECONDS) == 0, said(producer)
    producer.communicate()
    text = said(consumer)
    assert consumer.returncode == 0, text
    assert payloads(text) == [b"one", b"two", b"one", b"two", b"one"], text


def test_the_client_tool_reads_a_topic_from_its_beginning(server: Server, tools: tuple[Path, str, str]) -> None:
    topic = f"persistent://public/default/java-{uuid.uuid4().hex[:8]}"
    at = ["--url", socket_url(server, "")]
    Admin(server).put(topic.replace("://", "/"))
    producer = started(*tools, *at, "produce", topic, "-m", "one", "-n", "3")
    text = said(producer)
    assert producer.returncode == 0, text
    reader = started(*tools, *at, "read", topic, "-m", "earliest", "-n", "3")
    text = said(reader)
    assert reader.returncode == 0, text
    assert payloads(text) == [b"one"] * 3, text


def has_subscription(admin: Admin, place: str) -> bool:
    topics = admin.get("persistent/public/default")
    return place.replace("/", "://", 1) in topics and admin.get(f"{place}/subscriptions") == ["sub"]


def test_pulsar_perf_publishes_over_sockets(server: Server, tmp_path: Path) -> None:
    need_java()
    jars = class_path("pulsar-perf", PERF, NOT_OF_PERF)
    short = f"perf-{uuid.uuid4().hex[:8]}"
    topic = f"persistent://public/default/{short}"
    options = ["-u", socket_url(server, ""), "-r", "500", "-s", "1024", "-m", "1000", topic]
    program = "org.apache.pulsar.testclient.PulsarPerfTestTool"
    perf = started(tmp_path, jars, program, "websocket-producer", *options, java=PERF_JAVA)
    try:
        wait_until(lambda: stored(server, short) >= 1000, "1,000 messages are stored", DEADLINE_SECONDS)
    finally:
        perf.kill()
        text = perf.communicate()[0]
    assert not re.search("error", text, re.IGNORECASE), text[-3000:]


def stored(server: Server, short: str) -> int:
    admin = Admin(server)
    if f"persistent://public/default/{short}" not in admin.get("persistent/public/default"):
        return 0
    count: int = admin.get(f"persistent/public/default/{short}/stats")["msgInCounter"]
    return count
