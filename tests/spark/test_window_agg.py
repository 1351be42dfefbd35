"""`window_agg` compared with a recomputation, in one process, of what the official client reads."""

import itertools
import json
import logging
import random
import re
from argparse import Namespace
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pyspark.sql import SparkSession

from compat_tests.harness import wait_until
from compat_tests.spark.job_process import JobProcess
from compat_tests.spark.window_reference import Levels, Reading, Window, closed, readings, sessions, sliding, split
from magnetar.spark.jobs.storage.storage_rules import LOCK_FILE
from magnetar.spark.jobs.window import window_rules
from magnetar.spark.jobs.window.window_agg import main
from magnetar.spark.jobs.window.window_rows import RowRules
from magnetar.spark.jobs.window.window_state import STATES_KEPT
from tests.spark.support import Scene

pytestmark = [pytest.mark.process, pytest.mark.slow]

PREFIX = "persistent://public/default"
PATH = "persistent/public/default"
BASE = 1_600_000_020_000
MINUTE = 60_000
END = 1500
"""Seconds after BASE; this is behind everything that `some_readings` makes."""
AGGREGATES = ["--json-schema", "level double", "--agg", "count(*) as n, avg(level), max(level)"]


def some_readings(seed: int, count: int, first: int) -> list[Reading]:
    """Readings a second apart, disordered by up to 20 s. Some have no key; from number 300 on a few are hours late."""
    chance = random.Random(seed)
    made = []
    for number in range(first, first + count):
        behind = 10_000_000 if number >= 300 and chance.random() < 0.1 else chance.randrange(20_000)
        key = chance.choice(["a", "b", "ключ", None])
        made.append(Reading(key, BASE + number * 1000 - behind, chance.randrange(100) / 4))
    return made


def produce(scene: Scene, topic: str, rows: list[Reading]) -> None:
    producer = scene.client.create_producer(topic)
    for key, time, level in rows:
        properties = {"from": "tests"}
        value = json.dumps({"level": level}).encode()
        producer.send_async(value, None, partition_key=key, event_timestamp=time, properties=properties)
    producer.flush()
    producer.close()


def arguments(scene: Scene, topic: str, folder: Path, *more: str) -> list[str]:
    place = ["--service-url", scene.server.broker_url, "--admin-url", scene.server.web_url, "--topic", topic]
    return [*place, "--checkpoint", f"{folder}/ck", "--out-path", f"{folder}/out", *more]


def outcome(given: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, Any]:
    assert main([*given, "--progress", "json"]) == code, capsys.readouterr().err
    said: dict[str, Any] = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    return said


def table(session: SparkSession, folder: Path) -> dict[Window, tuple[int, float, float]]:
    """Returns what a job with AGGREGATES wrote to its table. Raises AssertionError when a window is there twice."""
    rows = session.read.parquet(f"{folder}/out").collect()
    found = {
        Window(row.key, ms(row.window_start), ms(row.window_end)): (row.n, row.avg_level, row.max_level) for row in rows
    }
    assert len(found) == len(rows)
    return found


def ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def summed(windows: Levels) -> Mapping[Window, tuple[int, Any, float]]:
    return {
        window: (len(levels), pytest.approx(sum(levels) / len(levels)), max(levels))
        for window, levels in windows.items()
    }


def from_topic(messages: list[Any]) -> dict[Window, tuple[int, float, float]]:
    """Returns what a job with AGGREGATES wrote to its topic. Raises AssertionError when a key is there twice."""
    records = {each.partition_key(): json.loads(each.data()) for each in messages}
    assert len(records) == len(messages)
    for key, record in records.items():
        assert key == "|".join(filter(None, (record["key"], record["window_start"])))
    return {
        Window(each["key"], iso(each["window_start"]), iso(each["window_end"])): (
            each["n"],
            each["avg_level"],
            each["max_level"],
        )
        for each in records.values()
    }


def iso(text: str) -> int:
    return ms(datetime.fromisoformat(text))


