"""The published connector against the server, on a real Spark session: what a Spark user does first."""

import base64
import json
from pathlib import Path

import pulsar
import pytest

from compat_tests.harness import wait_until
from compat_tests.spark.published import Driver
from compat_tests.spark.scene import Scene, prepare

pytestmark = pytest.mark.slow

EVENT_TIME_MS = 1_600_000_000_000


def numbers(count: int) -> list[str]:
    return sorted(str(number) for number in range(count))


def test_a_batch_read_of_bytes_and_strings(scene: Scene) -> None:
    bare = scene.topic("bytes", 50)
    assert scene.run(f"result = texts(read(topic='{bare}'))") == numbers(50)
    text = scene.topic("text", 50, pulsar.schema.StringSchema())
    assert scene.run(f"result = texts(read(topic='{text}'))") == numbers(50)
    assert scene.run(f"result = read(topic='{text}').schema['value'].dataType.simpleString()") == "string"


class Reading(pulsar.schema.Record):  # type: ignore[misc]
    name = pulsar.schema.String()
    level = pulsar.schema.Integer()


@pytest.mark.parametrize("kind", ["Json", "Avro"])
def test_a_batch_read_of_records_gives_their_columns(scene: Scene, kind: str) -> None:
    topic = f"persistent://public/default/records-{kind}"
    producer = scene.client.create_producer(topic, schema=getattr(pulsar.schema, f"{kind}Schema")(Reading))
    for number in range(20):
        producer.send(Reading(name=f"n{number}", level=number))
    rows = scene.run(f"result = [[r.name, r.level] for r in read(topic='{topic}').collect()]")
    assert sorted(rows) == sorted([f"n{number}", number] for number in range(20))


def test_many_topics_by_list_and_by_pattern(scene: Scene) -> None:
    first, second = scene.topic("many-a", 5), scene.topic("many-b", 7)
    assert len(scene.run(f"result = texts(read(topics='{first},{second}'))")) == 12
    pattern = "persistent://public/default/many-.*"
    assert len(scene.run(f"result = texts(read(topicsPattern='{pattern}'))")) == 12


def test_offsets_given_as_ids_bound_a_read(scene: Scene) -> None:
    topic = scene.topic("bounds", 20, batching_enabled=False)
    ids = [message.message_id() for message in scene.contents(topic)]
    start, end = (signed(ids[at]) for at in (5, 12))
    bounds = {"startingOffsets": json.dumps({topic: start}), "endingOffsets": json.dumps({topic: end})}
    assert scene.run(f"result = texts(read(topic='{topic}', **{bounds}))") == sorted(map(str, range(5, 13)))


def partitioned(scene: Scene, name: str, partitions: int, count: int) -> str:
    topic = f"persistent://public/default/{name}"
    scene.admin.put(scene.partitions(topic), partitions)
    return scene.topic(name, count, batching_max_messages=2)


def test_a_partitioned_topic_is_read_whole_and_by_offsets_of_its_partitions(scene: Scene) -> None:
    topic = partitioned(scene, "parts", 3, 60)
    assert scene.run(f"result = texts(read(topic='{topic}'))") == numbers(60)
    names = scene.run(f"result = [row[0] for row in read(topic='{topic}').select('__topic').distinct().collect()]")
    assert sorted(names) == [f"{topic}-partition-{index}" for index in range(3)]
    expected, starts, ends = [], {}, {}
    for name in names:
        first, *between, last = entries(scene.contents(name))
        starts[name], ends[name] = signed(between[0][0].message_id()), signed(between[-1][-1].message_id())
        expected += [message.value().decode() for entry in between for message in entry]
        assert first != last
    bounds = {"startingOffsets": json.dumps(starts), "endingOffsets": json.dumps(ends)}
    assert scene.run(f"result = texts(read(topic='{topic}', **{bounds}))") == sorted(expected)


def entries(messages: list[pulsar.Message]) -> list[list[pulsar.Message]]:
    """Returns the messages of each entry, because offsets lie between entries."""
    found: dict[int, list[pulsar.Message]] = {}
    for message in messages:
        found.setdefault(message.message_id().entry_id(), []).append(message)
    return list(found.values())


