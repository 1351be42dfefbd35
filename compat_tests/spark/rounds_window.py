"""Rounds of killing window_agg: every message is in its windows once or late once, and windows are exact, whatever was
killed.

Disorder is smaller than the watermark, and late messages are hours late. So only these may be late, wherever a kill
cuts the batches.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as pds

from compat_tests.spark.kill_rounds import Scene
from compat_tests.spark.window_reference import Window, closed, readings, sliding

MINUTE = 60_000
BASE = 1_600_000_020_000
WATERMARK = 2 * MINUTE
HOURS_LATE = 20_000_000


class Rounds:
    while_killed: Sequence[str] = ("--trigger", "100 milliseconds", "--max-messages", "150")

    def __init__(self) -> None:
        self._count = 0

    def prepare(self, scene: Scene) -> None:
        self._scene = scene
        self._out, self._late = f"{scene.topic}-out", f"{scene.topic}-late"
        scene.maybe_trimmed("windows")
        self._produce(500)

    def arguments(self) -> list[str]:
        folder, topic = self._scene.folder, self._scene.topic
        rules = ["--json-schema", "level double", "--window", "1 minute", "--watermark", f"{WATERMARK} milliseconds"]
        results = ["--agg", "count(*) as n, sum(level)", "--out-path", f"{folder}/out", "--out-topic", self._out]
        places = ["--late-topic", self._late, "--late-path", f"{folder}/late", "--checkpoint", f"{folder}/checkpoint"]
        return ["--topic", topic, "--subscription", "windows", *rules, *results, *places]

    def meanwhile(self, scene: Scene) -> None:
        self._produce(300)

    def _produce(self, count: int) -> None:
        """Writes messages a second apart. Each has a level of its own, which names it."""
        chance = self._scene.chance
        producer = self._scene.client.create_producer(self._scene.topic)
        for number in range(self._count, self._count + count):
            behind = HOURS_LATE if number >= 500 and chance.random() < 0.1 else chance.randrange(WATERMARK - MINUTE)
            body = json.dumps({"level": float(number)}).encode()
            time = BASE + number * 1000 - behind
            producer.send_async(body, None, partition_key=f"k{number % 3}", event_timestamp=time)
        producer.flush()
        producer.close()
        self._count += count
        self._scene.contents(self._scene.topic)

    def judge(self, outcome: dict[str, Any]) -> list[str]:
        read = readings(self._scene.contents(self._scene.topic))
        late = readings(self._scene.contents(self._late))
        on_time = sorted(set(read) - set(late))
        watermark = max(row.time for row in read) - WATERMARK
        expected = {
            window: (len(levels), sum(levels))
            for window, levels in closed(sliding(on_time, MINUTE, MINUTE), watermark).items()
        }
        details = outcome["details"]
        counts = (details["on time, all runs"], details["late, all runs"])
        kept = [json.loads(row["value"])["level"] for row in rows_of(self._scene.folder / "late")]
        checks = {
            "messages are late twice": len(late) != len(set(late)),
            "messages are late that are not": any(row.time > BASE - HOURS_LATE + self._count * 1000 for row in late),
            "messages are late that nobody sent": not set(late) <= set(read),
            f"on time and late are {counts}, the client counts otherwise": counts != (len(on_time), len(late)),
            "the late table and the late topic differ": sorted(kept) != sorted(row.level for row in late),
            "the table is not what the messages give": self._table() != expected,
            "the output topic is not what the messages give": self._topic() != expected,
        }
        return [text for text, is_wrong in checks.items() if is_wrong]

    def _table(self) -> dict[Window, tuple[int, float]] | None:
        """Returns the table's windows, None when one is there twice."""
        rows = rows_of(self._scene.folder / "out")
        found = {Window(row["key"], _ms(row["window_start"]), _ms(row["window_end"])): row for row in rows}
        if len(found) != len(rows):
            return None
        return {window: (row["n"], row["sum_level"]) for window, row in found.items()}

    def _topic(self) -> dict[Window, tuple[int, float]] | None:
        """Returns the topic's windows, None when a key is there twice."""
        messages = self._scene.contents(self._out)
        if len({each.partition_key() for each in messages}) != len(messages):
            return None
        found = {}
        for message in messages:
            record = json.loads(message.data())
            start, end = (_ms(datetime.fromisoformat(record[name])) for name in ("window_start", "window_end"))
            found[Window(record["key"], start, end)] = (record["n"], record["sum_level"])
        return found


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Returns the rows of a Parquet table."""
    if not folder.exists():
        return []
    found: list[dict[str, Any]] = pds.dataset(str(folder), format="parquet", partitioning="hive").to_table().to_pylist()
    return found


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)
