"""`audit` against a server whose topics and subscriptions are known to the test."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from compat_tests.harness import Server, wait_until
from compat_tests.spark.job_process import QUICK_JAVA
from magnetar.spark.jobs.audit.audit import main
from magnetar.spark.source.client.admin_client import AdminClient
from magnetar.spark.source.client.broker_connection import ClientLogin

pytestmark = pytest.mark.process

TOPIC = "persistent://public/default/audited"
PARTITIONED = "persistent://public/default/parted"
UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
CONNECTED, LEFT, LEFT_OLD = f"spark-pulsar-{UUID}", f"spark-pulsar-batch-{UUID}", f"spar-pulsar-{UUID}-{TOPIC}"
USED_BYTES = 10 * 100


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("audit")
    with Server(folder) as made:
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(folder / "client.log"))
        client = pulsar.Client(made.broker_url, logger=logger)
        earliest = pulsar.InitialPosition.Earliest
        connected = client.subscribe(
            TOPIC, CONNECTED, consumer_type=pulsar.ConsumerType.Shared, initial_position=earliest
        )
        for name in (LEFT, LEFT_OLD, "mine", "spark-pulsar-mine-too"):
            client.subscribe(TOPIC, name, initial_position=earliest).close()
        producer = client.create_producer(TOPIC, batching_enabled=False)
        for _ in range(10):
            producer.send(b"x" * 100)
        messages = [connected.receive(5000) for _ in range(10)]
        for at in (0, 1, 4, 5):
            connected.acknowledge(messages[at])
        admin = AdminClient(made.web_url, ClientLogin())
        wait_until(lambda: backlog(admin) == 6, "the acknowledgements come, which the client sends together")
        admin.call("PUT", "persistent/public/default/parted/partitions", 2)
        parted = client.create_producer(PARTITIONED, batching_enabled=True, batching_max_publish_delay_ms=20)
        for number in range(8):
            parted.send_async(b"y" * 50, None, partition_key="a" if number < 6 else "c")
        parted.flush()
        yield made
        client.close()
        made.assert_no_errors(allowed=())


def backlog(admin: AdminClient) -> int:
    found = admin.call("GET", "persistent/public/default/audited/stats?getPreciseBacklog=true")
    return int(found["subscriptions"][CONNECTED]["msgBacklog"])


def arguments(server: Server, *more: str) -> list[str]:
    place = ["--service-url", server.broker_url, "--admin-url", server.web_url, "--namespaces", "public/default"]
    return [*place, "--progress", "json", *more]


def run(server: Server, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, Any]]:
    code = main(arguments(server, *more))
    return code, json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def test_every_subscription_is_a_row_with_its_backlog(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = run(server, capsys, "--sink", str(tmp_path), "--older-than", "0")
    assert (code, said["problems"]) == (0, [])
    rows = {row["subscription"]: row for row in pq.read_table(tmp_path).to_pylist() if row["topic"] == TOPIC}
    assert {name: (row["backlog"], row["ack_holes"]) for name, row in rows.items()} == {
        CONNECTED: (6, 1),
        LEFT: (10, 0),
        LEFT_OLD: (10, 0),
        "mine": (10, 0),
        "spark-pulsar-mine-too": (10, 0),
    }
    mine = rows["mine"]
    assert (mine["messages_in"], mine["entries"]) == (10, 10)
    assert 1.0 < mine["bytes_in"] / USED_BYTES < 1.5  # the bytes that producers add to a value
    assert mine["bytes_in"] == mine["storage_bytes"]
    assert [name for name, row in rows.items() if row["is_orphan"]] == [LEFT, LEFT_OLD]
    assert all(row["mark_delete"] for row in rows.values())
    bill = said["details"]["usage by tenant"]["public"]
    parted = [each for each in said["details"]["topics"] if each["topic"] == PARTITIONED]
    assert bill["topics"] == 3
    assert bill["storage_bytes"] == mine["storage_bytes"] + parted[0]["storage_bytes"]
    assert bill["bytes_out"] == rows[CONNECTED]["bytes_out"] > USED_BYTES


def test_a_tenant_alone_means_all_of_its_namespaces(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    said = (run(server, capsys, "--namespaces", name)[1] for name in ("public/default", "public"))
    one, whole = ([topic["topic"] for topic in each["details"]["topics"]] for each in said)
    assert whole == one
    assert {TOPIC, PARTITIONED} <= set(one)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("public/nowhere", "--namespaces: public/nowhere does not exist"),
        ("no one", "--namespaces: no one does not exist"),
        ("public/default/x", "--namespaces public/default/x: expected TENANT/NAMESPACE, or a TENANT for all of its"),
    ],
)
def test_what_is_no_namespace_is_named(
    server: Server, capsys: pytest.CaptureFixture[str], given: str, sentence: str
) -> None:
    assert main(arguments(server, "--namespaces", given)) == 1
    assert f"magnetar spark audit: {sentence}" in capsys.readouterr().err


def test_partitions_are_summed_and_their_skew_is_named(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(server, capsys, "--max-skew", "1.5")
    (parted,) = [each for each in said["details"]["topics"] if each["topic"] == PARTITIONED]
    assert (parted["partitions"], parted["messages_in"]) == (2, 8)
    expected = (
        [] if parted["skew"] <= 1.5 else [f"{PARTITIONED}: its largest partition holds {parted['skew']} times the mean"]
    )
    assert said["problems"] == expected
    assert code == bool(expected)


@pytest.mark.long
def test_messages_are_counted_by_reading_them(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """A metered generator sent 10 values of 100 bytes, and 8 of 50 in batches."""
    try:
        code, said = run(server, capsys, "--count-messages", "--master", "local[2]", "--spark-conf", QUICK_JAVA)
    finally:
        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()
    assert (code, said["problems"]) == (0, [])
    counted = said["details"]["counted"]
    assert counted[TOPIC] == {"entries": 10, "messages": 10, "bytes": USED_BYTES, "ledger_entries": 10}
    parts = [each for topic, each in counted.items() if topic.startswith(PARTITIONED)]
    assert sum(each["messages"] for each in parts) == 8
    assert sum(each["bytes"] for each in parts) == 400
    assert all(each["entries"] == each["ledger_entries"] for each in parts)


def test_limits_that_are_passed_are_failed_checks(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(server, capsys, "--max-backlog", "9", "--max-ack-holes", "1")
    assert code == 1
    assert [problem for problem in said["problems"] if "mine: backlog of 10" in problem]
    assert not [problem for problem in said["problems"] if CONNECTED in problem]

    def is_stuck() -> bool:
        code, said = run(server, capsys, "--stuck-after", "0.0000001")
        return code == 1 and any(f"{TOPIC}, {CONNECTED}: stuck at" in problem for problem in said["problems"])

    wait_until(is_stuck, "the subscription is stuck for 0.0001 hours, the least that an audit tells")
    assert run(server, capsys, "--stuck-after", "1")[0] == 0


def test_looks_go_on_while_the_server_restarts_and_end_with_ctrl_c(server: Server) -> None:
    command = [sys.executable, "-m", "magnetar", "spark", "audit", *arguments(server, "--interval", "0.3")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = json.loads(process.stdout.readline())
        server.kill()
        failed = json.loads(process.stderr.readline())
        assert (failed["state"], "does not answer" in failed["error"]) == ("failed", True)
        server.start()
        looks = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "Traceback" not in err
    assert looks[-1]["details"]["time"] > first["details"]["time"]
    assert looks[-1]["problems"] == []
    rows = {each["subscription"]: each for each in looks[-1]["details"]["topics"] if each["topic"] == TOPIC}
    assert rows["mine"]["backlog"] == 10


def test_a_sweep_removes_idle_orphans_only(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    admin = AdminClient(server.web_url, ClientLogin())

    def the_consumer_is_there() -> bool:  # another test restarted the server, and a client needs a while to come back
        subscriptions = admin.call("GET", "persistent/public/default/audited/stats")["subscriptions"]
        return bool(subscriptions[CONNECTED]["consumers"])

    wait_until(the_consumer_is_there, f"the consumer of {CONNECTED} is connected again")
    _, kept = run(server, capsys, "--sweep-orphans", "--older-than", "1")
    assert (kept["details"]["removed"], kept["details"]["orphans of unknown age, kept"]) == (0, 2)
    _, swept = run(server, capsys, "--sweep-orphans", "--older-than", "0")
    assert swept["details"]["removed"] == 2
    _, after = run(server, capsys, "--older-than", "0")
    assert after["details"]["orphans"] == 0
    left = {each["subscription"] for each in after["details"]["topics"] if each["topic"] == TOPIC}
    assert left == {CONNECTED, "mine", "spark-pulsar-mine-too"}


def test_a_wrong_admin_url_is_said_at_once(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--service-url", server.broker_url, "--admin-url", "http://127.0.0.1:1", "--interval", "1"]
    assert main(place) == 1
    assert "http://127.0.0.1:1 does not answer" in capsys.readouterr().err
