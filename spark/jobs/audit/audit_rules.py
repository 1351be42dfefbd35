"""The rules by which an audit judges a topic's `stats` and `internalStats`.

A cursor's numbers are checked against the ledgers: every entry behind the cursor's mark-delete position is in the
backlog, or was acknowledged out of order.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from magnetar.spark.source.ranges.bounds import Bound, Range
from magnetar.spark.source.ranges.planning_rules import LedgerRun, clip, runs_of
from pulsar_proto.counted import counted
from pulsar_proto.names import TopicName, encode_local

ORPHAN_NAME = re.compile(r"spark?-pulsar-(batch-)?[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}(-.*)?")
"""The names that the published connectors make up: a prefix, a UUID, and mostly the topic's name. The connectors up to
3.1 spell the prefix `spar-`. A name that a user chose (`predefinedSubscription`) has no UUID."""
HOUR_MS = 3_600_000
RANGE = re.compile(r"\((-?\d+):(-?\d+)\.\.(-?\d+):(-?\d+)\]")
LAST_USED = (
    "lastConsumedFlowTimestamp",
    "lastConsumedTimestamp",
    "lastAckedTimestamp",
    "lastMarkDeleteAdvancedTimestamp",
)
UNKNOWN = -1.0
Stats = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SubscriptionRow:
    """One subscription of one partition or non-partitioned topic; `subscription` is empty for a topic without
    subscriptions. Bytes and messages in and out are counted since the topic was loaded. Storage and backlog are counted
    in entries, and a batch is one entry."""

    tenant: str
    namespace: str
    topic: str
    base_topic: str
    """The partitioned topic of a partition, otherwise the topic itself."""
    subscription: str
    entries: int
    storage_bytes: int
    bytes_in: int
    messages_in: int
    bytes_out: int
    messages_out: int
    backlog: int
    ack_holes: int
    consumers: int
    mark_delete: str
    idle_hours: float
    """How long ago the subscription was last used. The number is -1 when the subscription was not used since the topic
    was loaded, because its earlier use is unknown."""
    unmoved_hours: float
    """The hours since the mark-delete position last moved, or, if it has not moved since the topic was loaded, the
    hours since the loading; -1 when neither time is known."""
    is_orphan: bool


def rows_of(topic: str, stats: Stats, internal: Stats, now_ms: int, older_than_hours: float) -> list[SubscriptionRow]:
    name = TopicName.parse(topic)
    rows = []
    for subscription, each in (stats.get("subscriptions") or {"": {}}).items():
        idle = _hours_since(max((int(each.get(field) or 0) for field in LAST_USED), default=0), now_ms)
        consumers = len(each.get("consumers") or [])
        rows.append(
            SubscriptionRow(
                tenant=name.tenant,
                namespace=f"{name.tenant}/{name.namespace_name}",
                topic=name.full,
                base_topic=name.base.full,
                subscription=subscription,
                entries=int(internal["numberOfEntries"]),
                storage_bytes=int(stats.get("storageSize", 0)),
                bytes_in=int(stats.get("bytesInCounter", 0)),
                messages_in=int(stats.get("msgInCounter", 0)),
                bytes_out=int(each.get("bytesOutCounter", 0)),
                messages_out=int(each.get("msgOutCounter", 0)),
                backlog=int(each.get("msgBacklog", 0)),
                ack_holes=int(each.get("nonContiguousDeletedMessagesRanges", 0)),
                consumers=consumers,
                mark_delete=str((cursor_of(internal, subscription) or {}).get("markDeletePosition", "")),
                idle_hours=idle,
                unmoved_hours=_hours_since(_moved_ms(stats, each), now_ms),
                is_orphan=is_orphan(subscription, consumers, idle, older_than_hours),
            )
        )
    return rows


def is_orphan(name: str, consumers: int, idle_hours: float, older_than_hours: float) -> bool:
    """Returns whether a subscription was left behind by a connector: the name is one that connectors make up, nobody is
    connected to the subscription, and it was idle for long enough. A subscription that was idle for an unknown time
    counts only with `--older-than 0`, because the subscription of a job that waits for its restart looks the same."""
    is_old = older_than_hours == 0 or (idle_hours != UNKNOWN and idle_hours >= older_than_hours)
    return ORPHAN_NAME.fullmatch(name) is not None and not consumers and is_old


def _hours_since(then_ms: int, now_ms: int) -> float:
    return round(max(0, now_ms - then_ms) / HOUR_MS, 4) if then_ms > 0 else UNKNOWN


def _moved_ms(stats: Stats, subscription: Stats) -> int:
    """Returns the time at which the mark-delete position last moved. If it did not move since the topic was loaded,
    returns the time of the loading."""
    return max(
        int(subscription.get("lastMarkDeleteAdvancedTimestamp") or 0), int(stats.get("topicCreationTimeStamp") or 0)
    )


def cursor_of(internal: Stats, subscription: str) -> Stats | None:
    """Returns a subscription's cursor, or None when there is no such cursor. A cursor has the subscription's name or,
    in Java's brokers, the URL-encoded form of that name."""
    cursors: Mapping[str, Stats] = internal.get("cursors", {})
    return cursors.get(subscription) or cursors.get(encode_local(subscription))


def position_of(text: str) -> Bound:
    """Returns a cursor's position `ledger:entry` as a bound."""
    ledger, _, entry = text.partition(":")
    return Bound(int(ledger), int(entry))


def _entries(runs: Sequence[LedgerRun], after: Bound, upto: Bound) -> int:
    return sum(run.entries for run in clip(runs, Range(after, upto)))


