"""`window_agg` against a recomputation in one process, with disorder, late rows and repeated batches."""

import itertools
import json
import random
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from spark.jobs import windows
from spark.jobs.window_agg import main
from tests.spark.support import Scene

pytestmark = [pytest.mark.process, pytest.mark.slow]

BASE = 1_600_000_020_000
MINUTE = 60_000
Event = tuple[str, int, float]
"""(key, milliseconds, level)."""


def events(seed: int, count: int, first: int) -> list[Event]:
    """Rising times with up to 20 s of disorder, and a few that are hours late."""
    chance = random.Random(seed)
    made = []
    for number in range(first, first + count):
        late = 10_000_000 if chance.random() < 0.05 else chance.randrange(20_000)
        made.append((f"k{number % 3}", BASE + 20_000_000 + number * 1000 - late, float(number % 10)))
    return made


def produce(scene: Scene, topic: str, batch: list[Event]) -> None:
    producer = scene.client.create_producer(topic)
    for key, time, level in batch:
        producer.send_async(json.dumps({"level": level}).encode(), None, partition_key=key, event_timestamp=time)
    producer.flush()
    producer.close()


def run(scene: Scene, topic: str, folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    place = ["--service-url", scene.server.broker_url, "--admin-url", scene.server.web_url, "--topic", topic]
    places = ["--checkpoint", str(folder / "ck"), "--out-path", str(folder / "out"), "--progress", "json"]
    values = ["--json-schema", "level double", "--agg", "count(*) as n, avg(level), max(level)"]
    code = main([*place, *places, *values, "--watermark", "30 seconds", *more])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    said: dict[str, Any] = json.loads(captured.out.strip().splitlines()[-1])
    return said


def expected(batches: list[list[Event]], delay: int) -> tuple[dict[tuple[str, int], list[float]], int, int]:
    """(levels by key and window of the closed windows, late rows, on-time rows), batch after batch as the rules say."""
    watermark, late = 0, 0
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    on_time = 0
    for batch in batches:
        for key, time, level in batch:
            if time < watermark:
                late += 1
            else:
                on_time += 1
                found[key, time // MINUTE * MINUTE].append(level)
        watermark = max([watermark, *(time - delay for _, time, _ in batch)])
    return {each: levels for each, levels in found.items() if each[1] + MINUTE <= watermark}, late, on_time


def test_tumbling_windows_equal_a_recomputation_and_late_rows_are_kept(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = "persistent://public/default/tumbling"
    batches = [events(1, 300, 0), events(2, 300, 300)]
    for number, batch in enumerate(batches):
        produce(scene, topic, batch)
        said = run(scene, topic, tmp_path, capsys, "--window", "1 minute")
        if number == 1:  # the driver dies after its outputs were written: the batch comes again
            (tmp_path / "ck" / "commits" / "1").unlink()
            (tmp_path / "ck" / "commits" / ".1.crc").unlink(missing_ok=True)
            said = run(scene, topic, tmp_path, capsys, "--window", "1 minute")
    closed, late, on_time = expected(batches, 30_000)
    assert late > 0
    assert said["details"]["late, all runs"] == late
    assert said["details"]["on time, all runs"] == on_time
    assert late + on_time == 600
    table = scene.session.read.parquet(str(tmp_path / "out")).collect()
    got = {
        (row.key, round(row.window_start.timestamp() * 1000)): (row.n, row.avg_level, row.max_level) for row in table
    }
    assert len(got) == len(table)
    assert got == {each: (len(v), pytest.approx(sum(v) / len(v)), max(v)) for each, v in closed.items()}
    assert scene.session.read.parquet(str(tmp_path / "ck" / "late")).count() == late


def test_sessions_end_after_silence_and_go_to_a_keyed_topic(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, out = "persistent://public/default/sessions", "persistent://public/default/sessions-out"
    seconds = [0, 10, 25, 100, 110, 400]
    for part in (seconds[:2], seconds[2:]):  # the first session is open over both runs
        produce(scene, topic, [("u", BASE + second * 1000, 1.0) for second in part])
        run(scene, topic, tmp_path, capsys, "--session-gap", "30 seconds", "--out-topic", out)
    found = {message.partition_key(): json.loads(message.data()) for message in scene.contents(out)}
    assert sorted(each["n"] for each in found.values()) == [2, 3]
    assert all(key.startswith("u|2020-09-13T12:2") for key in found)


def test_aggregates_are_parsed_or_refused_by_name() -> None:
    parsed = windows.parse_aggregates("count(*) as n, AVG(level)")
    assert [(each.function, each.column, each.name) for each in parsed] == [
        ("count", "*", "n"),
        ("avg", "level", "avg_level"),
    ]
    for bad in ("median(x)", "sum(*)", "count(*", ""):
        with pytest.raises(ValueError, match="--agg"):
            windows.parse_aggregates(bad)
    with pytest.raises(ValueError, match="two results"):
        windows.parse_aggregates("sum(a) as x, sum(b) as x")
    assert [windows.milliseconds(text) for text in ("1 minute", "30 seconds", "2 days")] == [
        60_000,
        30_000,
        172_800_000,
    ]
    for number, unit in itertools.product(("", "x"), ("minute", "")):
        with pytest.raises(ValueError, match="no duration"):
            windows.milliseconds(f"{number} {unit}")
