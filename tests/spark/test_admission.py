"""Where batches end, asked as Spark's process asks, on a real server with an official producer."""

from collections.abc import Mapping
from typing import Any

import pytest

from magnetar.spark.source.admission import Admission
from magnetar.spark.source.options import read_options
from magnetar.spark.source.planner import Planner
from magnetar.spark.source.ranges.bounds import BEFORE_ALL, Range
from magnetar.spark.source.read_limits import ReadAllAvailable, ReadMaxRows
from magnetar.spark.source.stream_reader import PulsarStreamReader
from tests.spark.support import Scene, produce, stream, values

pytestmark = [pytest.mark.process]

PREFIX = "persistent://public/default"
WITHOUT_ADMIN = {"admin_url": ""}
BATCHES = {"batching_enabled": True, "batching_max_messages": 50, "batching_max_publish_delay_ms": 10_000}


def batches(reader: PulsarStreamReader) -> list[list[int]]:
    """Reads batch after batch until nothing is left, as Spark 4.1 asks."""
    found = []
    start = reader.initialOffset()
    while (end := reader.latestOffset()) != start:
        found.append(values(reader, reader.partitions(start, end)))
        start = end
    reader.stop()
    return found


@pytest.mark.parametrize("more", [{}, WITHOUT_ADMIN])
def test_a_batch_has_exactly_the_number_of_messages_that_is_allowed(scene: Scene, more: Mapping[str, str]) -> None:
    """Producers batch 50 messages, then one, so no entry tells how many messages the others have."""
    topic = f"{PREFIX}/exact-{len(more)}"
    produce(scene, topic, 1, batching_enabled=False)
    produce(scene, topic, 200, first=1, **BATCHES)
    produce(scene, topic, 3, first=201, batching_enabled=False)
    found = batches(stream(scene, topic, startingOffsets="earliest", maxOffsetsPerTrigger=70, **more))
    assert [len(batch) for batch in found] == [70, 70, 64]
    assert [value for batch in found for value in batch] == list(range(204))


def test_a_query_that_is_restarted_inside_an_entry_goes_on_there(scene: Scene) -> None:
    topic = f"{PREFIX}/inside"
    produce(scene, topic, 100, **BATCHES)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 30}
    first = stream(scene, topic, **options)
    start, end = first.initialOffset(), first.latestOffset()
    assert end[topic].endswith(":-1:29")
    again = stream(scene, topic, **options)
    assert values(again, again.partitions(start, end)) == list(range(30))
    following = again.latestOffset(end, ReadMaxRows(30))
    assert values(again, again.partitions(end, following)) == list(range(30, 60))
    assert values(again, again.partitions(following, again.latestOffset(following, ReadAllAvailable()))) == list(
        range(60, 100)
    )
    again.stop()
    first.stop()


