"""`magnetar admin` says the same as Apache's pulsar-admin: exit code, stdout, and the first line of stderr.

The command lines are in `command_lines.txt`. With Apache's jars in MAGNETAR_PEER_LIB both are run against Apache's
broker.
"""

import difflib
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.admin.java_admin import PulsarAdmin
from compat_tests.conftest import ClientFactory
from compat_tests.harness import Server
from compat_tests.maven_jars import need_java
from compat_tests.products import interpreter
from compat_tests.python.support import bodies, send_all

pytestmark = pytest.mark.slow

LINES = Path(__file__).with_name("command_lines.txt").read_text().splitlines()
PRODUCE = "PRODUCE"
JAVA_SIDE, OUR_SIDE = "sidejava", "sideours"
AVRO = '{"type":"AVRO","schema":"{\\"type\\":\\"record\\",\\"name\\":\\"R\\",\\"fields\\":[]}","properties":{"k":"v"}}'
FIELDS_ONLY_HERE = (
    "entriesInAckHoles|ackHolesFilledTotal|ackHoles|whyIdle|unreadable|lastPublishTimeStamp|topicCreationTimeStamp"
)
ONLY_HERE = re.compile(rf'\s*"({FIELDS_ONLY_HERE})" : .*')
"""Lines for fields that brokers send and that the classes of Java's tool do not have: it drops them."""
COMMAND_SECONDS = 60


class Said(NamedTuple):
    worked: bool
    out: str
    error: str


@pytest.fixture
def java(own_server: Server, tmp_path: Path) -> Iterator[PulsarAdmin]:
    need_java()
    made = PulsarAdmin(own_server, tmp_path)
    yield made
    made.close()


def test_the_same_words_say_the_same(
    java: PulsarAdmin, own_server: Server, make_client: ClientFactory, tmp_path: Path
) -> None:
    avro = tmp_path / "avro.json"
    avro.write_text(AVRO)
    wrong = []
    compared = 0
    for line in LINES:
        if line == PRODUCE:
            publish(make_client, own_server)
        elif not line.startswith("#"):
            mode, _, words = line.partition(" ")
            by_java = run_java(java, words_for(words, JAVA_SIDE, avro))
            by_us = run_ours(own_server, words_for(words, OUR_SIDE, avro))
            compared += 1
            java_said, we_said = comparable(by_java, JAVA_SIDE, mode), comparable(by_us, OUR_SIDE, mode)
            if java_said != we_said:
                wrong.append("\n".join([line, *difflib.unified_diff(java_said, we_said, "Java", "here", lineterm="")]))
    assert not wrong, "\n\n" + "\n\n".join(wrong)
    assert compared > 200


def words_for(text: str, side: str, avro: Path) -> list[str]:
    filled = text.replace("{ns}", f"{side}/ns").replace("{side}", side).replace("{avro}", str(avro))
    return shlex.split(filled)


def run_java(java: PulsarAdmin, words: list[str]) -> Said:
    java.new_errors()
    worked, out = java.run(*words)
    return Said(worked, out, java.new_errors())


def run_ours(server: Server, words: list[str]) -> Said:
    done = subprocess.run(
        [*interpreter(), "-m", "magnetar", "admin", *words],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
        env={**os.environ, "XDG_CONFIG_HOME": "/nowhere", "MAGNETAR_ADMIN_URL": server.web_url},
        stdin=subprocess.DEVNULL,
    )
    return Said(done.returncode == 0, done.stdout.strip(), done.stderr)


def comparable(said: Said, side: str, mode: str) -> list[str]:
    """Returns what has to be the same as lines. Of stderr it is the first line, without the name of an exception before
    it."""
    error = said.error.partition("\n")[0] if not said.worked else ""
    error = re.sub(r"^[\w.$]+(Exception|Error): ", "", error)
    lines = said.out.splitlines()
    if mode != "same":
        lines = [line.rstrip(",") for line in lines if not ONLY_HERE.fullmatch(line)]
        lines = [", ".join(sorted(re.findall(r"[^\[\], ]+", line))) for line in lines]
    if mode == "shape":
        lines = [re.sub(r"-?\d[\d.]*(E-?\d+)?", "N", line) for line in lines]
    lines = lines if mode == "same" else sorted(lines)
    return [line.replace(side, "SIDE") for line in (f"worked: {said.worked}", *lines, error)]


def publish(make_client: ClientFactory, server: Server) -> None:
    """Publishes three messages and a batch of three to the topic of each side."""
    client = make_client(server.broker_url)
    for side in (JAVA_SIDE, OUR_SIDE):
        topic = f"persistent://{side}/ns/t"
        plain = client.create_producer(topic, batching_enabled=False)
        for body in bodies(3):
            plain.send(body, properties={"a": "b"}, event_timestamp=1234)
        plain.close()
        batched = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=1_000)
        send_all(batched, bodies(3, "batched"))
        batched.close()