def ranges_of(cursor: Stats) -> list[tuple[Bound, Bound]]:
    """Returns the ranges that are acknowledged behind the mark-delete position. A range begins after its first bound,
    and ends with its second bound, which is part of the range."""
    found = RANGE.findall(cursor.get("individuallyDeletedMessages", ""))
    return [(Bound(int(a), int(b)), Bound(int(c), int(d))) for a, b, c, d in found]


def expected_backlog(internal: Stats, cursor: Stats) -> int:
    """Returns how many entries are published and not acknowledged."""
    runs = runs_of(internal)
    if not runs:
        return 0
    end = Bound(runs[-1].ledger, runs[-1].last)
    behind = _entries(runs, position_of(str(cursor["markDeletePosition"])), end)
    return behind - sum(_entries(runs, after, upto) for after, upto in ranges_of(cursor))


def check_ledgers(internal: Stats) -> list[str]:
    """Returns a list with one sentence when the ledgers do not hold the number of entries that the topic reports,
    otherwise an empty list."""
    held, said = sum(run.entries for run in runs_of(internal)), int(internal["numberOfEntries"])
    return [] if held == said else [f"its ledgers hold {counted(held, 'entry', 'entries')}, the topic says {said}"]


def check_ranges(internal: Stats, cursor: Stats) -> list[str]:
    """Returns a sentence for each acknowledged range that is out of order, overlaps another range, begins before the
    mark-delete position, or ends outside of the topic."""
    last = {run.ledger: run.last for run in runs_of(internal)}
    before = position_of(str(cursor["markDeletePosition"]))
    problems = []
    for after, upto in ranges_of(cursor):
        if after < before or upto <= after:
            problems.append(f"acknowledged {after}..{upto} overlaps what lies before")
        elif upto.entry > last.get(upto.ledger, -1):
            problems.append(f"acknowledged {after}..{upto} lies outside the topic")
        before = upto
    return problems


def check_backlogs(before: Stats, stats: Stats, after: Stats) -> list[str]:
    """Returns a sentence for each subscription for which published = acknowledged + backlog does not hold.

    `before` and `after` are internalStats that were asked for before and after `stats`. Messages may come and go
    meanwhile. So the backlog has at least the entries that were published by `before` and are not acknowledged in
    `after`, and at most the entries that were published by `after` and are not acknowledged in `before`.
    """
    problems = []
    for name, each in (stats.get("subscriptions") or {}).items():
        first, last = cursor_of(before, name), cursor_of(after, name)
        if first is None or last is None:
            continue  # the subscription was created or deleted meanwhile
        # either list of ledgers may be the shorter one, because a ledger may have been trimmed meanwhile
        least = min(expected_backlog(ledgers, last) for ledgers in (before, after))
        most = max(expected_backlog(ledgers, first) for ledgers in (before, after))
        backlog = int(each.get("msgBacklog", 0))
        if not least <= backlog <= most:
            said = str(least) if least == most else f"{least} to {most}"
            problems.append(f"{name}: {said} entries are not acknowledged, its backlog says {backlog}")
    return problems


def check_topic(before: Stats, stats: Stats, after: Stats) -> list[str]:
    """Returns a sentence for each fault in a topic's numbers; see `check_backlogs` for the arguments."""
    problems = check_ledgers(after) + check_backlogs(before, stats, after)
    for name in stats.get("subscriptions") or {}:
        cursor = cursor_of(after, name)
        if cursor is not None:
            problems += [f"{name}: {problem}" for problem in check_ranges(after, cursor)]
    return problems


def by_tenant(rows: Iterable[SubscriptionRow]) -> dict[str, dict[str, int]]:
    """Returns the usage of each tenant. A topic's storage and incoming messages count once, however many subscriptions
    it has; outgoing messages are summed over subscriptions."""
    bill: dict[str, dict[str, int]] = {}
    seen = set()
    for row in rows:
        mine = bill.setdefault(row.tenant, dict.fromkeys(("topics", *STORED, *SENT), 0))
        if row.topic not in seen:
            seen.add(row.topic)
            mine["topics"] += 1
            for name in STORED:
                mine[name] += getattr(row, name)
        for name in SENT:
            mine[name] += getattr(row, name)
    return bill


STORED = ("entries", "storage_bytes", "bytes_in", "messages_in")
SENT = ("bytes_out", "messages_out")


def by_base_topic(rows: Sequence[SubscriptionRow]) -> list[dict[str, Any]]:
    """Returns a dictionary for each subscription of each topic, with sums over the topic's partitions and with the
    `skew`. The skew is the entries of the largest partition divided by the mean over the partitions, so it is 1.0 when
    all partitions have equally many entries."""
    groups: dict[tuple[str, str], list[SubscriptionRow]] = {}
    for row in rows:
        groups.setdefault((row.base_topic, row.subscription), []).append(row)
    summed = []
    for (topic, subscription), parts in groups.items():
        entries = [row.entries for row in parts]
        total: dict[str, Any] = {"topic": topic, "subscription": subscription, "partitions": len(parts)}
        total |= {name: sum(getattr(row, name) for row in parts) for name in SUMMED}
        total["idle_hours"] = min((row.idle_hours for row in parts if row.idle_hours != UNKNOWN), default=UNKNOWN)
        total["skew"] = round(max(entries) * len(entries) / sum(entries), 2) if sum(entries) else 1.0
        total["orphans"] = sum(row.is_orphan for row in parts)
        summed.append(total)
    return summed


SUMMED = (*STORED, *SENT, "backlog", "ack_holes", "consumers")
