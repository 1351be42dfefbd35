"""The project's jobs over the published connector, on its old pyspark, make the same tables as over the Python
source."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pulsar
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from compat_tests.spark.job_process import JobProcess
from compat_tests.spark.published import ROOT, connector_jar, environment
from compat_tests.spark.scene import Scene

pytestmark = pytest.mark.slow

SECONDS = 240
JOBS = """
import contextlib, io
from importlib import import_module
from magnetar.spark.jobs.main import module_of

def job(name, *arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = import_module(module_of(name)).main([*arguments, "--progress", "json"])
    return code, out.getvalue(), err.getvalue()
"""
EVENT_TIME_MS = 1_600_000_020_000
"""The begin of a minute."""


@pytest.fixture(scope="module")
def topic(scene: Scene) -> str:
    """Makes a topic of two partitions with batches and single messages, keys, event times and properties."""
    name = "persistent://public/default/jobs"
    scene.admin.put(scene.partitions(name), 2)
    for batching in (True, False):
        producer = scene.client.create_producer(name, batching_enabled=batching, batching_max_publish_delay_ms=50)
        for number in range(60):
            content = {"properties": {"n": str(number)}} if number % 3 else {}
            key = f"k{number % 7}"
            time = EVENT_TIME_MS + 2000 * number
            producer.send_async(b"%d" % number, None, partition_key=key, event_timestamp=time, **content)
        producer.flush()
        producer.close()
    return name


def place(scene: Scene, topic: str, folder: Path) -> list[str]:
    urls = ["--service-url", scene.server.broker_url, "--admin-url", scene.server.web_url]
    return [*urls, "--topic", topic, "--checkpoint", str(folder / "checkpoint")]


def run(scene: Scene, job: str, *arguments: str) -> dict[str, Any]:
    """Runs a job in the session with the connector, and returns its outcome."""
    scene.run(JOBS)
    code, out, err = scene.run(f"result = job({job!r}, '--source', 'connector', *{list(arguments)!r})")
    assert code == 0, err + out
    found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    assert found["problems"] == []
    return found


def rows_of(folder: Path) -> list[tuple[Any, ...]]:
    """Returns all rows of a table, sorted, each with what identifies it and all that it holds."""
    table = pq.read_table(folder)
    rows = []
    for row in table.cast(pa.schema([microseconds(field) for field in table.schema])).to_pylist():
        mid = pulsar.MessageId.deserialize(bytes(row["__messageId"]))
        place = (row["__topic"], mid.ledger_id(), mid.entry_id(), mid.batch_index())
        times = tuple(each and round(each.timestamp() * 1000) for each in (row["__publishTime"], row["__eventTime"]))
        rows.append((*place, row["value"], row["__key"], *times, sorted(row["__messageProperties"])))
    return sorted(rows)


def microseconds(field: pa.Field) -> pa.Field:
    """Returns a time's field with microseconds in UTC: Spark 3 writes nanoseconds without a zone."""
    return field.with_type(pa.timestamp("us", tz="UTC")) if pa.types.is_timestamp(field.type) else field


def submit(scene: Scene, topic: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a job by Spark's own launcher with the connector's jar, as docs/spark/CONNECTORS.md says."""
    bin_folder = environment().parent
    command: list[str | Path] = [bin_folder / "spark-submit", "--master", "local[2]", "--jars", connector_jar()]
    command += ["--conf", "spark.ui.enabled=false", "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"]
    command += [
        ROOT / "spark" / "jobs" / "lake" / "lake_ingest.py",
        "--source",
        "connector",
        *place(scene, topic, folder),
    ]
    variables = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYSPARK_PYTHON")}
    variables["PATH"] = f"{bin_folder}{os.pathsep}{variables['PATH']}"
    return subprocess.run(
        [*command, "--path", str(folder / "table"), "--progress", "json"],
        env={**variables, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


@pytest.mark.long
def test_both_sources_make_the_same_table(scene: Scene, topic: str, tmp_path: Path) -> None:
    """Spark's launcher with the published jar and `magnetar spark` with the Python source run at the same time."""
    ours, theirs = tmp_path / "python", tmp_path / "connector"
    theirs.mkdir()
    with JobProcess("lake_ingest", [*place(scene, topic, ours), "--path", str(ours / "table")]) as job:
        done = submit(scene, topic, theirs)
        assert done.returncode == 0, done.stderr[-3000:]
        assert json.loads(done.stdout.strip().splitlines()[-1])["written"] == 120
        assert job.result()["written"] == 120
    rows = rows_of(ours / "table")
    assert len(rows) == len({row[:4] for row in rows}) == 120
    assert rows_of(theirs / "table") == rows


@pytest.mark.long
def test_a_second_run_through_the_connector_adds_only_what_is_new(scene: Scene, tmp_path: Path) -> None:
    topic = scene.topic("connector-again", 30)
    arguments = [*place(scene, topic, tmp_path), "--path", str(tmp_path / "table")]
    assert run(scene, "lake_ingest", *arguments)["written"] == 30
    scene.topic("connector-again", 20)
    assert run(scene, "lake_ingest", *arguments)["written"] == 20
    assert len(rows_of(tmp_path / "table")) == 50


@pytest.mark.long
def test_windows_and_snapshots_over_the_connector(scene: Scene, topic: str, tmp_path: Path) -> None:
    options = [*place(scene, topic, tmp_path / "w"), "--window", "1 minute", "--agg", "count(*) as n", "--key", "'all'"]
    run(scene, "window_agg", *options, "--out-path", str(tmp_path / "windows"))
    closed = pq.read_table(tmp_path / "windows").to_pylist()
    assert [row["n"] for row in closed] == [60]
    said = run(scene, "snapshot_table", *place(scene, topic, tmp_path / "s"), "--path", str(tmp_path / "t"), "--check")
    assert said["details"]["rows in the table"] == 7


def test_what_an_old_pyspark_or_a_missing_jar_does_not_allow_is_said_in_a_sentence(
    scene: Scene, tmp_path: Path
) -> None:
    if scene.run("result = session.version") >= "4":
        pytest.skip("this pyspark is not old")
    topic = scene.topic("connector-refusals", 1)
    scene.run(JOBS)
    options = [*place(scene, topic, tmp_path), "--path", str(tmp_path / "table")]
    for more, complaint in (
        (["--source", "python"], "the data source in Python needs 4.1"),
        (["--source", "connector", "--format", "delta"], "--format delta needs pyspark 4.0 or newer, this is 3.4.4"),
    ):
        code, _, err = scene.run(f"result = job('lake_ingest', *{[*options, *more]!r})")
        assert (code, complaint in err, err.count("\n")) == (1, True, 1), err
