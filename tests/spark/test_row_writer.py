"""What a task of the sink counts, and how it keeps to its rate."""

from typing import cast

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

from magnetar.spark.source.client.pulsar_client import PulsarClient
from magnetar.spark.source.options import write_options
from magnetar.spark.source.row_writer import Pace, TopicWriter, WrittenRows


def test_nothing_is_written_at_first() -> None:
    assert (WrittenRows().rows, WrittenRows().skipped, WrittenRows().topics) == (0, 0, [])


def test_a_pace_asks_for_a_pause_ten_times_a_second() -> None:
    pace = Pace(50)
    assert [number for number in range(1, 21) if pace.is_due()] == [5, 10, 15, 20]


def test_the_slowest_pace_asks_after_every_message_and_none_never_does() -> None:
    slow, free = Pace(3), Pace(0)
    assert all(slow.is_due() for _ in range(5))
    assert not any(free.is_due() for _ in range(5))


@pytest.mark.parametrize(("order", "expected"), [("input", ["b", "c", "a"]), ("sorted", ["a", "b", "c"])])
def test_rows_are_sorted_when_that_is_asked_for_and_only_then(order: str, expected: list[str]) -> None:
    columns = StructType().add("__topic", StringType()).add("value", StringType())
    options = write_options({"service.url": "pulsar://localhost:6650", "rowOrder": order})
    writer = TopicWriter(cast(PulsarClient, None), columns, options, "p", 0)
    batches = [
        pa.RecordBatch.from_pydict({"__topic": ["t"] * len(part), "value": part}) for part in (["b", "c"], ["a"])
    ]
    assert [(message.value or b"").decode() for message in writer.in_order(batches)] == expected
