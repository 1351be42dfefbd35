"""`audit` against a server whose topics and subscriptions are known; it needs no Spark session."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pyarrow.parquet as pq
import pytest

from compat_tests.harness import Server
from spark.jobs.audit import main

pytestmark = pytest.mark.process

TOPIC = "persistent://public/default/audited"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("audit")
    with Server(folder) as made:
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(folder / "client.log"))
        client = pulsar.Client(made.broker_url, logger=logger)
        connected = client.subscribe(TOPIC, "spark-pulsar-connected", initial_position=pulsar.InitialPosition.Earliest)
        for name in ("spark-pulsar-1-left", f"spar-pulsar-2-{TOPIC}", "mine"):
            client.subscribe(TOPIC, name, initial_position=pulsar.InitialPosition.Earliest).close()
        producer = client.create_producer(TOPIC, batching_enabled=False)
        for _ in range(10):
            producer.send(b"x" * 100)
        for _ in range(4):
            connected.acknowledge(connected.receive(5000))
        yield made
        client.close()
        made.assert_no_errors()


def run(server: Server, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, Any]]:
    place = ["--service-url", server.broker_url, "--admin-url", server.web_url, "--namespaces", "public/default"]
    code = main([*place, "--progress", "json", *more])
    return code, json.loads(capsys.readouterr().out.strip().splitlines()[-1])


def test_every_subscription_is_a_row_with_its_backlog(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, said = run(server, capsys, "--sink", str(tmp_path), "--older-than", "0")
    assert (code, said["problems"]) == (0, [])
    rows = {row["subscription"]: row for row in pq.read_table(tmp_path).to_pylist()}
    assert {name: row["backlog"] for name, row in rows.items()} == {
        "spark-pulsar-connected": 6,
        "spark-pulsar-1-left": 10,
        f"spar-pulsar-2-{TOPIC}": 10,
        "mine": 10,
    }
    assert rows["mine"]["messages_in"] == 10
    assert rows["mine"]["storage_bytes"] > 1000
    assert said["details"]["storage bytes by tenant"] == {"public": rows["mine"]["storage_bytes"]}
    assert [row["is_orphan"] for row in rows.values()].count(True) == 2


def test_a_threshold_that_is_passed_is_a_failed_check(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = run(server, capsys, "--max-backlog", "9")
    assert code == 1
    assert any("mine: backlog of 10" in problem for problem in said["problems"])


def test_a_sweep_removes_idle_orphans_only(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    _, kept = run(server, capsys, "--sweep-orphans", "--older-than", "1")
    assert kept["details"]["removed"] == 0
    _, swept = run(server, capsys, "--sweep-orphans", "--older-than", "0")
    assert swept["details"]["removed"] == 2
    _, after = run(server, capsys, "--older-than", "0")
    assert after["details"]["orphans"] == 0
    assert after["read"] == 1
