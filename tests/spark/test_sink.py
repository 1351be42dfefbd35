"""What rows become as messages: written by Spark, read by the official client."""

import contextlib
import time
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F  # noqa: N812, Spark's custom

from tests.spark.support import Scene, run_until

pytestmark = [pytest.mark.process, pytest.mark.slow]

PREFIX = "persistent://public/default"


def write(scene: Scene, frame: Any, topic: str, **options: object) -> None:
    frame.write.format("pulsar").options(**scene.options(topic, **options)).mode("append").save()


def test_rows_as_for_kafka_become_keyed_messages_in_the_partition_that_they_name(scene: Scene) -> None:
    topic = f"{PREFIX}/as-for-kafka"
    scene.admin.put("persistent/public/default/as-for-kafka/partitions", 3)
    frame = scene.session.range(30).selectExpr(
        "concat('k', id % 5) as key",
        "to_json(struct(id)) as value",
        "cast(id % 3 as int) as partition",
        "array(struct('h' as key, encode(string(id % 3), 'UTF-8') as value)) as headers",
    )
    write(scene, frame, topic)
    found = scene.contents(topic)
    assert sorted(message.data().decode() for message in found) == sorted(f'{{"id":{n}}}' for n in range(30))
    for message in found:
        number = int(message.data()[6:-1])
        assert message.partition_key() == f"k{number % 5}"
        assert message.properties() == {"h": str(number % 3)}
        assert message.topic_name().endswith(f"-partition-{number % 3}")
    with pytest.raises(PySparkException, match=f"{topic} has no partition 3, it has 3"):
        write(scene, frame.withColumn("partition", F.lit(3)), topic)


def test_batches_of_one_key_reach_one_consumer_each_and_are_batches(scene: Scene) -> None:
    topic = f"{PREFIX}/by-key"
    kind = pulsar.ConsumerType.KeyShared
    consumers = [scene.client.subscribe(topic, "s", consumer_type=kind) for _ in range(2)]
    frame = scene.session.range(0, 400, 1, 1).selectExpr(
        "cast(id as string) as value", "concat('k', id % 8) as __key", "concat('o', id % 4) as __orderingKey"
    )
    options = {"pulsar_producer_batcherBuilder": "KEY_BASED", "producerName": "by-key"}
    write(scene, frame, topic, **options)
    owners: dict[str, set[int]] = {}
    places: dict[tuple[int, int], set[str]] = {}
    order: dict[str, list[int]] = {}
    deadline = time.monotonic() + 180
    while sum(map(len, order.values())) < 400:
        assert time.monotonic() < deadline, order
        for index, consumer in enumerate(consumers):
            with contextlib.suppress(pulsar.Timeout):
                message = consumer.receive(timeout_millis=20)
                number, place = int(message.data()), message.message_id()
                ordering_key = f"o{number % 4}"
                owners.setdefault(ordering_key, set()).add(index)
                places.setdefault((place.ledger_id(), place.entry_id()), set()).add(ordering_key)
                order.setdefault(ordering_key, []).append(number)
    assert order == {f"o{index}": list(range(index, 400, 4)) for index in range(4)}
    assert all(len(each) == 1 for each in owners.values())
    assert all(len(each) == 1 for each in places.values())
    assert len(places) < 40
    write(scene, frame, topic, **options)  # a repetition under the same name, which the topic drops
    assert len(scene.contents(topic)) == 400


def test_messages_above_the_brokers_limit_go_in_chunks_once(scene: Scene, tmp_path: Path) -> None:
    source, target = f"{PREFIX}/large-in", f"{PREFIX}/large-out"
    producer = scene.client.create_producer(source, batching_enabled=False, chunking_enabled=True)
    large = [bytes([number]) * size for number, size in enumerate((6_000_000, 10, 11_000_000))]
    for value in large:
        producer.send(value)
    options = scene.options(target, pulsar_producer_chunkingEnabled="true")

    def start() -> Any:
        writer = scene.read_stream(source).select("value").writeStream.format("pulsar").options(**options)
        return writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()

    query = start()
    run_until(query, lambda: len(scene.contents(target)) >= 3)
    query.stop()
    for path in (tmp_path / "checkpoint" / "commits").glob("*0*"):
        path.unlink()  # the driver might have been killed before it wrote this down
    again = start()
    producer.send(b"last")
    run_until(again, lambda: any(message.data() == b"last" for message in scene.contents(target)))
    again.stop()
    assert [message.data() for message in scene.contents(target)] == [*large, b"last"]
    assert [bytes(row.value) for row in scene.read(target).collect()] == [*large, b"last"]


def test_columns_and_modes_that_cannot_be_written_are_named(scene: Scene) -> None:
    frame = scene.session.range(1).selectExpr("'v' as value", "1 as __eventTimes")
    with pytest.raises(PySparkException, match="column __eventTimes is no metadata that can be written"):
        write(scene, frame, "named")
    with pytest.raises(AnalysisException, match="mode"):
        frame.select("value").write.format("pulsar").options(**scene.options("named")).save()
    with pytest.raises(PySparkException, match="mode overwrite: a topic can only be appended to"):
        frame.select("value").write.format("pulsar").options(**scene.options("named")).mode("overwrite").save()
