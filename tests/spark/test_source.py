"""The Python data source on a real Spark session against a real server, checked by the official client."""

import json
import time
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812

from tests.spark.support import Scene, backlog, produce, run_until

pytestmark = [pytest.mark.process, pytest.mark.slow]


def values(rows: Any) -> list[int]:
    return sorted(int(row.value) for row in rows.collect())


@pytest.mark.parametrize("compression", ["NONE", "LZ4", "ZSTD", "ZLib", "SNAPPY"])
def test_a_batch_read_equals_the_official_clients(scene: Scene, compression: str) -> None:
    topic = f"persistent://public/default/read-{compression}"
    kind = getattr(pulsar.CompressionType, compression)
    producer = scene.client.create_producer(topic, compression_type=kind, batching_enabled=True)
    for number in range(300):
        producer.send_async(
            b"v%d" % number,
            None,
            partition_key=f"k{number % 7}" if number % 2 else None,
            properties={"n": str(number)} if number % 3 == 0 else None,
            event_timestamp=1_600_000_000_000 + number if number % 5 == 0 else None,
        )
    producer.flush()
    single = scene.client.create_producer(topic, batching_enabled=False, compression_type=kind)
    single.send(b"alone", partition_key="k")

    rows = {bytes(row["__messageId"]): row for row in scene.read(topic).collect()}
    expected = scene.contents(topic)
    assert len(rows) == len(expected) == 301
    for message in expected:
        matching = [row for key, row in rows.items() if pulsar.MessageId.deserialize(key) == message.message_id()]
        (row,) = matching
        assert row.value == message.data()
        assert (row["__key"] or b"").decode() == message.partition_key()
        assert row["__messageProperties"] == message.properties()
        assert row["__topic"] == topic
        assert round(row["__publishTime"].timestamp() * 1000) == message.publish_timestamp()
        event = row["__eventTime"]
        assert (round(event.timestamp() * 1000) if event else 0) == message.event_timestamp()


def test_one_partition_is_split_over_tasks_without_loss_or_repeat(scene: Scene) -> None:
    topic = "persistent://public/default/split"
    produce(scene, topic, 500, batching_enabled=False)
    frame = scene.read(topic, minPartitions=5)
    assert frame.rdd.getNumPartitions() == 5
    assert values(frame) == list(range(500))


def test_start_and_end_by_id_and_time(scene: Scene) -> None:
    topic = "persistent://public/default/bounds"
    produce(scene, topic, 20, batching_enabled=False)
    time_between = int(time.time() * 1000) + 1
    while int(time.time() * 1000) <= time_between:
        pass
    produce(scene, topic, 20, first=20, batching_enabled=False)
    ids = {int(message.data()): message.message_id() for message in scene.contents(topic)}
    as_bytes = [byte - 256 if byte > 127 else byte for byte in ids[5].serialize()]
    last = f"{ids[30].ledger_id()}:{ids[30].entry_id()}"
    by_id = scene.read(topic, startingOffsets=json.dumps({topic: as_bytes}), endingOffsets=json.dumps({topic: last}))
    assert values(by_id) == list(range(5, 31))
    assert values(scene.read(topic, startingTime=time_between)) == list(range(20, 40))
    assert values(scene.read(topic, endingTime=time_between)) == list(range(20))
    assert values(scene.read(topic, startingTime=int(time.time() * 1000) + 60_000)) == []
    with pytest.raises(AnalysisException, match="no message published at or after"):
        scene.read(
            topic, startingTime=int(time.time() * 1000) + 60_000, startingOffsetsByTimestampStrategy="error"
        ).collect()


def test_an_empty_topic_and_a_missing_one(scene: Scene) -> None:
    topic = "persistent://public/default/empty"
    scene.client.create_producer(topic).close()
    assert scene.read(topic).collect() == []
    with pytest.raises(AnalysisException, match="persistent://public/default/no-such does not exist"):
        scene.read("no-such")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"failOnDataLos": "true"}, "(?i)unknown option failOnDataLos"),
        ({"startingOffsets": "soon"}, "option startingOffsets: .soon.: expected earliest, latest or a JSON map"),
        ({"startingOffsets": "latest"}, "a batch query cannot start at latest"),
        ({"service_url": "http://x"}, "http://x"),
    ],
)
def test_bad_options_are_named(scene: Scene, options: dict[str, str], text: str) -> None:
    scene.client.create_producer("options").close()
    with pytest.raises(AnalysisException, match=text):
        scene.read("options", **options).collect()