def test_partitions_share_the_limit_and_give_what_they_do_not_need(scene: Scene) -> None:
    topic = f"{PREFIX}/shared"
    scene.admin.put("persistent/public/default/shared/partitions", 3)
    for index, count in enumerate((5, 100, 30)):
        produce(scene, f"{topic}-partition-{index}", count, first=1000 * index, **BATCHES)
    found = batches(stream(scene, topic, startingOffsets="earliest", maxOffsetsPerTrigger=60))
    assert [len(batch) for batch in found] == [60, 60, 15]
    assert {value // 1000 for value in found[0]} == {0, 1, 2}
    assert len([value for value in found[0] if value < 1000]) == 5
    assert sorted(value for batch in found for value in batch) == [
        *range(5), *range(1000, 1100), *range(2000, 2030)
    ]  # fmt: skip


def test_a_limit_below_the_number_of_partitions_starves_none_of_them(scene: Scene) -> None:
    topic = f"{PREFIX}/starving"
    scene.admin.put("persistent/public/default/starving/partitions", 3)
    for index in range(3):
        produce(scene, f"{topic}-partition-{index}", 4, first=1000 * index, batching_enabled=False)
    found = batches(stream(scene, topic, startingOffsets="earliest", maxOffsetsPerTrigger=1))
    assert [len(batch) for batch in found] == [1] * 12
    assert {batch[0] // 1000 for batch in found[:3]} == {0, 1, 2}


@pytest.mark.parametrize("more", [{}, WITHOUT_ADMIN])
def test_a_limit_on_bytes_is_kept_with_and_without_an_admin_url(scene: Scene, more: Mapping[str, str]) -> None:
    topic = f"{PREFIX}/bytes-{len(more)}"
    producer = scene.client.create_producer(topic, batching_enabled=False)
    for number in range(20):
        producer.send(b"%d".ljust(1000) % number)
    found = batches(stream(scene, topic, startingOffsets="earliest", maxBytesPerTrigger=5500, **more))
    assert [len(batch) for batch in found] == [5, 5, 5, 5]
    producer.send(b"20".ljust(9000))
    found = batches(stream(scene, topic, startingOffsets="earliest", maxBytesPerTrigger=5500, **more))
    assert [value for batch in found for value in batch] == list(range(21))


def test_a_chunked_message_counts_once(scene: Scene) -> None:
    topic = f"{PREFIX}/chunks"
    producer = scene.client.create_producer(topic, batching_enabled=False, chunking_enabled=True)
    for number in range(3):
        producer.send(b"%d".ljust(12_000_000) % number)
    produce(scene, topic, 3, first=3, batching_enabled=False)
    found = batches(stream(scene, topic, startingOffsets="earliest", maxOffsetsPerTrigger=2))
    assert found == [[0, 1], [2, 3], [4, 5]]


class Clock:
    """A clock that stands still until the test sets it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_batch_waits_for_enough_messages_but_not_for_ever(scene: Scene) -> None:
    topic = f"{PREFIX}/waiting"
    options = read_options(
        scene.options(topic, minOffsetsPerTrigger=10, maxOffsetsPerTrigger=15, maxTriggerDelay="2m"), streaming=True
    )
    clock = Clock()
    produce(scene, topic, 3, batching_enabled=False)
    planner = Planner(options)
    admission = Admission(planner, options, clock)

    def batch(after: Any, **more: Any) -> tuple[Any, int]:
        wanted = Range(after, planner.last(topic))
        end = admission.ends({topic: wanted}, **more)[topic]
        return end, planner.counter(topic, after).count(end, None)

    end, count = batch(BEFORE_ALL)
    assert count == 3  # a query's first batch never waits
    produce(scene, topic, 9, first=3, batching_enabled=False)
    assert batch(end) == (end, 0)
    clock.now += 119
    assert batch(end) == (end, 0)
    assert batch(end, may_wait=False)[1] == 9  # an available-now run would never end otherwise
    clock.now += 119
    assert batch(end) == (end, 0)
    clock.now += 1
    end, count = batch(end)
    assert count == 9
    produce(scene, topic, 38, first=12, **BATCHES)
    for expected in (15, 15):
        end, count = batch(end)
        assert count == expected
    assert batch(end) == (end, 0)
    admission.close()
    planner.close()


def test_tasks_have_at_most_so_many_messages(scene: Scene) -> None:
    topic = f"{PREFIX}/records"
    produce(scene, topic, 100, **BATCHES)
    reader = stream(scene, topic, startingOffsets="earliest", maxRecordsPerPartition=30)
    start, end = reader.initialOffset(), reader.latestOffset()
    tasks = reader.partitions(start, end)
    assert [len(values(reader, [task])) for task in tasks] == [30, 30, 30, 10]
    assert values(reader, tasks) == list(range(100))
    assert reader.partitions(start, end) == tasks
    reader.stop()


def test_an_available_now_run_ends_where_the_topic_ended_when_it_began(scene: Scene) -> None:
    topic = f"{PREFIX}/now"
    produce(scene, topic, 25, batching_enabled=False)
    reader = stream(scene, topic, startingOffsets="earliest", maxOffsetsPerTrigger=10, minOffsetsPerTrigger=8)
    reader.prepareForTriggerAvailableNow()
    assert reader.getDefaultReadLimit() == ReadMaxRows(10)
    produce(scene, topic, 10, first=25, batching_enabled=False)
    found = batches(reader)
    assert found == [list(range(10)), list(range(10, 20)), list(range(20, 25))]


def test_the_lag_behind_the_last_message_is_told(scene: Scene) -> None:
    topic = f"{PREFIX}/lag"
    scene.admin.put("persistent/public/default/lag/partitions", 2)
    producer = scene.client.create_producer(f"{topic}-partition-0", batching_enabled=False)
    for number in range(10):
        producer.send(b"%0100d" % number)
    reader = stream(scene, topic, startingOffsets="earliest", maxOffsetsPerTrigger=4)
    assert reader.reportLatestOffset() is None
    reader.initialOffset()
    end = reader.latestOffset()
    report: Any = reader.reportLatestOffset()
    last = scene.admin.get("persistent/public/default/lag-partition-0/lastMessageId")
    assert report[f"{topic}-partition-0"] == f"{last['ledgerId']}:{last['entryId']}"
    behind = report["behind"]
    assert (behind["messages"], behind["maxMessagesBehindLatest"], behind["avgMessagesBehindLatest"]) == (6, 6, 3.0)
    assert 600 < behind["bytes"] < 1200
    assert behind["publishTimeMs"] == behind["partitions"][f"{topic}-partition-0"]["publishTimeMs"] >= 0
    assert behind["partitions"][f"{topic}-partition-1"] == {"messages": 0, "bytes": 0, "publishTimeMs": 0}
    reader.latestOffset(end, ReadAllAvailable())
    report = reader.reportLatestOffset()
    assert (report["behind"]["messages"], report["behind"]["publishTimeMs"]) == (0, 0)
    reader.stop()
