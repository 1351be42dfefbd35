"""What `window_agg` has to find, computed in plain Python from the messages that the official client reads."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson


class Reading(NamedTuple):
    """One message. `time`: milliseconds."""

    key: str | None
    time: int
    level: float


class Window(NamedTuple):
    """Times in milliseconds, the end exclusive."""

    key: str | None
    start: int
    end: int


Levels = dict[Window, list[float]]


def readings(messages: Iterable[Any]) -> list[Reading]:
    """Of pulsar.Message with `{"level": …}` as value."""
    return [
        Reading(each.partition_key() or None, each.event_timestamp(), orjson.loads(each.data())["level"])
        for each in messages
    ]


def split(batches: Sequence[Sequence[Reading]], delay: int) -> tuple[list[Reading], list[Reading], int]:
    """(on time, late, the watermark in the end) of micro-batches that were taken one after the other."""
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
    """Tumbling where both are equal."""
    found: Levels = defaultdict(list)
    for row in rows:
        start = row.time // slide * slide
        while start > row.time - length:
            found[Window(row.key, start, start + length)].append(row.level)
            start -= slide
    return dict(found)


def sessions(rows: Iterable[Reading], gap: int) -> Levels:
    """A silence of the gap, or longer, ends one."""
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
