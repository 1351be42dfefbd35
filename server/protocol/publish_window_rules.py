"""Decides how much data of published messages may wait for receipts, in one connection and in the whole process. This
module does no I/O.

A full window or budget makes connections stop reading their sockets until half of it is free
(`maxPendingPublishRequestsPerConnection`, `maxMessagePublishBufferSizeInMB`; ServerCnx.startSendOperation).

Receipts are not counted one by one. A connection adds each group of SENDs to its window, so that the window's figures
are upper bounds. Only when a bound is reached does the connection ask its producers how many SENDs they still hold, and
call `settle` with the answer. The window treats the oldest SENDs as the answered ones, even if younger SENDs of another
producer were answered first, so the number alone says which groups are free:

    groups, oldest first:   |  A: 3 SENDs  |  B: 2 SENDs  |  C: 4 SENDs  |      total 9
    4 are pending, so 5 are answered: A and B are free, and C still counts.
"""

from collections import deque
from collections.abc import Callable

UNSETTLED_GROUPS_MAX = 1024
"""How many groups a window remembers. When there are more, the caller has to settle the window, whatever the window's
limit is."""


class PublishWindow:
    """One connection's unanswered SENDs, in the order in which their groups came."""

    __slots__ = ("_groups", "_max_count", "_total_count", "unanswered_bytes", "unanswered_count")

    def __init__(self, max_count: int) -> None:
        """`max_count` of 0 or less means "no limit"."""
        self._max_count = max_count
        self._groups: deque[tuple[int, int]] = deque()  # (count of SENDs up to and with a group, bytes of the group)
        self._total_count = 0
        self.unanswered_count = 0
        """The number of unanswered SENDs: an upper bound, which `settle` makes exact."""
        self.unanswered_bytes = 0
        """The bytes of unanswered SENDs: an upper bound, because all bytes of a group count until its last SEND is
        answered."""

    def add(self, count: int, size_bytes: int) -> None:
        """Adds a group of `count` SENDs, which were just handed to their producers."""
        self._total_count += count
        self._groups.append((self._total_count, size_bytes))
        self.unanswered_count += count
        self.unanswered_bytes += size_bytes

    def settle(self, pending: int) -> int:
        """Adjusts the window to the exact number of unanswered SENDs, `pending`. Returns the bytes that became free."""
        groups = self._groups
        answered = self._total_count - pending
        freed = 0
        while groups and groups[0][0] <= answered:
            freed += groups.popleft()[1]
        self.unanswered_count = pending
        self.unanswered_bytes -= freed
        return freed

    @property
    def may_be_full(self) -> bool:
        """Returns whether the caller has to call `settle` now: the count, which is an upper bound until then, has
        reached the limit, or too many groups are unsettled."""
        return 0 < self._max_count <= self.unanswered_count or len(self._groups) > UNSETTLED_GROUPS_MAX

    @property
    def is_full(self) -> bool:
        """Returns whether the limit is reached. The answer is exact only right after `settle`."""
        return 0 < self._max_count <= self.unanswered_count

    @property
    def is_half_free(self) -> bool:
        """Returns whether reading may go on, because the count is down to half of the limit, at which Java resumes,
        too."""
        return self._max_count <= 0 or self.unanswered_count <= self._max_count // 2


class PublishBudget:
    """A limit on the unanswered bytes of all connections together."""

    __slots__ = ("_max_bytes", "_settle_all", "unanswered_bytes")

    def __init__(self, max_bytes: int, settle_all: Callable[[], None]) -> None:
        """`max_bytes` of 0 or less means "no limit". `settle_all()` settles the windows of all connections, and calls
        `free` with the bytes that became free."""
        self._max_bytes = max_bytes
        self._settle_all = settle_all
        self.unanswered_bytes = 0

    def resize(self, max_bytes: int) -> None:
        """Changes the limit. A connection that waits for room looks again at the next receipt."""
        self._max_bytes = max_bytes

    def take(self, size_bytes: int) -> bool:
        """Counts bytes that were published. Returns whether they fit; if not, the connection must stop reading until
        `has_room` says True."""
        self.unanswered_bytes += size_bytes
        if self._max_bytes <= 0 or self.unanswered_bytes <= self._max_bytes:
            return True
        self._settle_all()
        return self.unanswered_bytes <= self._max_bytes

    def free(self, size_bytes: int) -> None:
        self.unanswered_bytes -= size_bytes
        assert self.unanswered_bytes >= 0, "more bytes freed than taken"

    def has_room(self) -> bool:
        """Returns whether half of the budget is free."""
        if self._max_bytes <= 0:
            return True
        if self.unanswered_bytes > self._max_bytes // 2:
            self._settle_all()
        return self.unanswered_bytes <= self._max_bytes // 2
