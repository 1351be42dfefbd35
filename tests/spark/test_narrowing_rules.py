"""Which times, entries and ranges a query's conditions leave."""

import pytest

from magnetar.spark.source.ranges.bounds import BEFORE_ALL, Bound, Range
from magnetar.spark.source.ranges.narrowing_rules import (
    RANGES_MAX,
    TimeSpan,
    entries_of_ids,
    from_time,
    ranges_of_entries,
    upto_time,
)
from pulsar_proto.pb import pulsar_api_pb2 as pb

TOPIC = Range(BEFORE_ALL, Bound(9, 100))


@pytest.mark.parametrize(
    ("microseconds", "itself", "first", "last"),
    [(5000, True, 5, 5), (5000, False, 6, 4), (5001, True, 6, 5), (5001, False, 6, 5), (4999, True, 5, 4)],
)
def test_times_are_rounded_to_the_milliseconds_that_messages_have(
    microseconds: int, itself: bool, first: int, last: int
) -> None:
    assert from_time(microseconds, itself=itself) == TimeSpan(first=first)
    assert upto_time(microseconds, itself=itself) == TimeSpan(last=last)


def test_spans_are_cut_and_may_be_empty() -> None:
    assert TimeSpan(3, None).cut(TimeSpan(None, 9)).cut(TimeSpan(5, 20)) == TimeSpan(5, 9)
    assert not TimeSpan(5, 5).is_empty
    assert TimeSpan(6, 5).is_empty
    assert not TimeSpan().is_empty


def message_id(ledger: int, entry: int, partition: int = -1, index: int = -1) -> pb.MessageIdData:
    return pb.MessageIdData(ledgerId=ledger, entryId=entry, partition=partition, batch_index=index)


def test_ids_name_entries_of_their_partition() -> None:
    chunked = message_id(5, 9)
    chunked.first_chunk_message_id.CopyFrom(message_id(4, 2))
    ids = [message_id(5, 1, index=3), message_id(5, 1, index=4), chunked, message_id(3, 0, partition=2)]
    given = [each.SerializeToString() for each in ids] + [b"\xff"]
    assert entries_of_ids(given, -1) == [Bound(4, 2), Bound(5, 1)]
    assert entries_of_ids(given, 2) == [Bound(3, 0)]
    assert entries_of_ids([message_id(2**64 - 1, 2**64 - 1).SerializeToString()], -1) == []


def test_each_entry_is_a_range_and_many_are_one() -> None:
    assert ranges_of_entries([Bound(5, 0), Bound(5, 7)], TOPIC) == [
        Range(Bound(5, -1), Bound(5, 0)),
        Range(Bound(5, 6), Bound(5, 7)),
    ]
    many = [Bound(5, 2 * entry) for entry in range(RANGES_MAX + 1)]
    assert ranges_of_entries(many, TOPIC) == [Range(Bound(5, -1), many[-1])]
    assert len(ranges_of_entries(many[1:], TOPIC)) == RANGES_MAX


def test_ranges_stay_inside_what_the_query_reads() -> None:
    assert ranges_of_entries([Bound(9, 101), Bound(10, 0)], TOPIC) == []
    inside = Range(Bound(5, 3, 1), Bound(5, 9))
    assert ranges_of_entries([Bound(5, 3), Bound(5, 2)], inside) == [Range(Bound(5, 3, 1), Bound(5, 3))]
