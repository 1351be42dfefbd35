"""What `window_agg` has to find, computed in plain Python from the messages that the official client reads."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson


class Reading(NamedTuple):
    """One message. `time` is in milliseconds."""

    key: str | None
    time: int
    level: float


class Window(NamedTuple):
    """A window. Its times are in milliseconds, and its end is exclusive."""

    key: str | None
    start: int
    end: int


Levels = dict[Window, list[float]]


def readings(messages: Iterable[Any]) -> list[Reading]:
    """Returns the readings in instances of pulsar.Message whose values are `{"level": …}`."""
    return [
        Reading(each.partition_key() or None, each.event_timestamp(), orjson.loads(each.data())["level"])
        for each in messages
    ]


def split(batches: Sequence[Sequence[Reading]], delay: int) -> tuple[list[Reading], list[Reading], int]:
    """Takes micro-batches one after the other. Returns the readings that are on time, those that are late, and the
    watermark in the end."""
    watermark: int | None = None
    on_time: list[Reading] = []
    late: list[Reading] = []
    for batch in batches:
        for row in batch:
            (late if watermark is not None and row.time < watermark else on_time).append(row)
        watermark = max([row.time - delay for row in batch] + ([] if watermark is None else [watermark]))
    assert watermark is not None
    return on_time, late, watermark


def sliding(rows: Iterable[Reading], length: int, slide: int) -> Levels:
    """Returns the sliding windows of readings; they are tumbling ones when window and slide are equal."""
    found: Levels = defaultdict(list)
    for row in rows:
        start = row.time // slide * slide
        while start > row.time - length:
            found[Window(row.key, start, start + length)].append(row.level)
            start -= slide
    return dict(found)


def sessions(rows: Iterable[Reading], gap: int) -> Levels:
    """Returns the sessions of readings. A silence that is as long as the gap, or longer, ends a session."""
    by_key: dict[str | None, list[Reading]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.time):
        by_key[row.key].append(row)
    found: Levels = {}
    for key, mine in by_key.items():
        groups = [[mine[0]]]
        for row in mine[1:]:
            if row.time - groups[-1][-1].time >= gap:
                groups.append([])
            groups[-1].append(row)
        for group in groups:
            found[Window(key, group[0].time, group[-1].time + gap)] = [row.level for row in group]
    return found


def closed(windows: Mapping[Window, list[float]], watermark: int) -> Levels:
    return {window: levels for window, levels in windows.items() if window.end <= watermark}
