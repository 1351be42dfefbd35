"""The result of an append, the groups that a ledger has, and the bounded queue of those that wait for one. Pure."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError

if TYPE_CHECKING:
    from magnetar.storage.managed.appender import Appender

PENDING_ENTRIES_MAX = 100_000
PENDING_BYTES_MAX = 128 * 1024 * 1024
"""How many entries and payload bytes may wait while no ledger is open. A group that would exceed either limit fails,
and all waiting groups fail with it. The limits are twice what the broker lets clients have unanswered by default, and
the broker stops reading from the clients before that."""


class AddResult:
    """The outcome of one group. `runs` lists the confirmed entries as (ledger id, first entry id, count), in order. If
    there is an `error`, all entries that are not in `runs` failed."""

    __slots__ = ("error", "runs")

    def __init__(self, runs: list[tuple[int, int, int]], error: ManagedLedgerError | None) -> None:
        self.runs = runs
        self.error = error


AddDone = Callable[[AddResult], None]


def is_told(result: AddResult) -> None:
    """Takes the place of the callback of a group that knows its outcome. The journal's thread holds its last groups
    until the next ones come, and a producer that has left must not stay in memory for so long."""


class SentGroup:
    """A group that a ledger has. The ledger calls this object once, when the group is confirmed or has failed."""

    __slots__ = ("_appender", "done", "sent_s", "waited_s")

    def __init__(self, appender: "Appender", done: AddDone, sent_s: float, waited_s: float) -> None:
        self._appender = appender
        self.done = done
        self.sent_s = sent_s
        """When the ledger got the group, by a clock that never jumps."""
        self.waited_s = waited_s
        """How long the group waited before that."""

    def __call__(self, append: Append) -> None:
        self._appender.appended(self, append)


class WaitingGroup(NamedTuple):
    """A group that waits for a ledger, and the callback that gets its outcome."""

    payloads: list[bytes]
    done: AddDone
    came_s: float
    """When the group came, by a clock that never jumps."""


class AppendQueue:
    """The waiting groups, in the order in which they came. A doomed group has given up its payloads and only waits for
    its turn to fail."""

    __slots__ = ("_bytes", "_groups", "entries")

    def __init__(self) -> None:
        self._groups: list[WaitingGroup] = []
        self._bytes = 0
        self.entries = 0

    def __bool__(self) -> bool:
        return bool(self._groups)

    def push(self, payloads: list[bytes], done: AddDone, came_s: float = 0.0) -> bool:
        """Appends a group. Returns False when there is no room for the group. In that case the group is queued as a
        doomed one, and the caller has to fail the whole queue."""
        size = sum(map(len, payloads))
        if self.entries + len(payloads) > PENDING_ENTRIES_MAX or self._bytes + size > PENDING_BYTES_MAX:
            self.push_doomed(done)
            return False
        self._groups.append(WaitingGroup(payloads, done, came_s))
        self.entries += len(payloads)
        self._bytes += size
        return True

    def push_doomed(self, done: AddDone) -> None:
        """Appends a group that is to fail when its turn comes."""
        self._groups.append(WaitingGroup([], done, 0.0))

    def take(self) -> list[WaitingGroup]:
        """Returns all groups and empties the queue."""
        groups, self._groups = self._groups, []
        self.entries = self._bytes = 0
        return groups
