"""Statistics of a file's columns as Delta keeps them in its log (protocol, Per-file Statistics), from which readers see
that they can skip a file."""

import json
import math
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow.parquet as pq

TEXT_MAX = 32
"""Longer texts have no smallest and largest value here: they may be as large as a message."""
COLUMNS_MAX = 32
"""Delta keeps statistics of so many columns by default (delta.dataSkippingNumIndexedCols)."""


def stats_of(file: pq.FileMetaData) -> str:
    """Returns the statistics of a Parquet file as JSON: the number of rows, and for plain columns the number of nulls
    and the smallest and largest value."""
    stats: dict[str, Any] = {"numRecords": file.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    for index in range(file.num_columns):
        path = file.schema.column(index).path
        if "." not in path and len(stats["nullCount"]) < COLUMNS_MAX:
            _add(stats, path, [file.row_group(group).column(index).statistics for group in range(file.num_row_groups)])
    return json.dumps(stats)


def _add(stats: dict[str, Any], name: str, groups: list[Any]) -> None:
    if not groups or any(each is None or not each.has_null_count for each in groups):
        return
    stats["nullCount"][name] = sum(each.null_count for each in groups)
    filled = [each for each in groups if each.has_min_max]
    if not filled or any(not each.has_min_max and each.num_values for each in groups):
        return
    ends = list(_ends(min(each.min for each in filled), max(each.max for each in filled)))
    if ends:
        stats["minValues"][name], stats["maxValues"][name] = ends


def _ends(smallest: Any, largest: Any) -> Iterator[Any]:
    """Yields the two values as JSON has them, or nothing for values that Delta does not order. Timestamps have
    milliseconds, so that the largest one is rounded up."""
    for value in (smallest, largest):
        if isinstance(value, bool | bytes) or (isinstance(value, float) and not math.isfinite(value)):
            return
        if not isinstance(value, int | float | str | date):
            return
        if isinstance(value, str) and len(value) > TEXT_MAX:
            return
    if isinstance(smallest, datetime):
        yield _text(smallest)
        yield _text(largest + timedelta(microseconds=999))
    elif isinstance(smallest, date):
        yield smallest.isoformat()
        yield largest.isoformat()
    else:
        yield smallest
        yield largest


def _text(moment: datetime) -> str:
    text = moment.astimezone(UTC) if moment.tzinfo else moment
    return text.replace(tzinfo=None).isoformat(timespec="milliseconds") + ("Z" if moment.tzinfo else "")
