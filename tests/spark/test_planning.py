"""What the driver plans: the data source's own objects, asked as Spark's processes ask them, on a real server."""

import json
from typing import Any, cast

import pulsar
import pytest

from magnetar.spark.shipping.registration import register
from magnetar.spark.source import PulsarDataSource
from magnetar.spark.source.options import BadOption
from magnetar.spark.source.ranges.continuity_rules import DataLoss
from magnetar.spark.source.stream_reader import PulsarStreamReader
from tests.spark.support import Scene, backlog, produce, stream, values

pytestmark = [pytest.mark.process]

PREFIX = "persistent://public/default"


class Shape(pulsar.schema.Record):  # type: ignore[misc]
    n = pulsar.schema.Integer()


def pattern_stream(scene: Scene, pattern: str, **options: object) -> PulsarStreamReader:
    given = scene.options("", topicsPattern=f"{PREFIX}/{pattern}", **options)
    del given["topic"]
    source = PulsarDataSource(given)
    reader = source.streamReader(source.schema())
    assert isinstance(reader, PulsarStreamReader)
    return reader


def test_a_repeated_batch_has_the_same_tasks_after_its_ledger_grew(scene: Scene) -> None:
    """A sink numbers its rows by task. If the tasks changed, it would lose rows and write others twice."""
    topic = f"{PREFIX}/repeated"
    produce(scene, topic, 100, batching_enabled=False)
    reader = stream(scene, topic, startingOffsets="earliest", maxBytesPerPartition=1000)
    start, end = reader.initialOffset(), reader.latestOffset()
    tasks = reader.partitions(start, end)
    assert len(tasks) > 2
    assert values(reader, tasks) == list(range(100))
    producer = scene.client.create_producer(topic, batching_enabled=False)
    for _ in range(20):
        producer.send(bytes(50_000))
    again = stream(scene, topic, startingOffsets="earliest", maxBytesPerPartition=1000)
    assert again.partitions(start, end) == tasks
    reader.stop()
    again.stop()


def test_a_batch_query_is_split_for_the_cores_of_the_cluster_unless_a_user_says_how(scene: Scene) -> None:
    topic = f"{PREFIX}/cores"
    producer = scene.client.create_producer(topic, batching_enabled=False)
    for number in range(30):
        producer.send_async((b"%d" % number).ljust(500_000), None)
    producer.flush()
    producer.close()
    register(scene.session)
    assert scene.read(topic).rdd.getNumPartitions() == 2  # those of local[2]
    assert scene.read(topic, cores=3).rdd.getNumPartitions() == 3
    assert scene.read(topic, cores=100).rdd.getNumPartitions() == 3  # of at least 4 MiB
    assert scene.read(topic, minPartitions=1).rdd.getNumPartitions() == 1
    reader = stream(scene, topic, startingOffsets="earliest")
    start, end = reader.initialOffset(), reader.latestOffset()
    assert len(reader.partitions(start, end)) == 1  # so that a repeated batch has the same tasks on another cluster
    reader.stop()
    wide = stream(scene, topic, startingOffsets="earliest", cores=3)
    tasks = wide.partitions(start, end)
    assert len(tasks) == 3
    assert values(wide, tasks) == list(range(30))
    wide.stop()


def test_a_topic_that_comes_later_is_kept_from_its_begin(scene: Scene) -> None:
    first, later = f"{PREFIX}/kept-a", f"{PREFIX}/kept-b"
    produce(scene, first, 1)
    reader = pattern_stream(scene, "kept-.*", startingOffsets="latest", predefinedSubscription="job")
    reader.initialOffset()
    reader.latestOffset()
    produce(scene, later, 1)
    assert sorted(reader.latestOffset()) == [first, later]
    assert (backlog(scene, first, "job"), backlog(scene, later, "job")) == (0, 1)
    reader.stop()


