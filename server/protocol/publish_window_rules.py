"""How much published and not yet answered data the broker holds: per connection and in the whole process.

Rules only. A connection adds each group of SENDs; it learns what was answered by asking its producers how many SENDs
they still hold, which is a walk, so the windows work with upper bounds and settle them only when a bound is reached.
The answer to a full window or budget is to stop reading sockets until half of it is free
(`maxPendingPublishRequestsPerConnection`, `maxMessagePublishBufferSizeInMB`; ServerCnx.startSendOperation).
"""

from collections import deque
from collections.abc import Callable

UNSETTLED_GROUPS_MAX = 1024
"""Groups a window remembers before it settles, whatever its limit is."""


class PublishWindow:
    """One connection's unanswered SENDs, in the order in which their groups came."""

    __slots__ = ("_groups", "_max_count", "_total_count", "unanswered_bytes", "unanswered_count")

    def __init__(self, max_count: int) -> None:
        """`max_count` 0 or less: no limit."""
        self._max_count = max_count
        self._groups: deque[tuple[int, int]] = deque()  # (total count with this group, the group's bytes)
        self._total_count = 0
        self.unanswered_count = 0
        """An upper bound; exact after `settle`."""
        self.unanswered_bytes = 0
        """An upper bound: a group counts until its last SEND is answered."""

    def add(self, count: int, size_bytes: int) -> None:
        self._total_count += count
        self._groups.append((self._total_count, size_bytes))
        self.unanswered_count += count
        self.unanswered_bytes += size_bytes

    def settle(self, pending: int) -> int:
        """`pending` SENDs of this connection are unanswered. Returns the bytes that became free."""
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
        """True when it is time to settle."""
        return 0 < self._max_count <= self.unanswered_count or len(self._groups) > UNSETTLED_GROUPS_MAX

    @property
    def is_full(self) -> bool:
        """After `settle`."""
        return 0 < self._max_count <= self.unanswered_count

    @property
    def is_half_free(self) -> bool:
        """Java resumes at half of the limit."""
        return self._max_count <= 0 or self.unanswered_count <= self._max_count // 2


class PublishBudget:
    """Unanswered bytes of all connections together."""

    __slots__ = ("_max_bytes", "_settle_all", "unanswered_bytes")

    def __init__(self, max_bytes: int, settle_all: Callable[[], None]) -> None:
        """`max_bytes` 0 or less: no limit. `settle_all()` settles every connection's window and calls `free` with what
        became free."""
        self._max_bytes = max_bytes
        self._settle_all = settle_all
        self.unanswered_bytes = 0

    def take(self, size_bytes: int) -> bool:
        """True while the budget holds; False: the taker must stop reading until `has_room`."""
        self.unanswered_bytes += size_bytes
        if self._max_bytes <= 0 or self.unanswered_bytes <= self._max_bytes:
            return True
        self._settle_all()
        return self.unanswered_bytes <= self._max_bytes

    def free(self, size_bytes: int) -> None:
        self.unanswered_bytes -= size_bytes
        assert self.unanswered_bytes >= 0, "more bytes freed than taken"

    def has_room(self) -> bool:
        """True when half of the budget is free."""
        if self.unanswered_bytes > self._max_bytes // 2:
            self._settle_all()
        return self.unanswered_bytes <= self._max_bytes // 2