def signed(message_id: pulsar.MessageId) -> list[int]:
    """Returns an offset as the connector takes it: the id's bytes as signed numbers."""
    return [byte - 256 if byte > 127 else byte for byte in message_id.serialize()]


def test_a_stream_takes_in_partitions_that_are_added(scene: Scene, tmp_path: Path) -> None:
    topic = partitioned(scene, "grown", 2, 40)
    scene.run(f"query = start(read_stream(topic='{topic}'), '{tmp_path}'); query.processAllAvailable()")
    scene.admin.post(scene.partitions(topic), 4)
    scene.topic("grown", 80)
    scene.run("query.processAllAvailable(); query.stop()")
    found = scene.run(f"result = texts(session.read.parquet('{tmp_path}/table'))")
    assert found == sorted(numbers(40) + numbers(80))
    names = f"session.read.parquet('{tmp_path}/table').select('__topic').distinct().count()"
    assert scene.run(f"result = {names}") == 4


def test_a_stream_of_a_pattern_from_latest_gets_only_what_comes(scene: Scene, tmp_path: Path) -> None:
    for name in ("fresh-a", "fresh-b"):
        scene.topic(name, 10)
    pattern = "persistent://public/default/fresh-.*"
    options = f"topicsPattern='{pattern}', startingOffsets='latest'"
    scene.run(f"query = start(read_stream({options}), '{tmp_path}'); query.processAllAvailable()")
    for name in ("fresh-a", "fresh-b"):
        scene.topic(name, 5)
    scene.run("query.processAllAvailable(); query.stop()")
    assert scene.run(f"result = texts(session.read.parquet('{tmp_path}/table'))") == sorted(numbers(5) * 2)


def test_a_streaming_write_carries_keys_and_event_times(scene: Scene, tmp_path: Path) -> None:
    source, target = "persistent://public/default/keyed-in", "persistent://public/default/keyed-out"
    producer = scene.client.create_producer(source)
    for number in range(20):
        producer.send(b"v%d" % number, partition_key=f"k{number}", event_timestamp=EVENT_TIME_MS + number)
    scene.run(f"""
        frame = read_stream(topic='{source}').select(
            F.col('value').cast('string').alias('value'), F.col('__key').cast('string').alias('__key'),
            F.expr('unix_millis(__eventTime)').alias('__eventTime'), F.lit('{target}').alias('__topic'))
        query = (frame.writeStream.format('pulsar').options(**options())
                 .option('checkpointLocation', '{tmp_path}/out').trigger(availableNow=True).start())
        query.awaitTermination()
    """)
    found = {message.value().decode(): message for message in scene.contents(target)}
    assert sorted(found) == sorted(f"v{number}" for number in range(20))
    for number in range(20):
        assert found[f"v{number}"].event_timestamp() == EVENT_TIME_MS + number
        assert key_of(found[f"v{number}"]) == f"k{number}"


def key_of(message: pulsar.Message) -> str:
    """The connector writes keys as bytes, which the Python client shows as base64."""
    return base64.b64decode(message.partition_key()).decode()


def test_rows_of_several_columns_are_written_as_records(scene: Scene) -> None:
    topic = "persistent://public/default/records-out"
    scene.run(f"write(session.range(10).selectExpr(\"concat('n', id) as name\", 'int(id) as level'), '{topic}')")
    rows = scene.run(f"result = [[r.name, r.level] for r in read(topic='{topic}').collect()]")
    assert sorted(rows) == sorted([f"n{number}", number] for number in range(10))


def test_a_batch_write_carries_keys_and_event_times(scene: Scene) -> None:
    topic = "persistent://public/default/written"
    scene.run(f"""
        frame = session.range(20).selectExpr(
            "concat('v', id) as value", "concat('k', id) as __key", "{EVENT_TIME_MS} + id as __eventTime")
        write(frame, '{topic}')
    """)
    found = {message.value().decode(): message for message in scene.contents(topic)}
    assert sorted(found) == sorted(f"v{number}" for number in range(20))
    for number in range(20):
        assert found[f"v{number}"].event_timestamp() == EVENT_TIME_MS + number
        assert key_of(found[f"v{number}"]) == f"k{number}"
    assert len(scene.run(f"result = texts(read(topic='{topic}'))")) == 20


