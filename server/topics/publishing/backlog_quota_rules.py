"""Decides when a topic exceeds a backlog quota, and how much of the backlog is then skipped.

Sources: PersistentTopic.isSizeBacklogExceeded, isTimeBacklogExceeded, checkBacklogQuotaExceeded;
BacklogQuotaManager.dropBacklogForSizeLimit.
"""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from magnetar.server.policies.policy_values import BacklogAction, BacklogQuotas

KEPT_SHARE = 0.9
"""When a backlog exceeds its size limit, the broker skips messages until the backlog has this share of the limit."""


class BacklogQuotaType(Enum):
    """The quantity that a quota limits (BacklogQuota.BacklogQuotaType)."""

    SIZE = "destination_storage"
    AGE = "message_age"


class Excess(NamedTuple):
    """A quota that a topic has reached."""

    kind: BacklogQuotaType
    limit: int
    """The quota's limit, in bytes for SIZE, in seconds for AGE."""
    action: BacklogAction

    @property
    def stops_producers(self) -> bool:
        return self.action is not BacklogAction.CONSUMER_BACKLOG_EVICTION


def excesses(quotas: BacklogQuotas, backlog_bytes: int, oldest_age_seconds: float) -> list[Excess]:
    """Returns the quotas that a backlog of `backlog_bytes` reaches when its oldest message is `oldest_age_seconds`
    old."""
    found = []
    size, age = quotas.destination_storage, quotas.message_age
    if 0 <= size.limit <= backlog_bytes:
        found.append(Excess(BacklogQuotaType.SIZE, size.limit, size.policy))
    if 0 < age.limit < oldest_age_seconds:
        found.append(Excess(BacklogQuotaType.AGE, age.limit, age.policy))
    return found


def entries_to_cut(entries: int, limit_bytes: int, bytes_behind: Callable[[int], int]) -> int:
    """Returns how many of the log's `entries` entries every subscription has to skip, so that the remaining backlog is
    at most KEPT_SHARE of the limit. `bytes_behind(n)` estimates how many bytes follow the first n entries. The estimate
    falls as n grows, so a binary search finds the smallest n."""
    target = int(limit_bytes * KEPT_SHARE)
    low, high = 0, entries
    while low < high:
        middle = (low + high) // 2
        if bytes_behind(middle) <= target:
            high = middle
        else:
            low = middle + 1
    return low
