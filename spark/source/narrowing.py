"""Narrows the ranges of a batch query by the conditions that Spark leaves to the data source, before tasks are made of
the ranges.

The conditions themselves are applied to the rows (`columns.row_filters`), so a range may be wider than it has to be,
and never narrower.
"""

import datetime
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from magnetar.spark.source.columns.metadata_columns import MESSAGE_ID, PUBLISH_TIME
from magnetar.spark.source.columns.row_filters import RowFilters
from magnetar.spark.source.planner import Planner, partition_of
from magnetar.spark.source.ranges.bounds import Range
from magnetar.spark.source.ranges.narrowing_rules import (
    TimeSpan,
    entries_of_ids,
    from_time,
    ranges_of_entries,
    upto_time,
)

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _exactly(microseconds: int) -> TimeSpan:
    return from_time(microseconds, itself=True).cut(upto_time(microseconds, itself=True))


_SPANS: Mapping[type[Filter], Callable[[int], TimeSpan]] = {
    EqualTo: _exactly,
    EqualNullSafe: _exactly,
    GreaterThan: lambda time: from_time(time, itself=False),
    GreaterThanOrEqual: lambda time: from_time(time, itself=True),
    LessThan: lambda time: upto_time(time, itself=False),
    LessThanOrEqual: lambda time: upto_time(time, itself=True),
}


def _microseconds(value: datetime.datetime) -> int:
    return (value - _EPOCH) // datetime.timedelta(microseconds=1)


def _span(condition: Filter) -> TimeSpan:
    if isinstance(condition, In):
        times = [_microseconds(value) for value in condition.value]
        return from_time(min(times), itself=True).cut(upto_time(max(times), itself=True))
    if type(condition) not in _SPANS:
        return TimeSpan()
    value: Any = condition.value  # type: ignore[attr-defined]
    return _SPANS[type(condition)](_microseconds(value))


def span_of(filters: RowFilters) -> TimeSpan:
    """Returns the publish times that messages must have by the conditions on them."""
    spans = map(_span, filters.on({PUBLISH_TIME}).conditions)
    return reduce(TimeSpan.cut, spans, TimeSpan())


def ids_of(filters: RowFilters) -> frozenset[bytes] | None:
    """Returns the ids that messages must have by the conditions on them. Returns None when any id will do."""
    found: frozenset[bytes] | None = None
    for condition in filters.on({MESSAGE_ID}).conditions:
        if isinstance(condition, EqualTo | EqualNullSafe):
            ids = frozenset([bytes(condition.value)])
        elif isinstance(condition, In):
            ids = frozenset(map(bytes, condition.value))
        else:
            continue
        found = ids if found is None else found & ids
    return found


class Narrowing:
    """Narrows the ranges of one query. `disorder_ms` is how much earlier a message may have been published than any
    message before it in its partition (option maxPublishTimeDisorder)."""

    def __init__(self, planner: Planner, filters: RowFilters, disorder_ms: int) -> None:
        self._planner = planner
        self._filters = filters
        self._disorder = disorder_ms
        self._span = span_of(filters)
        self._ids = ids_of(filters)

    @property
    def is_by_id(self) -> bool:
        """Returns whether the query asks for messages by their ids. Such a message may not exist, and its absence is no
        loss."""
        return self._ids is not None

    def reads(self, name: str) -> bool:
        """Returns whether a partition may have messages that the query asks for."""
        if self._span.is_empty or not self._filters.reads_partition(name, partition_of(name)):
            return False
        return self._ids is None or bool(entries_of_ids(self._ids, partition_of(name)))

    def parts(self, name: str, wanted: Range) -> Sequence[Range]:
        """Returns the parts of a partition's range that may have messages that the query asks for."""
        after, upto = wanted
        if self._span.first is not None:
            after = max(after, self._planner.before_time(name, self._span.first - self._disorder))
        if self._span.last is not None:
            upto = min(upto, self._planner.before_time(name, self._span.last + self._disorder + 1))
        narrowed = Range(after, upto)
        if self._ids is None:
            return [] if narrowed.is_empty else [narrowed]
        return ranges_of_entries(entries_of_ids(self._ids, partition_of(name)), narrowed)
