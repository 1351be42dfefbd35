"""The state that a window job keeps from batch to batch, and how a batch changes it. Functions here take DataFrames and
return them.

A row is late when its event time is before the watermark, which is the latest event time of all earlier batches minus
the allowed delay. After a batch, the watermark takes in the batch's own rows, and each window whose end is not after
the new watermark is closed. So every row of a closed window that is still to come is late, each row is counted in all
of its windows or is late, and a repeated batch gives the same result.
"""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812, Spark's custom
from pyspark.sql.types import DataType, DecimalType, IntegralType, NumericType, StructType

from magnetar.spark.source.columns.metadata_columns import METADATA_TYPES

START, END, KEY, TIME = "window_start", "window_end", "key", "event_time"
IDENTITY = (START, END, KEY)
COUNT, FRESH = "rows", "fresh"
"""The columns that count a window's rows: COUNT counts all rows, FRESH counts the rows of this batch."""
CLOSED = "closed"
TAKEN = (*IDENTITY, CLOSED)

_AGGREGATE = re.compile(r"\s*(count|sum|avg|min|max)\s*\(\s*([\w.]+|\*)\s*\)\s*(?:as\s+(\w+)\s*)?", re.IGNORECASE)
_MERGES = {"sum": F.sum, "count": F.sum, "min": F.min, "max": F.max}
_WHOLE_SUM = DecimalType(38, 0)
"""The type in which whole numbers are summed, because 64 bits may overflow."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One result column. The column is called `name` and holds the `function` of the value column `column`, which is
    `*` to count rows."""

    function: str
    column: str
    name: str

    @property
    def parts(self) -> list[tuple[str, str]]:
        """Returns the values that are kept while a window is open, as (function, column) pairs. An average is kept as a
        sum and a count."""
        if self.column == "*":
            return []
        return [(part, self.column) for part in (("sum", "count") if self.function == "avg" else (self.function,))]


@dataclass(frozen=True)
class WindowShape:
    """The shape of windows. Tumbling windows have `slide_ms` equal to `window_ms`, sliding windows have a smaller
    `slide_ms`. For sessions both numbers are 0, and `session_gap_ms` is set."""

    window_ms: int
    slide_ms: int
    session_gap_ms: int
    aggregates: tuple[Aggregate, ...]

    @cached_property
    def parts(self) -> list[tuple[str, str]]:
        return sorted({part for each in self.aggregates for part in each.parts})

    @property
    def rules(self) -> str:
        """Returns the rules as a text. Shapes with equal texts can go on with each other's state."""
        kind = f"--session-gap {self.session_gap_ms} ms"
        if not self.session_gap_ms:
            kind = f"--window {self.window_ms} ms --slide {self.slide_ms} ms"
        return f"{kind} --agg {', '.join(f'{each.function}({each.column}) as {each.name}' for each in self.aggregates)}"


def parse_aggregates(text: str) -> tuple[Aggregate, ...]:
    """Parses aggregates as in `count(*) as n, avg(level)`. Raises ValueError for a text of another form."""
    found = []
    for part in re.split(r",(?![^(]*\))", text):
        match = _AGGREGATE.fullmatch(part)
        if match is None or (match[2] == "*" and match[1].lower() != "count"):
            raise ValueError(
                f"--agg '{part.strip()}': expected count(*), sum(c), avg(c), min(c) or max(c), with 'as name'"
            )
        function, column = match[1].lower(), match[2]
        default = function if column == "*" else f"{function}_{column.replace('.', '_')}"
        found.append(Aggregate(function, column, match[3] or default))
    names = [each.name.lower() for each in found]
    if len(set(names)) < len(names):
        raise ValueError(f"--agg: two results are called {max(names, key=names.count)}")
    taken = sorted(set(names) & set(TAKEN))
    if taken:
        raise ValueError(f"--agg: a result cannot be called {taken[0]}, every window has that column")
    return tuple(found)


_UNITS = {
    "millisecond": 1,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 7 * 86_400_000,
}


def milliseconds(text: str) -> int:
    """Returns the milliseconds of a duration as in `10 minutes`. Raises ValueError for a text of another form."""
    number, _, unit = text.strip().partition(" ")
    scale = _UNITS.get(unit.strip().lower().removesuffix("s"))
    if not number.isdecimal() or scale is None:
        raise ValueError(f"'{text}' is no duration: expected as in '10 minutes', up to weeks")
    return int(number) * scale


def check_measured(values: StructType, shape: WindowShape, *, has_json: bool) -> None:
    """Raises ValueError when the aggregates name a column that a topic with these value columns lacks. With `has_json`,
    only Spark can say which columns the JSON has, so nothing is checked."""
    known = [*values.fieldNames(), *METADATA_TYPES]
    for _, column in () if has_json else shape.parts:
        if column.partition(".")[0].lower() not in map(str.lower, known):
            raise ValueError(f"--agg: no column {column}; there are {', '.join(known)}")


def measured(frame: DataFrame, shape: WindowShape) -> list[Column]:
    """Returns the value column of each part, under the part's name. Raises ValueError for a column that is missing or
    whose type does not suit its function."""
    return [
        _value(F.col(column), _type_of(frame, column), part, column).alias(f"{part}:{column}")
        for part, column in shape.parts
    ]


