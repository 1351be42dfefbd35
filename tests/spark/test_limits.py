"""Limits, available-now runs and lag in Spark itself: what a query's progress reports say."""

import json
from pathlib import Path
from typing import Any

import pytest

from magnetar.spark.source.read_limits import SPARK_GIVES_LIMITS
from tests.spark.support import Scene, produce, run_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

PREFIX = "persistent://public/default"
BATCHES = {"batching_enabled": True, "batching_max_messages": 100, "batching_max_publish_delay_ms": 10_000}


def sizes(query: Any) -> list[int]:
    return [step["numInputRows"] for step in query.recentProgress if step["numInputRows"]]


def test_a_stream_takes_exactly_what_its_limit_allows_and_goes_on_inside_an_entry(scene: Scene, tmp_path: Path) -> None:
    topic = f"{PREFIX}/limited"
    produce(scene, topic, 1000, **BATCHES)
    frame = scene.read_stream(topic, maxOffsetsPerTrigger=170, admin_url="", predefinedSubscription="job")
    query = scene.to_parquet(frame, tmp_path)
    run_until(query, lambda: sum(sizes(query)) >= 170)
    query.stop()
    again = scene.to_parquet(frame, tmp_path)
    run_until(again, lambda: scene.table(tmp_path).count() >= 1000)
    again.stop()
    assert {*sizes(query), *sizes(again)} <= {170, 1000 % 170}
    assert sorted(int(row.value) for row in scene.table(tmp_path).collect()) == list(range(1000))


@pytest.mark.skipif(not SPARK_GIVES_LIMITS, reason="Spark 4.1 asks once for the end of an available-now run")
def test_an_available_now_run_has_many_batches_and_tells_how_far_each_was_behind(scene: Scene, tmp_path: Path) -> None:
    topic = f"{PREFIX}/many-now"
    produce(scene, topic, 250, batching_enabled=False)
    frame = scene.read_stream(topic, maxOffsetsPerTrigger=100, minOffsetsPerTrigger=90)
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "table"))
    assert query.awaitTermination(180)
    assert sizes(query) == [100, 100, 50]
    reports = [json.loads(step["sources"][0]["latestOffset"]) for step in query.recentProgress if step["numInputRows"]]
    assert [report["behind"]["messages"] for report in reports] == [150, 50, 0]
    assert reports[0]["behind"]["publishTimeMs"] > 0
    assert json.loads(query.recentProgress[2]["sources"][0]["endOffset"]) == {topic: reports[2][topic]}
