"""How long the work of a bookie takes, by its outcome. `server/programs/bookie/bookie_metrics.py` publishes the figures
under the names of Apache's bookie."""

from typing import NamedTuple

from pulsar_proto.latency_summary import LatencySummary


class BatchTimes(NamedTuple):
    """When the first and the last group of a journal's batch were submitted, by time.monotonic, and how many entries
    the batch has."""

    first_s: float
    last_s: float
    entries: int


class Latencies:
    """The latencies of one kind of work that succeeded and of the work that failed."""

    __slots__ = ("failed", "ok")

    def __init__(self) -> None:
        self.ok = LatencySummary()
        self.failed = LatencySummary()

    def add(self, seconds: float, count: int, *, ok: bool) -> None:
        (self.ok if ok else self.failed).add(seconds, count)

    def add_batch(self, submitted: BatchTimes, ended_s: float, *, ok: bool) -> None:
        """Counts the entries of a batch that ended at `ended_s`. Half of them count with the time of the first group,
        and half with that of the last one, because to look at each group would cost more than it tells. The true
        latencies are between the two."""
        first_half = (submitted.entries + 1) // 2
        self.add(ended_s - submitted.first_s, first_half, ok=ok)
        if submitted.entries > 1:
            self.add(ended_s - submitted.last_s, submitted.entries - first_half, ok=ok)
