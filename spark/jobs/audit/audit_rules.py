"""What an audit concludes from a topic's `stats` and `internalStats`: pure rules, no clock and no I/O.

A cursor's numbers are checked against the ledgers: what lies behind its mark-delete position is its backlog or was
acknowledged out of order.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from magnetar.spark.source.ranges.bounds import Bound, Range
from magnetar.spark.source.ranges.planning_rules import LedgerRun, clip, runs_of
from pulsar_proto.names import TopicName, encode_local

ORPHAN_NAME = re.compile(r"spark?-pulsar-(batch-)?[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}(-.*)?")
"""What the published connectors make up: a prefix, a UUID, mostly the topic's name. `spar-` is no slip of ours: those
up to 3.1 spell it so. A name that a user chose (`predefinedSubscription`) has no UUID."""
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
    """One subscription of one partition or plain topic, or a topic without any (`subscription` empty). Bytes and
    messages in and out are counted since the topic was loaded; entries and backlog are entries (a batch is one)."""

    tenant: str
    namespace: str
    topic: str
    base_topic: str
    """Of a partition the whole topic, else the topic."""
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
    """Since the subscription was used last; -1: not since the topic was loaded, and nobody knows what was before."""
    unmoved_hours: float
    """The mark-delete position did not move for at least so long; -1: nobody knows."""
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
    """A connector's leftover that nobody is connected to and that was idle for long enough. One whose age nobody knows
    is taken only with `--older-than 0`: a job that waits for its restart looks the same."""
    is_old = older_than_hours == 0 or (idle_hours != UNKNOWN and idle_hours >= older_than_hours)
    return ORPHAN_NAME.fullmatch(name) is not None and not consumers and is_old


def _hours_since(then_ms: int, now_ms: int) -> float:
    return round(max(0, now_ms - then_ms) / HOUR_MS, 4) if then_ms > 0 else UNKNOWN


def _moved_ms(stats: Stats, subscription: Stats) -> int:
    """When the mark-delete position moved last; if it did not since the topic was loaded, then that time."""
    return max(
        int(subscription.get("lastMarkDeleteAdvancedTimestamp") or 0), int(stats.get("topicCreationTimeStamp") or 0)
    )


def cursor_of(internal: Stats, subscription: str) -> Stats | None:
    """Cursors have a subscription's name, or as in Java its encoded form."""
    cursors: Mapping[str, Stats] = internal.get("cursors", {})
    return cursors.get(subscription) or cursors.get(encode_local(subscription))


def position_of(text: str) -> Bound:
    """`ledger:entry` of a cursor."""
    ledger, _, entry = text.partition(":")
    return Bound(int(ledger), int(entry))


def _entries(runs: Sequence[LedgerRun], after: Bound, upto: Bound) -> int:
    return sum(run.entries for run in clip(runs, Range(after, upto)))


def ranges_of(cursor: Stats) -> list[tuple[Bound, Bound]]:
    """What is acknowledged behind the mark-delete position: (after, up to and with)."""
    found = RANGE.findall(cursor.get("individuallyDeletedMessages", ""))
    return [(Bound(int(a), int(b)), Bound(int(c), int(d))) for a, b, c, d in found]


def expected_backlog(internal: Stats, cursor: Stats) -> int:
    """Entries: all that was published and is not acknowledged."""
    runs = runs_of(internal)
    if not runs:
        return 0
    end = Bound(runs[-1].ledger, runs[-1].last)
    behind = _entries(runs, position_of(str(cursor["markDeletePosition"])), end)
    return behind - sum(_entries(runs, after, upto) for after, upto in ranges_of(cursor))


def check_ledgers(internal: Stats) -> list[str]:
    counted, said = sum(run.entries for run in runs_of(internal)), int(internal["numberOfEntries"])
    return [] if counted == said else [f"its ledgers hold {counted} entries, the topic says {said}"]


def check_ranges(internal: Stats, cursor: Stats) -> list[str]:
    """Acknowledged ranges are in order, do not overlap, and lie inside the topic behind the mark-delete position."""
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
    """Published = acknowledged + backlog, for each subscription. `before` and `after`: internalStats asked before and
    after `stats`; while messages come and go the backlog has at least what was published before and is not acknowledged
    after, and at most what was published after and is not acknowledged before."""
    problems = []
    for name, each in (stats.get("subscriptions") or {}).items():
        first, last = cursor_of(before, name), cursor_of(after, name)
        if first is None or last is None:
            continue  # it came or went meanwhile
        least = min(expected_backlog(ledgers, last) for ledgers in (before, after))  # or one was trimmed meanwhile
        most = max(expected_backlog(ledgers, first) for ledgers in (before, after))
        backlog = int(each.get("msgBacklog", 0))
        if not least <= backlog <= most:
            said = str(least) if least == most else f"{least} to {most}"
            problems.append(f"{name}: {said} entries are not acknowledged, its backlog says {backlog}")
    return problems


def check_topic(before: Stats, stats: Stats, after: Stats) -> list[str]:
    """All sentences about one topic."""
    problems = check_ledgers(after) + check_backlogs(before, stats, after)
    for name in stats.get("subscriptions") or {}:
        cursor = cursor_of(after, name)
        if cursor is not None:
            problems += [f"{name}: {problem}" for problem in check_ranges(after, cursor)]
    return problems


def by_tenant(rows: Iterable[SubscriptionRow]) -> dict[str, dict[str, int]]:
    """The usage bill. A topic counts once, however many subscriptions it has; what goes out is each one's own."""
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
    """Partitioned topics as one: sums a subscription, and how uneven the partitions are (1.0: even; the largest one's
    entries, divided by the mean)."""
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
