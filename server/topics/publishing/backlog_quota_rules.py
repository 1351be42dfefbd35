"""Backlog quotas: when a topic is over one, and how far a backlog is cut. Rules only.

Sources: PersistentTopic.isSizeBacklogExceeded, isTimeBacklogExceeded, checkBacklogQuotaExceeded;
BacklogQuotaManager.dropBacklogForSizeLimit; facts 7.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from magnetar.server.policies.policy_values import BacklogAction, BacklogQuotas

KEPT_SHARE = 0.9
"""Of the limit, when a backlog is cut for its size."""


class BacklogQuotaType(Enum):
    SIZE = "destination_storage"
    AGE = "message_age"


class Excess(NamedTuple):
    kind: BacklogQuotaType
    limit: int
    """Bytes, or seconds."""
    action: BacklogAction

    @property
    def stops_producers(self) -> bool:
        return self.action is not BacklogAction.CONSUMER_BACKLOG_EVICTION


def excesses(quotas: BacklogQuotas, backlog_bytes: int, oldest_age_seconds: float) -> list[Excess]:
    """The quotas that a backlog of so many bytes reaches, whose oldest message is so old."""
    found = []
    size, age = quotas.destination_storage, quotas.message_age
    if 0 <= size.limit <= backlog_bytes:
        found.append(Excess(BacklogQuotaType.SIZE, size.limit, size.policy))
    if 0 < age.limit < oldest_age_seconds:
        found.append(Excess(BacklogQuotaType.AGE, age.limit, age.policy))
    return found


def entries_to_cut(entries: int, limit_bytes: int, bytes_behind: Callable[[int], int]) -> int:
    """How many of the log's first `entries` entries no subscription may still have to itself, so that what is left is
    within the share of the limit. `bytes_behind(n)`: about how many bytes stand behind the first n, falling with n."""
    target = int(limit_bytes * KEPT_SHARE)
    low, high = 0, entries
    while low < high:
        middle = (low + high) // 2
        if bytes_behind(middle) <= target:
            high = middle
        else:
            low = middle + 1
    return low
