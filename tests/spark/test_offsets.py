"""Where queries begin and end when users name ids and times, on a real server."""

import json
import time
from typing import Any, cast

import pulsar
import pytest
from pyspark.sql.datasource import DataSourceReader

from magnetar.spark.source import PulsarDataSource
from magnetar.spark.source.options import BadOption
from magnetar.spark.source.ranges.bounds import WHOLE_ENTRY, Bound, bound_of_value, bounds_from_json, bounds_to_json
from magnetar.spark.source.ranges.continuity_rules import DataLoss
from tests.spark.support import Scene, produce, stream, values

PREFIX = "persistent://public/default"
BATCHES = {"batching_enabled": True, "batching_max_messages": 10, "batching_max_publish_delay_ms": 10_000}


@pytest.mark.parametrize(
    ("text", "partition", "bound"),
    [
        ("3:7", -1, Bound(3, 7)),
        ("3:7", 4, Bound(3, 7)),
        ("3:7:-1", -1, Bound(3, 7)),
        ("3:7:-1", 4, Bound(3, 7)),
        ("3:7:4", 4, Bound(3, 7)),
        ("3:7:4:-1", 4, Bound(3, 7)),
        ("3:7:4:2", 4, Bound(3, 7, 2)),
        ("3:7:-1:2", -1, Bound(3, 7, 2)),
        (str(pulsar.MessageId(4, 3, 7, 2)), 4, Bound(3, 7, 2)),
        (str(pulsar.MessageId(-1, 3, 7, -1)), -1, Bound(3, 7)),
        (str(pulsar.MessageId.earliest), 0, Bound(-1, -1)),
        (str(Bound(3, 7, 2)), 4, Bound(3, 7, 2)),
        (str(Bound(3, 7)), 4, Bound(3, 7)),
    ],
)
def test_an_id_means_what_the_client_that_printed_it_means(text: str, partition: int, bound: Bound) -> None:
    assert bound_of_value(text, partition) == bound


