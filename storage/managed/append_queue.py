"""What an append returns, and the bounded queue of groups that wait for a ledger."""

from collections.abc import Callable
from typing import NamedTuple

from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError

PENDING_ENTRIES_MAX = 100_000
PENDING_BYTES_MAX = 128 * 1024 * 1024
"""Entries and payload bytes that wait while no ledger is open. A group beyond either fails, with all that wait. Twice
what the broker lets clients have unanswered by default: it stops reading them before this is reached."""


class AddResult:
    """What became of one group. `runs`: what is confirmed, as (ledger id, first entry id, count), in order. With an
    `error` everything that is not in `runs` failed."""

    __slots__ = ("error", "runs")

    def __init__(self, runs: list[tuple[int, int, int]], error: ManagedLedgerError | None) -> None:
        self.runs = runs
        self.error = error


AddDone = Callable[[AddResult], None]


class WaitingGroup(NamedTuple):
    payloads: list[bytes]
    done: AddDone


class AppendQueue:
    """Groups in order. `doomed` groups have given up their payloads: they wait only for their turn to fail."""

    __slots__ = ("_bytes", "_groups", "entries")

    def __init__(self) -> None:
        self._groups: list[WaitingGroup] = []
        self._bytes = 0
        self.entries = 0

    def __bool__(self) -> bool:
        return bool(self._groups)

    def push(self, payloads: list[bytes], done: AddDone) -> bool:
        """False: no room; the group waits as a doomed one, and the caller fails the queue."""
        size = sum(map(len, payloads))
        if self.entries + len(payloads) > PENDING_ENTRIES_MAX or self._bytes + size > PENDING_BYTES_MAX:
            self.push_doomed(done)
            return False
        self._groups.append(WaitingGroup(payloads, done))
        self.entries += len(payloads)
        self._bytes += size
        return True

    def push_doomed(self, done: AddDone) -> None:
        self._groups.append(WaitingGroup([], done))

    def take(self) -> list[WaitingGroup]:
        """All groups; the queue is empty then."""
        groups, self._groups = self._groups, []
        self.entries = self._bytes = 0
        return groups
