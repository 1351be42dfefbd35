"""How far a streaming query is behind the end of its topics, for Spark's progress reports.

What nobody has read can only be estimated: the number of entries behind a place is known from the sizes of ledgers, and
the number of their messages follows from the entries that were counted already. When all of them were counted, the
number is exact.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from magnetar.spark.source.admission import Admission
from magnetar.spark.source.planner import Planner
from magnetar.spark.source.ranges.bounds import Bound, Range, bounds_to_json
from magnetar.spark.source.ranges.lag_rules import PartitionLag, lag_of, report


@dataclass(frozen=True, slots=True)
class _Seen:
    ends: Mapping[str, Bound]
    lasts: Mapping[str, Bound]


class Lag:
    """Measures the lag of a query. A measure is kept until a batch is planned or a message comes, because Spark asks
    many times a second while a query waits."""

    def __init__(self, planner: Planner, admission: Admission) -> None:
        self._planner = planner
        self._admission = admission
        self._seen: _Seen | None = None
        self._lags: dict[str, PartitionLag] = {}

    def report(self, ends: Mapping[str, Bound], lasts: Mapping[str, Bound]) -> dict[str, Any]:
        """Returns the last message of each partition and, as `behind`, how far the `ends` are from there."""
        seen = _Seen(dict(ends), dict(lasts))
        if seen != self._seen:
            self._lags = {name: self._measure(name, Range(ends[name], last)) for name, last in lasts.items()}
            self._seen = seen
        return {**bounds_to_json(lasts), "behind": report(self._lags, int(time.time() * 1000))}

    def _measure(self, name: str, unread: Range) -> PartitionLag:
        if unread.is_empty:
            return PartitionLag(0, 0, None)
        return lag_of(unread, self._planner.ledgers(name, unread, patient=False), self._admission.peek(name, unread))
