"""What a window job keeps from batch to batch, and how a batch changes it: DataFrames in, DataFrames out.

A row is late when its event time lies before the watermark, which is the latest event time of the batches before minus
the allowed delay. A window is closed when its end is not after the watermark of its batch. So no row of a closed window
can come on time, each row is counted in all its windows or is late, and a batch that is repeated gives the same again.
"""

import re
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812, Spark's custom

START, END, KEY, TIME = "window_start", "window_end", "key", "event_time"
IDENTITY = (START, END, KEY)
COUNT = "rows"

_AGGREGATE = re.compile(r"\s*(count|sum|avg|min|max)\s*\(\s*([\w.]+|\*)\s*\)\s*(?:as\s+(\w+)\s*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One result column: `function` of value column `column` (`*`: rows)."""

    function: str
    column: str
    name: str


@dataclass(frozen=True, slots=True)
class Shape:
    """Tumbling (`slide` empty), sliding, or sessions with a gap."""

    window: str
    slide: str
    session_gap_ms: int
    aggregates: tuple[Aggregate, ...]

    @property
    def measured(self) -> list[str]:
        return sorted({each.column for each in self.aggregates if each.column != "*"})


def parse_aggregates(text: str) -> tuple[Aggregate, ...]:
    """`count(*) as n, avg(level)`. Raises ValueError."""
    found = []
    for part in re.split(r",(?![^(]*\))", text):
        match = _AGGREGATE.fullmatch(part)
        if match is None or (match[2] == "*" and match[1].lower() != "count"):
            raise ValueError(
                f"--agg '{part.strip()}': expected count(*), sum(c), avg(c), min(c) or max(c), with 'as name'"
            )
        function, column = match[1].lower(), match[2]
        found.append(Aggregate(function, column, match[3] or (function if column == "*" else f"{function}_{column}")))
    names = [each.name for each in found]
    if len(set(names)) < len(names):
        raise ValueError(f"--agg: two results are called {max(names, key=names.count)}")
    return tuple(found)


_UNITS = {"millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}


def milliseconds(text: str) -> int:
    """From `10 minutes`. Raises ValueError."""
    number, _, unit = text.strip().partition(" ")
    scale = _UNITS.get(unit.strip().rstrip("s").lower())
    if not number.isdecimal() or scale is None:
        raise ValueError(f"'{text}' is no duration: expected as in '10 minutes'")
    return int(number) * scale


def _interval(ms: int) -> Column:
    return F.expr(f"make_dt_interval(0, 0, 0, {ms / 1000})")


def single(rows: DataFrame, shape: Shape) -> DataFrame:
    """On-time rows (KEY, TIME, measured columns) as windows of their own, one or more a row."""
    if shape.session_gap_ms:
        placed = rows.withColumn(START, F.col(TIME)).withColumn(END, F.col(TIME) + _interval(shape.session_gap_ms))
    else:
        window = F.window(TIME, shape.window, shape.slide or shape.window)
        placed = rows.withColumn("_window", window).withColumn(START, F.col("_window.start"))
        placed = placed.withColumn(END, F.col("_window.end"))
    columns = [F.col(name) for name in IDENTITY] + [F.lit(1).cast("bigint").alias(COUNT)]
    for name in shape.measured:
        value = F.col(name).cast("double")
        columns += [value.alias(f"{part}:{name}") for part in ("sum", "min", "max")]
        columns.append(value.isNotNull().cast("bigint").alias(f"count:{name}"))
    return placed.select(*columns)


def merged(windows: DataFrame, shape: Shape) -> DataFrame:
    """Windows of equal identity, or sessions that overlap, become one."""
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
    sums = [F.sum(COUNT).alias(COUNT)]
    for name in shape.measured:
        sums += [F.sum(f"`{part}:{name}`").alias(f"{part}:{name}") for part in ("sum", "count")]
        sums += [F.min(f"`min:{name}`").alias(f"min:{name}"), F.max(f"`max:{name}`").alias(f"max:{name}")]
    return groups.agg(*borders, *sums).select(*IDENTITY, *(f"`{name}`" for name in state_columns(shape)))


def state_columns(shape: Shape) -> list[str]:
    return [COUNT, *(f"{part}:{name}" for name in shape.measured for part in ("sum", "min", "max", "count"))]


def results(windows: DataFrame, shape: Shape) -> DataFrame:
    """The columns that a user asked for."""
    columns = [F.col(name) for name in IDENTITY]
    for each in shape.aggregates:
        if each.column == "*":
            value = F.col(COUNT)
        elif each.function == "avg":
            value = F.col(f"`sum:{each.column}`") / F.col(f"`count:{each.column}`")
        else:
            value = F.col(f"`{each.function}:{each.column}`")
        columns.append(value.alias(each.name))
    return windows.select(*columns)