def test_a_stream_killed_and_restarted_loses_and_doubles_nothing(scene: Scene, tmp_path: Path) -> None:
    topic = scene.topic("killed", 100)
    with Driver(tmp_path) as victim:
        prepare(victim, scene.server)
        victim.run(f"query = start(read_stream(topic='{topic}'), '{tmp_path}')")
        victim.run("query.processAllAvailable()")
        scene.topic("killed", 100)
        victim.kill()
    code = f"query = start(read_stream(topic='{topic}'), '{tmp_path}'); query.processAllAvailable(); query.stop()"
    scene.run(code)
    assert scene.run(f"result = texts(session.read.parquet('{tmp_path}/table'))") == sorted(numbers(100) * 2)


def test_the_server_killed_under_a_stream_loses_and_doubles_nothing(scene: Scene, tmp_path: Path) -> None:
    topic = scene.topic("server-killed", 100)
    scene.run(f"query = start(read_stream(topic='{topic}'), '{tmp_path}'); query.processAllAvailable()")
    scene.server.kill()
    scene.run(ENDED)  # the connector asks over HTTP for the last message, and asks once only
    scene.server.start()
    scene.topic("server-killed", 100)
    scene.run(f"query = start(read_stream(topic='{topic}'), '{tmp_path}'); query.processAllAvailable(); query.stop()")
    assert scene.run(f"result = texts(session.read.parquet('{tmp_path}/table'))") == sorted(numbers(100) * 2)


def test_available_now_foreach_batch_and_a_streaming_write(scene: Scene, tmp_path: Path) -> None:
    source, target = scene.topic("pipe-in", 60), "persistent://public/default/pipe-out"
    scene.run(f"""
        seen = []
        frame = read_stream(topic='{source}').select(F.col('value').cast('string').alias('value'))
        query = (frame.writeStream.foreachBatch(lambda batch, number: seen.append(batch.count()))
                 .option('checkpointLocation', '{tmp_path}/each').trigger(availableNow=True).start())
        query.awaitTermination()
        out = (frame.withColumn('__topic', F.lit('{target}')).writeStream.format('pulsar').options(**options())
               .option('checkpointLocation', '{tmp_path}/out').trigger(availableNow=True).start())
        out.awaitTermination()
    """)
    assert scene.run("result = sum(seen)") == 60
    assert sorted(message.value().decode() for message in scene.contents(target)) == numbers(60)


def test_windows_with_a_watermark(scene: Scene, tmp_path: Path) -> None:
    topic = "persistent://public/default/windows"
    producer = scene.client.create_producer(topic)
    for second in range(0, 120, 2):
        producer.send(b"x", event_timestamp=1_600_000_020_000 + second * 1000)
    scene.run(f"""
        frame = (read_stream(topic='{topic}').withWatermark('__eventTime', '10 seconds')
                 .groupBy(F.window('__eventTime', '1 minute')).count())
        query = (frame.writeStream.format('memory').queryName('windows').outputMode('append')
                 .option('checkpointLocation', '{tmp_path}/checkpoint').start())
        query.processAllAvailable()
    """)
    closed = scene.run("result = [r['count'] for r in session.sql('select * from windows').collect()]")
    scene.run("query.stop()")
    assert closed == [30]


def test_a_stopped_stream_leaves_no_subscription(scene: Scene, tmp_path: Path) -> None:
    topic = scene.topic("left", 5)
    scene.run(f"query = start(read_stream(topic='{topic}'), '{tmp_path}'); query.processAllAvailable()")
    assert len(scene.run(SUBSCRIPTIONS.format(web=scene.server.web_url, name="left"))) == 1
    scene.run("query.stop()")
    code = SUBSCRIPTIONS.format(web=scene.server.web_url, name="left")
    wait_until(lambda: scene.run(code) == [], "the connector deleted its subscription")


ENDED = """
try:
    query.awaitTermination(180)
except Exception:
    pass
assert not query.isActive
"""

SUBSCRIPTIONS = """
from urllib.request import urlopen
result = json.load(urlopen('{web}/admin/v2/persistent/public/default/{name}/subscriptions', timeout=60))
"""
