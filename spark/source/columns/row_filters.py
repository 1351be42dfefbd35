"""The filters that Spark leaves to the data source, applied to decoded messages before their values are decoded.

Spark's optimizer hands over the conditions of a query that compare one column with constants (`DataSourceReader.
pushFilters`). This module takes those on metadata columns and applies them exactly as Spark would, with SQL's null for
an unknown truth. A condition that it does not take stays with Spark.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from magnetar.spark.source.columns.metadata_columns import EVENT_TIME, KEY, MESSAGE_ID, PARTITION, PUBLISH_TIME, TOPIC
from magnetar.spark.source.decoding.row_columns import TIME

FILTERED: Mapping[str, pa.DataType] = {
    KEY: pa.binary(),
    TOPIC: pa.string(),
    PARTITION: pa.int32(),
    MESSAGE_ID: pa.binary(),
    PUBLISH_TIME: TIME,
    EVENT_TIME: TIME,
}
"""The columns whose conditions the data source takes."""
OF_PARTITIONS = frozenset((TOPIC, PARTITION))
"""The columns that have one value in each partition of a topic. Their conditions decide which partitions are read."""

_Test = Callable[[pa.Array, Any], pa.Array]


def _is_in(column: pa.Array, values: pa.Array) -> pa.Array:
    """Returns null for null, which pyarrow's function takes for false."""
    return pc.if_else(pc.is_valid(column), pc.is_in(column, values), pa.scalar(None, pa.bool_()))


_COMPARISONS: Mapping[type[Filter], _Test] = {
    EqualTo: pc.equal,
    EqualNullSafe: lambda column, value: pc.fill_null(pc.equal(column, value), False),
    GreaterThan: pc.greater,
    GreaterThanOrEqual: pc.greater_equal,
    LessThan: pc.less,
    LessThanOrEqual: pc.less_equal,
}
_TEXT_TESTS: Mapping[type[Filter], _Test] = {
    StringStartsWith: pc.starts_with,
    StringEndsWith: pc.ends_with,
    StringContains: pc.match_substring,
}
_NULL_TESTS: Mapping[type[Filter], Callable[[pa.Array], pa.Array]] = {IsNull: pc.is_null, IsNotNull: pc.is_valid}


def column_of(condition: Filter) -> str:
    """Returns the column that a condition is about, and an empty text for a field of a struct."""
    inner = condition.child if isinstance(condition, Not) else condition
    path: tuple[str, ...] = inner.attribute  # type: ignore[attr-defined]
    return path[0] if len(path) == 1 else ""


def constant_of(condition: Filter) -> Any:
    """Returns what a condition compares with as Arrow has it in the condition's column: a scalar, an array of the
    values of an IN, or None for conditions without a constant. Raises ValueError when the column's type has no such
    value, or the value is null."""
    kind = FILTERED[column_of(condition)]
    if type(condition) in _NULL_TESTS:
        return None
    values = list(condition.value) if isinstance(condition, In) else [condition.value]  # type: ignore[attr-defined]
    try:
        made = pa.array(values, kind)
    except (pa.ArrowException, TypeError, OverflowError) as error:
        raise ValueError(str(error)) from error
    if made.null_count:
        raise ValueError("a comparison with null")
    return made if isinstance(condition, In) else made[0]


def _truth(condition: Filter, column: pa.Array) -> pa.Array:
    if isinstance(condition, Not):
        return pc.invert(_truth(condition.child, column))
    if type(condition) in _NULL_TESTS:
        return _NULL_TESTS[type(condition)](column)
    constant = constant_of(condition)
    if type(condition) in _TEXT_TESTS:
        return _TEXT_TESTS[type(condition)](column, constant.as_py())
    return (_is_in if isinstance(condition, In) else _COMPARISONS[type(condition)])(column, constant)


def is_taken(condition: Filter, columns: Collection[str]) -> bool:
    """Returns whether the data source applies a condition, in a query that has these columns."""
    inner = condition.child if isinstance(condition, Not) else condition
    if isinstance(inner, Not):
        return False
    name = column_of(inner)
    if name not in FILTERED or name not in columns:
        return False
    if type(inner) in _TEXT_TESTS and not pa.types.is_string(FILTERED[name]):
        return False
    if not isinstance(inner, In) and type(inner) not in {**_COMPARISONS, **_TEXT_TESTS, **_NULL_TESTS}:
        return False
    try:
        constant_of(inner)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class RowFilters:
    """Conditions that all have to hold, each of which `is_taken`."""

    conditions: tuple[Filter, ...] = ()

    @cached_property
    def columns(self) -> frozenset[str]:
        """Returns the columns that the conditions are about."""
        return frozenset(map(column_of, self.conditions))

    def on(self, columns: Collection[str]) -> "RowFilters":
        """Returns the conditions on some columns alone."""
        return RowFilters(tuple(each for each in self.conditions if column_of(each) in columns))

    def holds(self, column_named: Callable[[str], pa.Array]) -> pa.BooleanArray | None:
        """Returns for each row whether all conditions hold, where `column_named` gives the columns. Null stands for
        unknown, which a query treats as false. Returns None when there are no conditions."""
        truths = [_truth(each, column_named(column_of(each))) for each in self.conditions]
        return reduce(pc.and_kleene, truths) if truths else None

    def reads_partition(self, topic: str, partition: int) -> bool:
        """Returns whether a partition may have rows, by the conditions on its name and number. The number is -1 for a
        topic without partitions."""
        values = {TOPIC: topic, PARTITION: partition if partition >= 0 else None}
        found = self.on(OF_PARTITIONS).holds(lambda name: pa.array([values[name]], FILTERED[name]))
        return found is None or found[0].as_py() is True


def taken_and_left(conditions: Iterable[Filter], columns: Collection[str]) -> tuple[RowFilters, list[Filter]]:
    """Returns the conditions that the data source applies in a query with these columns, and those that Spark has to
    apply."""
    taken: list[Filter] = []
    left: list[Filter] = []
    for each in conditions:
        (taken if is_taken(each, columns) else left).append(each)
    return RowFilters(tuple(taken)), left
