"""Counts the ends of transactions on one subscription, for metrics."""

from pulsar_proto.latency_summary import LatencySummary


class EndCounters:
    """How many transactions have ended on a subscription since its topic was loaded, and how long commits took."""

    __slots__ = ("aborted", "aborts_failed", "commit_latency", "commits_failed", "committed")

    def __init__(self) -> None:
        self.committed = 0
        self.commits_failed = 0
        self.aborted = 0
        self.aborts_failed = 0
        """Ends that could not be stored. The coordinator tries them again."""
        self.commit_latency: LatencySummary | None = None
        """The times of commits; None before the first one."""

    def ended(self, commit: bool, succeeded: bool, seconds: float) -> None:
        """Counts an end that took so many seconds."""
        if not commit:
            self.aborted += succeeded
            self.aborts_failed += not succeeded
            return
        self.committed += succeeded
        self.commits_failed += not succeeded
        if succeeded:
            if self.commit_latency is None:
                self.commit_latency = LatencySummary()
            self.commit_latency.add(seconds)