def test_a_topic_that_comes_later_with_another_schema_is_refused(scene: Scene) -> None:
    """Its values would not fit the query's schema, and would become nulls."""
    first, later = f"{PREFIX}/shaped-a", f"{PREFIX}/shaped-b"
    scene.client.create_producer(first, schema=pulsar.schema.StringSchema()).send("a")
    reader = pattern_stream(scene, "shaped-.*", startingOffsets="earliest")
    reader.initialOffset()
    scene.client.create_producer(f"{first}2", schema=pulsar.schema.StringSchema()).send("a")
    assert sorted(reader.latestOffset()) == [first, f"{first}2"]
    scene.client.create_producer(later, schema=pulsar.schema.JsonSchema(Shape)).send(Shape(n=1))
    with pytest.raises(ValueError, match=r"shaped-a and .*shaped-b have different schemas"):
        reader.latestOffset()
    reader.stop()


def test_a_topic_deleted_under_a_stream_is_named_or_passed_over(scene: Scene) -> None:
    for name in ("a", "b"):
        produce(scene, f"{PREFIX}/passed-{name}", 3, batching_enabled=False)
    gone = f"{PREFIX}/passed-b"

    given = {"startingOffsets": "earliest", "predefinedSubscription": "job"}
    lenient = pattern_stream(scene, "passed-.*", failOnDataLoss="false", **given)
    strict = pattern_stream(scene, "passed-.*", failOnDataLoss="true", **given)
    begin, end = lenient.initialOffset(), lenient.latestOffset()
    strict.partitions(begin, end)
    tasks = lenient.partitions(begin, end)  # from now on the batch is to be acknowledged
    scene.admin.delete("persistent/public/default/passed-b?force=true")
    assert values(lenient, tasks) == [0, 1, 2]
    assert values(lenient, lenient.partitions(begin, end)) == [0, 1, 2]  # Spark plans it again after a restart
    assert lenient.latestOffset() == end
    assert backlog(scene, f"{PREFIX}/passed-a", "job") == 0
    with pytest.raises(DataLoss, match=f"{gone}: it does not exist any more"):
        values(strict, tasks)
    with pytest.raises(DataLoss, match=f"{gone} no longer exist"):
        strict.latestOffset()
    lenient.stop()
    strict.stop()


def test_a_first_batch_that_is_repeated_after_partitions_came_leaves_them_to_the_next(scene: Scene) -> None:
    topic = f"{PREFIX}/first-repeated"
    path = "persistent/public/default/first-repeated/partitions"
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 2}
    scene.admin.put(path, 1)
    produce(scene, topic, 4, batching_enabled=False)
    killed = stream(scene, topic, **options)
    killed.initialOffset()
    end = killed.latestOffset()
    killed.stop()
    scene.admin.post(path, 2)
    produce(scene, f"{topic}-partition-1", 2, first=4, batching_enabled=False)
    again = stream(scene, topic, **options)
    assert values(again, again.partitions(again.initialOffset(), end)) == [0, 1]
    found = []
    for _ in range(2):
        start, end = end, again.latestOffset()
        found += values(again, again.partitions(start, end))
    assert sorted(found) == [2, 3, 4, 5]
    again.stop()


def test_ids_of_a_partitioned_topic_are_given_by_partition(scene: Scene) -> None:
    topic = f"{PREFIX}/by-partition"
    scene.admin.put("persistent/public/default/by-partition/partitions", 2)
    ids = json.dumps({topic: "1:2"})
    reader = stream(scene, topic, startingOffsets=ids)
    with pytest.raises(BadOption, match=r"by-partition has partitions, give the ids of .*-partition-0, .*-partition-1"):
        reader.initialOffset()
    reader.stop()
    source = PulsarDataSource(scene.options(topic, endingOffsets=ids))
    with pytest.raises(BadOption, match="option endingOffsets"):
        source.reader(source.schema()).partitions()


def test_the_id_named_latest_is_the_end_of_now(scene: Scene) -> None:
    topic = f"{PREFIX}/named-latest"
    produce(scene, topic, 3, batching_enabled=False)
    signed = [byte - 256 if byte > 127 else byte for byte in pulsar.MessageId.latest.serialize()]
    ids = json.dumps({topic: signed})
    reader = stream(scene, topic, startingOffsets=ids)
    start = reader.initialOffset()
    produce(scene, topic, 2, first=3, batching_enabled=False)
    assert values(reader, reader.partitions(start, reader.latestOffset())) == [3, 4]
    reader.stop()
    source = PulsarDataSource(scene.options(topic, endingOffsets=ids))
    batch = source.reader(source.schema())
    assert values(cast(Any, batch), batch.partitions()) == [0, 1, 2, 3, 4]