def test_a_stream_is_capped_restarted_and_acknowledged(scene: Scene, tmp_path: Path) -> None:
    topic = "persistent://public/default/stream"
    produce(scene, topic, 100, batching_enabled=False)
    frame = scene.read_stream(topic, predefinedSubscription="job", maxOffsetsPerTrigger=40)
    query = scene.to_parquet(frame, tmp_path)
    run_until(query, lambda: sum(step["numInputRows"] for step in query.recentProgress) >= 100)
    assert max(step["numInputRows"] for step in query.recentProgress) == 40
    query.stop()
    produce(scene, topic, 100, first=100, batching_enabled=False)
    again = scene.to_parquet(frame, tmp_path)
    run_until(again, lambda: len(scene.table(tmp_path).collect()) >= 200)
    assert max(step["numInputRows"] for step in again.recentProgress) <= 40
    run_until(again, lambda: backlog(scene, topic, "job") == 0)
    again.stop()
    assert values(scene.table(tmp_path)) == list(range(200))


def test_the_server_may_be_killed_under_a_stream(scene: Scene, tmp_path: Path) -> None:
    topic = "persistent://public/default/killed-server"
    produce(scene, topic, 200, batching_enabled=False)
    query = scene.to_parquet(scene.read_stream(topic, maxOffsetsPerTrigger=60, predefinedSubscription="j"), tmp_path)
    run_until(query, lambda: len(query.recentProgress) >= 1)
    scene.server.kill()
    scene.server.start()
    produce(scene, topic, 200, first=200, batching_enabled=False)
    run_until(query, lambda: sum(step["numInputRows"] for step in query.recentProgress) >= 400)
    query.stop()
    assert values(scene.table(tmp_path)) == list(range(400))


def test_a_checkpoint_of_another_topic_is_no_licence_to_read_on(scene: Scene, tmp_path: Path) -> None:
    """Spark tells the source where the checkpoint is only after it has asked how far to read."""
    for name in ("first-of-two", "second-of-two"):
        produce(scene, f"persistent://public/default/{name}", 10)
    for name, refused in (("first-of-two", False), ("second-of-two", True)):
        frame = scene.read_stream(f"persistent://public/default/{name}").writeStream.format("parquet")
        frame = frame.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        query = frame.start(str(tmp_path / "table"))
        if refused:
            with pytest.raises(StreamingQueryException, match="first-of-two no longer exist"):
                query.awaitTermination(180)
        else:
            assert query.awaitTermination(180)
    assert scene.table(tmp_path).count() == 10


def test_a_start_behind_the_last_message_is_data_loss_that_is_named(scene: Scene, tmp_path: Path) -> None:
    topic = "persistent://public/default/deleted"
    produce(scene, topic, 10, batching_enabled=False)
    ids = [message.message_id() for message in scene.contents(topic)]
    gone = json.dumps({topic: f"{ids[0].ledger_id()}:{ids[-1].entry_id() + 5}"})
    again = scene.read_stream(topic, startingOffsets=gone)
    bad = scene.to_parquet(again, tmp_path / "other")
    with pytest.raises(StreamingQueryException, match=r"option startingOffsets: .* does not exist, the last"):
        bad.awaitTermination(180)


def test_write_read_round_trip_of_records_keys_and_times(scene: Scene) -> None:
    topic = "persistent://public/default/written"
    frame = scene.session.range(50).select(
        "id",
        F.expr("concat('n', id) as name"),
        F.expr("array(id, id + 1) as pair"),
        F.expr("named_struct('x', id / 2) as inner"),
        F.expr("concat('k', id) as __key"),
        F.expr("timestamp_millis(1600000000000 + id) as __eventTime"),
        F.expr("map('p', string(id)) as __messageProperties"),
    )
    frame.write.format("pulsar").options(**scene.options(topic)).mode("append").save()
    for message in scene.contents(topic):
        number = int(message.properties()["p"])
        assert message.partition_key() == f"k{number}"
        assert message.event_timestamp() == 1_600_000_000_000 + number
    read = scene.read(topic).select("id", "name", "pair", "inner", F.expr("string(__key) k")).orderBy("id").collect()
    assert [tuple(row) for row in read] == [(n, f"n{n}", [n, n + 1], (n / 2,), f"k{n}") for n in range(50)]


def test_the_sink_writes_each_row_once_although_a_batch_is_repeated(scene: Scene, tmp_path: Path) -> None:
    source, target = "persistent://public/default/once-in", "persistent://public/default/once-out"
    produce(scene, source, 300, batching_enabled=False)

    def start() -> Any:
        frame = scene.read_stream(source, maxOffsetsPerTrigger=100).select("value")
        writer = frame.writeStream.format("pulsar").options(**scene.options(target))
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    query = start()
    run_until(query, lambda: sum(step["numInputRows"] for step in query.recentProgress) >= 300)
    query.stop()
    commits = sorted((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
        path.unlink(missing_ok=True)  # the driver might have been killed before it wrote this down
    again = start()
    produce(scene, source, 10, first=300, batching_enabled=False)
    run_until(again, lambda: sum(step["numInputRows"] for step in again.recentProgress) >= 10)
    run_until(again, lambda: len(scene.contents(target)) >= 310)
    again.stop()
    assert sorted(int(message.data()) for message in scene.contents(target)) == list(range(310))