@pytest.mark.parametrize(
    ("text", "partition", "sentence"),
    [
        ("3:7:2", 4, "'3:7:2' is an id of partition 2 and is given for partition 4"),
        ("3:7:2", -1, "'3:7:2' is an id of partition 2 and is given for a topic without partitions"),
        ("3:7:2:1", 4, "is an id of partition 2"),
        ("3", -1, "'3' is no message id"),
        ("3:-7", -1, "'3:-7' is no message id"),
        ("3:7:1:1:1", 1, "is no message id"),
        ("latest:7", 1, "is no message id"),
    ],
)
def test_an_id_of_another_partition_or_no_id_is_refused(text: str, partition: int, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        bound_of_value(text, partition)


def test_an_id_of_bytes_names_its_partition_too() -> None:
    given = list(pulsar.MessageId(4, 3, 7, 2).serialize())
    assert bound_of_value(given, 4) == Bound(3, 7, 2)
    with pytest.raises(ValueError, match="is an id of partition 4 and is given for partition 5"):
        bound_of_value(given, 5)


def test_checkpoints_are_read_as_they_were_written_once_and_are_written_now() -> None:
    held = {"a": Bound(3, 7, 2), "b": Bound(3, 7), "c": Bound(-1, -1)}
    assert bounds_from_json({"a": "3:7:2", "b": "3:7", "c": "-1:-1"}) == held
    assert bounds_from_json(bounds_to_json(held)) == held
    assert Bound.parse(f"3:7:{WHOLE_ENTRY}") == held["b"]


def read(scene: Scene, topic: str, **options: object) -> list[int]:
    source = PulsarDataSource(scene.options(topic, **options))
    reader = source.reader(source.schema())
    assert isinstance(reader, DataSourceReader)
    return values(cast(Any, reader), reader.partitions())


@pytest.mark.process
def test_printed_ids_bound_a_query_by_entry_and_by_message(scene: Scene) -> None:
    topic = f"{PREFIX}/printed"
    produce(scene, topic, 40, **BATCHES)
    ids = {int(message.data()): message.message_id() for message in scene.contents(topic)}
    first, last = ids[13], ids[27]

    def between(start: str, end: str) -> list[int]:
        return read(scene, topic, startingOffsets=json.dumps({topic: start}), endingOffsets=json.dumps({topic: end}))

    assert between(str(first), str(last)) == list(range(13, 28))
    java = [f"{each.ledger_id()}:{each.entry_id()}:{each.partition()}" for each in (first, last)]
    assert between(*java) == list(range(10, 30))
    assert between(f"{java[0]}:3", f"{java[1]}:7") == list(range(13, 28))
    assert between("earliest", java[0]) == list(range(20))
    assert between(java[1], "latest") == list(range(20, 40))


@pytest.mark.process
def test_an_option_that_names_what_is_not_read_is_refused(scene: Scene) -> None:
    topic = f"{PREFIX}/only-read"
    produce(scene, topic, 1)
    other = f"{PREFIX}/not-read"
    for option in ("startingOffsets", "endingOffsets"):
        with pytest.raises(BadOption, match=f"option {option}: {other} is not read; what is read are {topic}"):
            read(scene, topic, **{option: json.dumps({other: "1:1"})})
    for option in ("startingTime", "endingTime"):
        with pytest.raises(BadOption, match=f"option {option}: {other} is not read"):
            read(scene, topic, **{option: json.dumps({topic: 1, "not-read": 1})})
    reader = stream(scene, topic, startingTime=json.dumps({other: 1}))
    with pytest.raises(BadOption, match=f"option startingTime: {other} is not read"):
        reader.initialOffset()
    reader.stop()


@pytest.mark.process
def test_ids_behind_the_last_message_obey_the_option_of_data_loss(scene: Scene) -> None:
    topic = f"{PREFIX}/beyond"
    produce(scene, topic, 5, batching_enabled=False)
    last = scene.contents(topic)[-1].message_id()
    following = json.dumps({topic: f"{last.ledger_id()}:{last.entry_id() + 1}"})
    beyond = json.dumps({topic: f"{last.ledger_id()}:{last.entry_id() + 2}"})
    assert read(scene, topic, startingOffsets=following) == []
    for options in ({"startingOffsets": beyond}, {"endingOffsets": beyond}):
        with pytest.raises(DataLoss, match=f"option {next(iter(options))}: .* of {topic} does not exist, the last"):
            read(scene, topic, **options)
    assert read(scene, topic, startingOffsets=beyond, failOnDataLoss="false") == []
    assert read(scene, topic, endingOffsets=beyond, failOnDataLoss="false") == [0, 1, 2, 3, 4]


@pytest.mark.process
def test_a_checkpoint_behind_the_last_message_obeys_the_option_of_data_loss(scene: Scene) -> None:
    topic = f"{PREFIX}/beyond-checkpoint"
    produce(scene, topic, 5, batching_enabled=False)
    last = scene.contents(topic)[-1].message_id()
    start = {topic: f"{last.ledger_id()}:{last.entry_id() + 100}"}
    strict, lenient = (stream(scene, topic, failOnDataLoss=each) for each in ("true", "false"))
    with pytest.raises(DataLoss, match=f"{topic} ends at .*, but was read up to"):
        strict.latestOffset(start)
    end = lenient.latestOffset(start)
    assert values(lenient, lenient.partitions(start, end)) == []
    produce(scene, topic, 3, first=5, batching_enabled=False)
    assert values(lenient, lenient.partitions(end, lenient.latestOffset(end))) == [5, 6, 7]
    strict.stop()
    lenient.stop()


@pytest.mark.process
def test_times_are_given_by_partition_or_for_all_partitions_of_a_topic(scene: Scene) -> None:
    topic = f"{PREFIX}/timed"
    scene.admin.put("persistent/public/default/timed/partitions", 3)
    names = [f"{topic}-partition-{index}" for index in range(3)]
    for index, name in enumerate(names):
        produce(scene, name, 2, first=10 * index, batching_enabled=False)
    between = int(time.time() * 1000) + 1
    while int(time.time() * 1000) <= between:
        pass
    for index, name in enumerate(names):
        produce(scene, name, 2, first=10 * index + 5, batching_enabled=False)
    every = [[0, 1, 5, 6], [10, 11, 15, 16], [20, 21, 25, 26]]
    assert sorted(read(scene, topic, startingTime=json.dumps({topic: between}))) == [5, 6, 15, 16, 25, 26]
    mixed = json.dumps({topic: between, names[1]: -2, names[2]: -1})
    assert sorted(read(scene, topic, startingTime=mixed)) == [5, 6, *every[1]]
    ends = json.dumps({names[0]: between, names[1]: -2})
    assert sorted(read(scene, topic, endingTime=ends)) == [0, 1, *every[2]]