def _type_of(frame: DataFrame, column: str) -> DataType:
    try:
        return frame.select(column).schema.fields[0].dataType
    except AnalysisException:
        raise ValueError(f"--agg: no column {column}; there are {', '.join(frame.columns)}") from None


def _value(value: Column, kind: DataType, part: str, column: str) -> Column:
    if part == "count":
        return value.isNotNull().cast("bigint")
    if part == "sum":
        if not isinstance(kind, NumericType):
            raise ValueError(f"--agg: column {column} is {kind.simpleString()}, sum and avg need a number")
        return value.cast(_WHOLE_SUM if isinstance(kind, IntegralType) else "double")
    if kind.simpleString().startswith(("array", "map", "struct", "binary")):
        raise ValueError(f"--agg: column {column} is {kind.simpleString()}, min and max need a single value")
    return value


def shown(ms: int | None) -> str | None:
    """Returns a time as text for people. A time in a year that Python's calendar does not have is shown in
    milliseconds."""
    if ms is None:
        return None
    try:
        return (datetime(1970, 1, 1) + timedelta(milliseconds=ms)).isoformat(sep=" ")
    except OverflowError:
        return f"{ms} ms"


def moment(ms: int) -> Column:
    return F.timestamp_millis(F.lit(ms).cast("bigint"))


def _after(time: Column, ms: int) -> Column:
    return F.timestamp_micros(F.unix_micros(time) + F.lit(ms * 1000).cast("bigint"))


def windows_of_a_row(shape: WindowShape) -> Column:
    """Returns in how many windows each row is counted. A row is counted in the windows that begin at a multiple of the
    slide in the interval (TIME - window, TIME]."""
    if shape.session_gap_ms:
        return F.lit(1)
    time = F.unix_micros(TIME)
    slide, window = shape.slide_ms * 1000, shape.window_ms * 1000
    return F.floor(time / slide) - F.floor((time - window) / slide)


def single(rows: DataFrame, shape: WindowShape) -> DataFrame:
    """Turns on-time rows, with the columns KEY, TIME and those of `measured`, into windows of a single row. Each row
    makes as many windows as it is counted in."""
    if shape.session_gap_ms:
        placed = rows.withColumn(START, F.col(TIME)).withColumn(END, _after(F.col(TIME), shape.session_gap_ms))
    else:
        window = F.window(TIME, f"{shape.window_ms} milliseconds", f"{shape.slide_ms} milliseconds")
        placed = rows.withColumn("_window", window).withColumn(START, F.col("_window.start"))
        placed = placed.withColumn(END, F.col("_window.end"))
    one = F.lit(1).cast("bigint")
    parts = [_part(*part) for part in shape.parts]
    return placed.select(*IDENTITY, one.alias(COUNT), one.alias(FRESH), *parts)


def merged(windows: DataFrame, shape: WindowShape) -> DataFrame:
    """Merges windows of one key and time, or sessions of one key that overlap."""
    if shape.session_gap_ms:
        before = Window.partitionBy(KEY).orderBy(START, END)
        reach = F.max(END).over(before.rowsBetween(Window.unboundedPreceding, -1))
        begins = (reach.isNull() | (F.col(START) >= reach)).cast("bigint")
        numbered = windows.withColumn("_begins", begins)
        numbered = numbered.withColumn("_session", F.sum("_begins").over(before))
        groups = numbered.groupBy(KEY, "_session")
        borders = [F.min(START).alias(START), F.max(END).alias(END)]
    else:
        groups, borders = windows.groupBy(*IDENTITY), []
    counts = [F.sum(name).alias(name) for name in (COUNT, FRESH)]
    parts = [_MERGES[part](_part(part, column)).alias(f"{part}:{column}") for part, column in shape.parts]
    return groups.agg(*borders, *counts, *parts).select(*state_columns(shape), FRESH)


def _part(part: str, column: str) -> Column:
    return F.col(f"`{part}:{column}`")


def state_columns(shape: WindowShape) -> list[Column]:
    return [*(F.col(name) for name in (*IDENTITY, COUNT)), *(_part(*part) for part in shape.parts)]


def results(windows: DataFrame, shape: WindowShape, *more: Column) -> DataFrame:
    """Returns the columns that a user asked for, and `more` of the state's columns. A sum of whole numbers that does
    not fit into 64 bits is null.
    """
    sums = {column: windows.schema[f"sum:{column}"].dataType for part, column in shape.parts if part == "sum"}
    columns = [F.col(name) for name in IDENTITY]
    for each in shape.aggregates:
        if each.column == "*":
            value = F.col(COUNT)
        elif each.function == "avg":
            value = _part("sum", each.column).cast("double") / F.nullif(_part("count", each.column), F.lit(0))
        else:
            value = _part(each.function, each.column)
            if each.function == "sum" and isinstance(sums[each.column], DecimalType):
                value = F.expr(f"try_cast(`sum:{each.column}` as bigint)")
        columns.append(value.alias(each.name))
    return windows.select(*columns, *more)
