"""Apache Flink's exactly-once sink (`ExactlyOnce.java`): each message that a job moves arrives once, although the job
fails in the middle and the server is killed several times."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pulsar
import pytest

from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.harness import Server
from compat_tests.java.java_client import JavaProgram
from compat_tests.java.javac import compiled
from compat_tests.maven_jars import class_path, need_java
from compat_tests.python.rest import Admin

pytestmark = pytest.mark.slow

FLINK = "1.18.1"
JARS = (
    ("org.apache.flink", "flink-connector-pulsar", "4.1.0-1.18"),
    ("org.apache.flink", "flink-streaming-java", FLINK),
    ("org.apache.flink", "flink-clients", FLINK),
    ("org.apache.flink", "flink-connector-base", FLINK),
    ("org.slf4j", "slf4j-simple", "1.7.36"),
)
OPENED = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED"
    for package in ("java.lang", "java.net", "java.io", "java.nio", "java.util", "java.util.concurrent", "sun.nio.ch")
)
JAVA = ("java", "-Xmx512m", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", *OPENED)

IN, OUT = (f"persistent://public/default/{name}" for name in ("in", "out"))
PARTITIONS = 2
"""The job has as many tasks. Each writes to both partitions of its output. The source of this connector forgets some
topics that have no partitions, because it takes -1 for the number of their task."""
KEYS = 10
KILLS = 3
SENT_AT_ONCE = 20
PATIENCE_SECONDS = 240
"""A transaction that Flink forgot, as it may when it fails between two steps of a checkpoint, holds the others back
until its time is over."""


END = b"end"


def number_of(message: pulsar.Message) -> int:
    return int(message.data().decode().partition("-")[2])


class Flow:
    """The messages that a test sends to the job, and those that come out of it."""

    def __init__(self, client: pulsar.Client) -> None:
        self._producer = client.create_producer(IN)
        self._consumer = client.subscribe(OUT, "s", initial_position=pulsar.InitialPosition.Earliest)
        self.sent = 0
        self.arrived: dict[bytes, int] = {}
        """The numbers by message id, because the server sends a message again whose acknowledgement a kill has cost."""
        self.ends = 0

    def send(self) -> None:
        """Sends some messages, and returns when they are stored."""
        for _ in range(SENT_AT_ONCE):
            key = str(self.sent % KEYS)
            self._producer.send(f"{key}-{self.sent}".encode(), partition_key=key)
            self.sent += 1

    def receive(self, wait_ms: int) -> bool:
        """Takes the next message that comes out of the job. Returns False when none comes in that time."""
        try:
            message = self._consumer.receive(wait_ms)
        except pulsar.Timeout:
            return False
        self._consumer.acknowledge(message)
        if message.data() == END:
            self.ends += 1
        else:
            self.arrived[message.message_id().serialize()] = number_of(message)
        return True

    def go_on(self, until: Callable[[], bool], what: str) -> None:
        """Sends and receives until the condition holds."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not until():
            assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS} s: {what}"
            self.send()
            while self.receive(100):
                pass

    def go_on_until_new_ones_arrive(self) -> None:
        """Sends and receives until a message arrives that was sent after this call."""
        first = self.sent
        self.go_on(lambda: any(number >= first for number in self.arrived.values()), "messages arrive")

    def receive_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"not within {PATIENCE_SECONDS} s: {what}"
            self.receive(1_000)


@pytest.fixture
def server(make_server: ServerFactory) -> Server:
    server = make_server(settings={"transactionCoordinatorEnabled": "true"})
    server.start()
    for topic in (IN, OUT):
        Admin(server).put(f"{topic.replace('://', '/')}/partitions", PARTITIONS)
    return server


@pytest.fixture
def job(server: Server, tmp_path: Path) -> Iterator[JavaProgram]:
    need_java()
    jars = class_path("flink-pulsar", JARS)
    built = compiled(tmp_path / "classes", jars, Path(__file__).with_name("ExactlyOnce.java"))
    words = (server.broker_url, server.web_url, IN, OUT, f"file://{tmp_path}/savepoints")
    made = JavaProgram([*JAVA, "-cp", f"{built}:{jars}", "ExactlyOnce", *words], tmp_path)
    assert made.answer() == "ready"
    yield made
    made.close()


def test_every_message_arrives_once_although_the_job_fails_and_the_server_is_killed(
    server: Server, job: JavaProgram, make_client: ClientFactory
) -> None:
    client = make_client(server.broker_url)
    flow = Flow(client)
    flow.go_on_until_new_ones_arrive()
    assert job.ask("fail") == "failing"
    flow.go_on(lambda: job.ask("failures") == "1", "the job fails")
    flow.go_on_until_new_ones_arrive()
    for _ in range(KILLS):
        flow.send()
        server.kill()
        server.start()
        flow.go_on_until_new_ones_arrive()
    flow.receive_until(lambda: len(set(flow.arrived.values())) == flow.sent, "all messages arrive")
    assert job.ask("stop") == "stopped"
    # Whatever came twice came before these.
    for number in range(PARTITIONS):
        client.create_producer(f"{OUT}-partition-{number}").send(END)
    flow.receive_until(lambda: flow.ends == PARTITIONS, "the ends arrive")
    arrived = Counter(flow.arrived.values())
    repeated = {number: count for number, count in arrived.items() if count > 1}
    assert (repeated, sum(arrived.values())) == ({}, flow.sent), f"the source repeated {job.ask('repeats')}"
