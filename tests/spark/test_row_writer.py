"""What a task of the sink counts, and how it keeps to its rate."""

from collections.abc import Iterator
from typing import cast

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructType

from magnetar.spark.source import row_writer
from magnetar.spark.source.client.partition_producer import OutgoingMessage
from magnetar.spark.source.client.pulsar_client import PulsarClient
from magnetar.spark.source.options import write_options
from magnetar.spark.source.row_writer import Pace, TopicWriter, WrittenRows, by_key


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


def keyed(number: int, key: bytes | None, ordering_key: bytes | None = None) -> OutgoingMessage:
    return OutgoingMessage("t", key, 0, (), b"%d" % number, ordering_key)


def test_messages_of_one_key_come_behind_each_other_and_keep_their_order() -> None:
    keys = [b"a", b"b", None, b"a", b"c", b"b", None]
    found = list(by_key([*(keyed(number, key) for number, key in enumerate(keys)), keyed(7, b"x", b"c")]))
    assert [int(message.value or b"") for message in found] == [0, 3, 1, 5, 2, 6, 4, 7]


def test_only_so_many_messages_are_held_back_for_the_order_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_writer, "KEY_ROWS", 4)
    taken: list[int] = []

    def messages() -> Iterator[OutgoingMessage]:
        for number in range(100):
            taken.append(number)
            yield keyed(number, b"%d" % (number % 2))

    found = by_key(messages())
    assert [int(next(found).value or b"") for _ in range(4)] == [0, 2, 1, 3]
    assert len(taken) == 4
