"""The counters of auto-recovery in one process. `server/programs/bookie/recovery_metrics.py` publishes them under the
names of Apache's auto-recovery."""

from dataclasses import dataclass, field

from pulsar_proto.latency_summary import LatencySummary


@dataclass(slots=True)
class RepairStats:
    """What the auditor and the replication worker did since the start of the process."""

    entries_read: int = 0
    entries_written: int = 0
    """The copies that were made: an entry that is written to two bookies counts twice."""
    bytes_read: LatencySummary = field(default_factory=LatencySummary)
    """The reads by their size, in millions of bytes in place of seconds."""
    bytes_written: LatencySummary = field(default_factory=LatencySummary)
    """The writes by their size, in millions of bytes in place of seconds."""
    ledgers_replicated: int = 0
    attempts_failed: int = 0
    """How often a ledger could not be healed at once."""
    ledgers_held: int = 0
    """How many ledgers the worker keeps locked now because they could not be healed."""
    under_replicated: LatencySummary = field(default_factory=LatencySummary)
    """The audits by the number of ledgers that they marked, in thousands in place of seconds."""
    audit_times: LatencySummary = field(default_factory=LatencySummary)
    check_times: LatencySummary = field(default_factory=LatencySummary)
    """How long the checks of all ledgers took."""
    ledgers_checked: int = 0

    def read(self, entries: int, size: int) -> None:
        self.entries_read += entries
        self.bytes_read.add(size / 1e6)

    def wrote(self, entries: int, size: int) -> None:
        self.entries_written += entries
        self.bytes_written.add(size / 1e6)

    def marked(self, ledgers: int) -> None:
        self.under_replicated.add(ledgers / 1e3)
