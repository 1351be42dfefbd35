"""The arithmetic of lag: how many messages and bytes are unread, and for how long the oldest of them has waited."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from magnetar.spark.source.ranges.bounds import Range
from magnetar.spark.source.ranges.counting_rules import Counts
from magnetar.spark.source.ranges.planning_rules import LedgerRun, clip


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """What a partition has unread. None means that a number is unknown, or that no message is unread."""

    messages: int | None
    size: int | None
    oldest_publish_time: int | None


def lag_of(unread: Range, runs: Sequence[LedgerRun], counted: Counts) -> PartitionLag:
    """Returns the lag of a partition with unread messages. `runs` are the ledgers as far as they are known, and
    `counted` are the first of the unread entries. The entries behind these are supposed to be like them."""
    oldest = int(counted.publish_times[0]) if len(counted) else None
    messages, size = int(counted.messages.sum()), int(counted.sizes.sum())
    if len(counted) and counted.place(-1)[:2] >= unread.upto[:2]:
        return PartitionLag(messages, size, oldest)
    inside = clip(runs, unread)
    more = sum(run.entries for run in inside) - len(counted)
    if not len(counted) or more < 0:
        return PartitionLag(None, None, oldest)
    known_size = sum(run.entries * run.entry_bytes for run in inside)
    return PartitionLag(
        messages + round(more * messages / len(counted)),
        round(known_size or size + more * size / len(counted)),
        oldest,
    )


def report(lags: Mapping[str, PartitionLag], now_ms: int) -> dict[str, Any]:
    """Returns the lags of all partitions as a progress report shows them: in sum, as Spark's source for Kafka does (its
    avg-, max- and minOffsetsBehindLatest), and by partition. A number that is unknown for a partition is left out."""
    partitions = {}
    for name, lag in sorted(lags.items()):
        waited = 0 if lag.oldest_publish_time is None else max(0, now_ms - lag.oldest_publish_time)
        numbers = {"messages": lag.messages, "bytes": lag.size, "publishTimeMs": waited}
        partitions[name] = {kind: number for kind, number in numbers.items() if number is not None}
    messages = [lag.messages for lag in lags.values() if lag.messages is not None]
    found: dict[str, Any] = {}
    if messages and len(messages) == len(lags):
        found = {
            "messages": sum(messages),
            "bytes": sum(lag.size or 0 for lag in lags.values()),
            "avgMessagesBehindLatest": round(sum(messages) / len(messages), 1),
            "maxMessagesBehindLatest": max(messages),
            "minMessagesBehindLatest": min(messages),
        }
    longest = max((each["publishTimeMs"] for each in partitions.values()), default=0)
    return {**found, "publishTimeMs": longest, "partitions": partitions}
