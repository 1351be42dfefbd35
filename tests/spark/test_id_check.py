"""The check of ids at the end of `lake_ingest`, on rows that this test makes."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from magnetar.spark.jobs.lake.id_check import Hole, TableIds, look_at
from magnetar.spark.source.ranges.bounds import Bound
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.spark.support import make_session

pytestmark = [pytest.mark.process, pytest.mark.slow]

Row = tuple[str, int, int, int, int]
"""Topic, ledger, entry, batch index and batch size of one message; outside of a batch index -1 and size 0."""


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    yield from make_session()


def entries(topic: str, ledger: int, first: int, last: int) -> list[Row]:
    return [(topic, ledger, entry, -1, 0) for entry in range(first, last + 1)]


def batch(topic: str, ledger: int, entry: int, *indexes: int) -> list[Row]:
    return [(topic, ledger, entry, index, 3) for index in indexes]


def looked(session: SparkSession, rows: list[Row], *, cut: bool = False) -> TableIds:
    """Looks at the rows, in an order in which no table promises them."""
    made = [
        (
            topic,
            pb.MessageIdData(ledgerId=ledger, entryId=entry, batch_index=index, batch_size=size).SerializeToString(),
        )
        for topic, ledger, entry, index, size in reversed(rows)
    ]
    frame = session.createDataFrame(made, "`__topic` string, `__messageId` binary").repartition(3)
    return look_at(frame, cut=cut)


def test_whole_ledgers_have_no_holes_wherever_the_table_begins(session: SparkSession) -> None:
    ids = looked(session, [*entries("a", 7, 4, 9), *entries("a", 12, 0, 3), *batch("b", 3, 0, 0, 1, 2)])
    assert ids == TableIds(13, 0, [], {"a": Bound(7, 4, 0), "b": Bound(3, 0, 0)})


def test_holes_are_found_inside_of_ledgers_at_their_begin_and_in_batches(session: SparkSession) -> None:
    rows = [*entries("a", 7, 4, 9), *entries("a", 7, 12, 12), *entries("a", 12, 2, 3), *batch("a", 12, 4, 0, 2)]
    rows += [*entries("b", 9, 0, 0), *batch("b", 10, 1, 1)]
    ids = looked(session, rows)
    assert sorted(ids.holes, key=str) == [
        Hole("a", 12, 0, 1),
        Hole("a", 12, 4, 4, 2),
        Hole("a", 7, 10, 11),
        Hole("b", 10, 0, 0),
        Hole("b", 10, 1, 1, 1),
    ]


def test_a_cut_table_may_begin_inside_of_a_batch_and_no_other_batch_may_be_cut(session: SparkSession) -> None:
    rows = [*batch("a", 7, 4, 2), *batch("a", 8, 0, 1, 2)]
    cut, whole = (looked(session, rows, cut=each) for each in (True, False))
    assert cut.holes == [Hole("a", 8, 0, 0, 2)]
    assert whole.holes == [Hole("a", 7, 4, 4, 1), Hole("a", 8, 0, 0, 2)]
    assert cut.begins == {"a": Bound(7, 4, 2)}


def test_messages_that_are_there_twice_are_counted(session: SparkSession) -> None:
    ids = looked(session, [*entries("a", 7, 0, 3), *entries("a", 7, 2, 3), *batch("a", 7, 4, 0, 1, 1, 2)])
    assert (ids.rows, ids.twice, ids.holes) == (10, 3, [])