def forget(checkpoint: Path, batch: int) -> None:
    """Leaves a batch as a driver does that is killed after its outputs, before anything says that it is done."""
    for path in (*checkpoint.glob(f"commits/*{batch}*"), checkpoint / f"magnetar-windows/{batch:08d}/meta.json"):
        path.unlink()


def test_closed_windows_and_late_messages_are_what_the_client_reads_also_when_a_batch_is_repeated(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, out, late_topic = (f"{PREFIX}/tumbling{end}" for end in ("", "-out", "-late"))
    more = ["--window", "1 minute", "--watermark", "30 seconds", "--out-topic", out, "--late-topic", late_topic]
    given = arguments(scene, topic, tmp_path, *AGGREGATES, *more)
    for seed in range(2):
        produce(scene, topic, some_readings(seed, 300, 300 * seed))
        outcome(given, capsys)
    forget(tmp_path / "ck", 1)
    said = outcome(given, capsys)
    messages = scene.contents(topic)
    read = readings(messages)
    on_time, late, watermark = split([read[:300], read[300:]], 30_000)
    assert len(late) > 5
    details = said["details"]
    assert (details["on time, all runs"], details["late, all runs"], len(read)) == (len(on_time), len(late), 600)
    windows = sliding(on_time, MINUTE, MINUTE)
    expected = summed(closed(windows, watermark))
    assert table(scene.session, tmp_path) == expected
    assert from_topic(scene.contents(out)) == expected
    assert all(each.event_timestamp() % MINUTE == MINUTE - 1 for each in scene.contents(out))
    assert details["open windows"] == len(windows) - len(expected)
    kept = scene.session.read.parquet(str(tmp_path / "ck" / "magnetar-windows" / "00000001" / "open"))
    assert {ms(row.window_end) > watermark for row in kept.select("window_end").collect()} == {True}
    late_before = {(each.partition_key(), each.event_timestamp(), each.data()) for each in messages}
    copies = scene.contents(late_topic)
    assert [
        (each.partition_key() or None, each.event_timestamp(), json.loads(each.data())["level"]) for each in copies
    ] == late
    assert all((each.partition_key(), each.event_timestamp(), each.data()) in late_before for each in copies)
    assert {str(each.properties()) for each in copies} == {"{'from': 'tests'}"}
    assert scene.session.read.parquet(f"{tmp_path}/ck/late").count() == len(late)
    (tmp_path / "out").rename(tmp_path / "elsewhere")
    assert main(given) == 1
    assert f"there is no table in {tmp_path}/out, but the checkpoint goes on behind" in capsys.readouterr().err


class Level(pulsar.schema.Record):  # type: ignore[misc]
    level = pulsar.schema.Double()
    at = pulsar.schema.String()
    visitors = pulsar.schema.Long()


def test_sliding_windows_are_exact_and_messages_that_fit_no_window_are_parked_and_named(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"{PREFIX}/sliding"
    chance = random.Random(3)
    good = [Reading("k", 1_000 * chance.randrange(-40_000, 40_000), 1.5) for _ in range(200)]  # times around 1970
    texts = [datetime.fromtimestamp(row.time / 1000, UTC).isoformat() for row in good]
    producer = scene.client.create_producer(topic, schema=pulsar.schema.JsonSchema(Level))
    for number, text in enumerate([*texts, "yesterday", None, "9000-01-01T00:00:00Z"]):
        producer.send(Level(level=1.5, at=text, visitors=2**62 if number < 2 else 0), partition_key="k")
    raw = scene.client.create_producer(topic, schema=pulsar.schema.BytesSchema())
    raw.send(b"{not json", event_timestamp=2**62)  # and a time that no timestamp holds
    given = arguments(scene, topic, tmp_path, "--window", "1 hour", "--slide", "7 minutes", "--event-time", "at")
    sums = [
        "--agg",
        "count(*) as n, avg(level), max(level), sum(visitors), min(at), count(at)",
        "--max-future",
        "1 day",
    ]
    said = outcome([*given, *sums, "--format", "delta"], capsys)
    assert (said["read"], said["parked"]) == (204, 4)
    assert "first parked" in said["details"]
    parked = scene.session.read.parquet(f"{tmp_path}/ck/parked").collect()
    assert sorted((row.at, row["__reason"][:24]) for row in parked if row.at) == [
        ("9000-01-01T00:00:00Z", "its event time is too fa"),
        ("yesterday", "it has no event time"),
    ]
    assert {bytes(row["__corrupt"]) for row in parked if row["__corrupt"]} == {b"{not json"}
    import deltalake

    rows = deltalake.DeltaTable(f"{tmp_path}/out").to_pyarrow_table().to_pylist()
    got = {Window(row["key"], ms(row["window_start"]), ms(row["window_end"])): row for row in rows}
    windows = sliding(good, 60 * MINUTE, 7 * MINUTE)
    expected = closed(windows, max(row.time for row in good))
    assert {window: (row["n"], row["avg_level"], row["count_at"]) for window, row in got.items()} == {
        window: (len(levels), 1.5, len(levels)) for window, levels in expected.items()
    }
    assert len(got) == len(rows)
    by_time = dict(zip((row.time for row in good), texts, strict=True))
    for window, row in got.items():
        assert row["min_at"] == min(text for time, text in by_time.items() if window.start <= time < window.end)
        assert row["sum_visitors"] in (0, 2**62, None)


@pytest.mark.long
def test_sessions_are_upserted_under_their_key_and_withdrawn_when_they_merge(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, out = f"{PREFIX}/sessions", f"{PREFIX}/sessions-out"
    given = arguments(scene, topic, tmp_path, *AGGREGATES, "--session-gap", "30 minutes", "--watermark", "1 hour")
    first, second = [0, 20, 70, 100, 115], [85, 60, 10, 200, 300]
    for part in (first, second):  # 60 makes the session of 70 begin earlier, and 85 joins it to that of 100
        produce(scene, topic, [Reading(key, BASE + at * MINUTE, at) for at in part for key in ("u", "v")])
        outcome([*given, "--out-topic", out, "--output-mode", "update"], capsys)
    read = readings(scene.contents(topic))
    on_time, late, watermark = split([read[:10], read[10:]], 60 * MINUTE)
    assert [row.time for row in late] == [BASE + 10 * MINUTE] * 2
    found = sessions(on_time, 30 * MINUTE)
    assert table(scene.session, tmp_path) == summed(closed(found, watermark))
    latest: dict[str, Any] = {}
    withdrawn = []
    for message in scene.contents(out):
        latest[message.partition_key()] = message
        if not message.data():
            withdrawn.append(latest.pop(message.partition_key()).partition_key())
    assert sorted(key[2:] for key in withdrawn) == [iso_text(BASE + at * MINUTE) for at in (70, 70, 100, 100)]
    assert from_topic(list(latest.values())) == summed(found)
    assert {json.loads(each.data())["closed"] for each in latest.values()} == {True, False}
    assert compacted(scene, "sessions-out") == {key: each.data() for key, each in latest.items()}


def iso_text(time: int) -> str:
    return datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def compacted(scene: Scene, topic: str) -> dict[str, bytes]:
    scene.admin.put(f"{PATH}/{topic}/compaction")
    wait_until(lambda: scene.admin.get(f"{PATH}/{topic}/compaction")["status"] == "SUCCESS", "compaction")
    reader = scene.client.create_reader(f"{PREFIX}/{topic}", pulsar.MessageId.earliest, is_read_compacted=True)
    found: dict[str, bytes] = {}
    while reader.has_message_available():
        message = reader.read_next(10_000)
        assert message.partition_key() not in found
        found[message.partition_key()] = message.data()
    reader.close()
    return found


def test_what_cannot_work_is_said_once_and_before_anything_is_read(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str], logged_by_pyspark: list[logging.LogRecord]
) -> None:
    topic = f"{PREFIX}/refused"
    producer = scene.client.create_producer(topic, schema=pulsar.schema.JsonSchema(Level))
    producer.send(Level(level=1.0), event_timestamp=BASE)
    given = arguments(scene, topic, tmp_path)
    for more, said in {
        ("--agg", "sum(levl)"): "--agg: no column levl; there are level, at, visitors, __key",
        ("--agg", "avg(at)"): "--agg: column at is string, sum and avg need a number",
        ("--agg", "max(__messageProperties)"): "min and max need a single value",
        ("--agg", "count(*) as closed"): "a result cannot be called closed",
        ("--key", "who"): "--key 'who': [UNRESOLVED_COLUMN",
        ("--key", "who("): "--key: a ) is missing in: who(",
        ("--event-time", "visitors"): "--event-time 'visitors' is bigint: expected a timestamp",
        ("--json-schema", "x long"): "--json-schema: the topic has a schema, its columns are level, at, visitors",
        ("--watermark", "an hour"): "'an hour' is no duration",
    }.items():
        assert main([*given, "--window", "1 minute", *more]) == 1
        assert said in capsys.readouterr().err
    for wrong in (
        ["--window", "1 minute", "--session-gap", "1 minute"],
        ["--window", "1 minute", "--slide", "2 minutes"],
        ["--session-gap", "1 minute", "--slide", "1 minute"],
        ["--window", "1 minute", "--output-mode", "update"],
    ):
        with pytest.raises(SystemExit):
            main([*given, *wrong])
    assert [path.name for path in (tmp_path / "ck").iterdir()] == [LOCK_FILE]
    assert not logged_by_pyspark


def test_an_empty_topic_gives_nothing_poison_is_parked_and_other_windows_need_another_checkpoint(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"{PREFIX}/empty"
    scene.client.create_producer(topic).close()
    given = arguments(scene, topic, tmp_path, *AGGREGATES)
    assert main([*given, "--window", "1 minute", "--json-schema", "level what"]) == 1
    assert "--json-schema 'level what': " in capsys.readouterr().err
    said = outcome([*given, "--window", "1 minute"], capsys)
    assert (said["read"], said["written"], said["details"]["watermark"]) == (0, 0, None)
    produce(scene, topic, [Reading("k", BASE, 1.0)])
    producer = scene.client.create_producer(topic)
    for poison in (b"nonsense", b'{"level": "high"}', b""):
        producer.send(poison)
    said = outcome([*given, "--window", "1 minute"], capsys)
    assert (said["parked"], said["details"]["open windows"]) == (3, 1)
    assert re.fullmatch(rf"{topic} \d+:\d+(:0)?: its value does not fit the schema", said["details"]["first parked"])
    parked = scene.session.read.parquet(f"{tmp_path}/ck/parked").collect()
    assert sorted(bytes(row.value) for row in parked) == [b"", b"nonsense", b'{"level": "high"}']
    produce(scene, topic, [Reading("k", BASE, 2.0)])  # a run that has nothing to read does not look at its windows
    assert main([*given, "--window", "2 minutes"]) == 1
    assert "the checkpoint's windows were made with '--window 60000 ms" in capsys.readouterr().err


@pytest.mark.long
def test_messages_that_the_broker_deleted_are_named_or_left_out(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = f"{PREFIX}/trimmed"
    given = arguments(scene, topic, tmp_path, *AGGREGATES, "--window", "1 minute")
    produce(scene, topic, some_readings(1, 100, 0))
    outcome(given, capsys)
    produce(scene, topic, some_readings(2, 100, 100))
    scene.admin.put(f"{PATH}/trimmed/unload")
    produce(scene, topic, [Reading("k", BASE + END * 1000, 1.0)])
    scene.admin.delete(f"{PATH}/trimmed/truncate")
    assert len(scene.contents(topic)) == 1
    assert main(given) == 1
    assert re.search(r"ledger \d+ is gone: .* --fail-on-data-loss false goes on", capsys.readouterr().err)
    assert outcome([*given, "--fail-on-data-loss", "false"], capsys)["details"]["on time, all runs"] == 101


@pytest.mark.long
def test_a_killed_driver_a_killed_server_and_a_new_partition_change_nothing(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Disorder is smaller than the watermark and late rows are hours late: batches may be cut anywhere. The killed job
    has two cores, the last run has one."""
    topic, out = f"{PREFIX}/killed", f"{PREFIX}/killed-out"
    scene.admin.put(f"{PATH}/killed/partitions", 1)
    more = [*AGGREGATES, "--window", "1 minute", "--watermark", "10 minutes"]
    calm = arguments(scene, topic, tmp_path / "calm", *more)
    given = arguments(scene, topic, tmp_path, *more, "--out-topic", out, "--subscription", "killed")
    produce(scene, topic, some_readings(1, 300, 0))
    outcome(calm, capsys)
    with JobProcess("window_agg", [*given, "--trigger", "100 milliseconds", "--max-messages", "100"]) as victim:
        victim.until_batch(2)
        scene.admin.post(f"{PATH}/killed/partitions", 2)
        produce(scene, topic, some_readings(2, 500, 300))
        victim.until_batch(3)
        scene.server.kill()
        victim.kill()
    scene.server.start()
    produce(scene, topic, [Reading("end", BASE + END * 1000, 1.0)])
    undisturbed = outcome(calm, capsys)
    with JobProcess("window_agg", [*given, "--spark-conf", "spark.master=local[1]"]) as job:
        said = job.result()
    read = readings(scene.contents(topic))
    begin = BASE - 20 * 1000
    late = [row for row in read if row.time < begin]
    assert len(late) > 30
    watermark = BASE + (END - 10 * 60) * 1000
    windows = closed(sliding([row for row in read if row.time >= begin], MINUTE, MINUTE), watermark)
    assert table(scene.session, tmp_path) == table(scene.session, tmp_path / "calm") == summed(windows)
    assert from_topic(scene.contents(out)) == summed(windows)
    names = ("on time, all runs", "late, all runs", "open windows", "watermark")
    assert {name: said["details"][name] for name in names} == {name: undisturbed["details"][name] for name in names}
    assert said["details"]["late, all runs"] == len(late)
    assert len(list((tmp_path / "ck" / "magnetar-windows").iterdir())) == STATES_KEPT
    assert scene.session.read.parquet(f"{tmp_path}/ck/late").count() == len(late)


def test_a_number_that_is_no_time_is_parked_and_stops_nobody(scene: Scene) -> None:
    times = [-1, 0, 2**63 - 1, -(2**63), 10**15]  # the last window is in the year 33658
    rows = [(b"k", None, datetime.fromtimestamp(0, UTC), b'{"at": %d}' % each) for each in times]
    columns = "__key binary, __eventTime timestamp, __publishTime timestamp, value binary"
    frame = scene.session.createDataFrame(rows, columns)
    how = Namespace(json_schema="at long", key="__key", event_time="timestamp_millis(at)", max_future="")
    rules = RowRules(frame, how, window_rules.WindowShape(MINUTE, MINUTE, 0, ()))
    found = rules.rows(frame).selectExpr("__message.value", "__reason").collect()
    beyond = "its event time is not in the years 1 to 9999"
    assert [row["__reason"] for row in found] == [None, None, "it has no event time", "it has no event time", beyond]


def test_aggregates_are_parsed_or_refused_by_name() -> None:
    parsed = window_rules.parse_aggregates("count(*) as n, AVG(level)")
    assert [(each.function, each.column, each.name) for each in parsed] == [
        ("count", "*", "n"),
        ("avg", "level", "avg_level"),
    ]
    for bad in ("median(x)", "sum(*)", "count(*", ""):
        with pytest.raises(ValueError, match="--agg"):
            window_rules.parse_aggregates(bad)
    with pytest.raises(ValueError, match="two results"):
        window_rules.parse_aggregates("sum(a) as x, sum(b) as x")
    assert [window_rules.milliseconds(text) for text in ("1 minute", "30 seconds", "2 weeks")] == [
        60_000,
        30_000,
        1_209_600_000,
    ]
    for number, unit in itertools.product(("", "x"), ("minute", "")):
        with pytest.raises(ValueError, match="no duration"):
            window_rules.milliseconds(f"{number} {unit}")
