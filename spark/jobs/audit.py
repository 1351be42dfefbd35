"""What topics hold and who is behind, a row a subscription; orphans of Spark's connectors are found and removed.

The published connectors leave durable subscriptions behind (facts 2.2): a killed driver all of them, a batch read one a
partition. They keep messages for ever. One that nobody is connected to and that was idle for long enough is an orphan.
"""

import re
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from spark.jobs.common import Outcome, finish, guarded, parser, place_options
from spark.source.admin import Admin, AdminError, topic_path
from spark.source.options import Options, place_of

ORPHAN_NAMES = ("spark-pulsar-", "spar-pulsar-")
"""`spar-` is no slip of ours: connectors up to 3.1 spell it so."""
HOUR_MS = 3_600_000
RANGE = re.compile(r"\((-?\d+):(-?\d+)\.\.(-?\d+):(-?\d+)\]")
EXAMPLES = """\
  magnetar spark audit --service-url pulsar://127.0.0.1:6650 --admin-url http://127.0.0.1:8080
  magnetar spark audit … --namespaces public/default --max-backlog 100000 --sink ./audit
  magnetar spark audit … --older-than 24 --sweep-orphans
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One subscription, or a topic without any (`subscription` empty)."""

    tenant: str
    namespace: str
    topic: str
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
    idle_hours: float
    """Since the subscription was used last; -1: never."""
    is_orphan: bool


def main(argv: Sequence[str]) -> int:
    return guarded("audit", run, argv)


def run(argv: Sequence[str]) -> int:
    made = parser("audit", "Says what topics hold and which subscriptions are behind.", EXAMPLES)
    made.add_argument("--namespaces", default="", metavar="T/N,…", help="default: all")
    made.add_argument("--sink", default="", metavar="DIR", help="a Parquet file of each look, for later")
    made.add_argument("--interval", type=float, default=0, metavar="SECONDS", help="look again and again; default once")
    made.add_argument("--max-backlog", type=int, default=0, metavar="N", help="a larger one is a failed check")
    made.add_argument("--max-ack-holes", type=int, default=0, metavar="N", help="more are a failed check")
    made.add_argument(
        "--older-than", type=float, default=24, metavar="HOURS", help="idle so long: an orphan; default 24"
    )
    made.add_argument("--sweep-orphans", action="store_true", help="delete orphans; they and their backlog are gone")
    arguments = made.parse_args(argv)
    if not arguments.admin_url:
        made.error("--admin-url is needed")
    while True:
        code = look(arguments)
        if not arguments.interval:
            return code
        time.sleep(arguments.interval)


def look(arguments: Namespace) -> int:
    began = time.monotonic()
    outcome = Outcome("audit")
    place = place_of(Options(place_options(arguments)))
    audit = Audit(Admin(place.admin_url, place.login), arguments, outcome)
    rows = list(audit.rows())
    if arguments.progress == "text":
        show(rows)
    if arguments.sink and rows:
        Path(arguments.sink).mkdir(parents=True, exist_ok=True)
        path = Path(arguments.sink) / f"audit-{int(time.time() * 1000)}.parquet"
        pq.write_table(pa.Table.from_pylist([asdict(row) for row in rows]), path)
        outcome.written = len(rows)
    outcome.details["storage bytes by tenant"] = bill(rows)
    outcome.details["orphans"] = sum(row.is_orphan for row in rows)
    if arguments.sweep_orphans:
        outcome.details["removed"] = audit.sweep(rows)
    audit.judge(rows)
    return finish(outcome, began, arguments.progress)


class Audit:
    def __init__(self, admin: Admin, arguments: Namespace, outcome: Outcome) -> None:
        self._admin = admin
        self._arguments = arguments
        self._outcome = outcome

    def rows(self) -> Iterator[Row]:
        for namespace in self._namespaces():
            for topic in self._admin.call("GET", f"persistent/{namespace}") or []:
                try:
                    stats = self._admin.call("GET", f"{topic_path(topic)}/stats")
                    internal = self._admin.internal_stats(topic)
                except AdminError as error:
                    if error.status != 404:  # deleted meanwhile
                        raise
                    continue
                self._outcome.read += 1
                self._check_topic(topic, stats, internal)
                yield from self._rows_of(topic, stats, internal)

    def _namespaces(self) -> list[str]:
        given = [name.strip() for name in self._arguments.namespaces.split(",") if name.strip()]
        if given:
            return given
        tenants = self._admin.call("GET", "tenants") or []
        return [name for tenant in tenants for name in self._admin.call("GET", f"namespaces/{tenant}") or []]

    def _rows_of(self, topic: str, stats: dict[str, Any], internal: dict[str, Any]) -> Iterator[Row]:
        tenant, namespace = topic.partition("://")[2].split("/")[:2]
        for name, each in (stats.get("subscriptions") or {"": {}}).items():
            used = max((each.get(field) or 0 for field in LAST_USED), default=0)
            idle = (time.time() * 1000 - used) / HOUR_MS if used else -1.0
            consumers = len(each.get("consumers") or [])
            old = self._arguments.older_than
            yield Row(
                tenant=tenant,
                namespace=f"{tenant}/{namespace}",
                topic=topic,
                subscription=name,
                entries=int(internal["numberOfEntries"]),
                storage_bytes=int(stats.get("storageSize", 0)),
                bytes_in=int(stats.get("bytesInCounter", 0)),
                messages_in=int(stats.get("msgInCounter", 0)),
                bytes_out=int(each.get("bytesOutCounter", 0)),
                messages_out=int(each.get("msgOutCounter", 0)),
                backlog=int(each.get("msgBacklog", 0)),
                ack_holes=int(each.get("nonContiguousDeletedMessagesRanges", 0)),
                consumers=consumers,
                idle_hours=round(idle, 3),
                is_orphan=name.startswith(ORPHAN_NAMES) and not consumers and (idle >= old or old == 0),
            )

    def _check_topic(self, topic: str, stats: dict[str, Any], internal: dict[str, Any]) -> None:
        """Ledgers add up, and what is acknowledged out of order lies inside the topic without overlap."""
        ledgers = internal["ledgers"]
        counted = sum(int(ledger["entries"]) for ledger in ledgers[:-1]) + int(internal["currentLedgerEntries"])
        if ledgers and counted != int(internal["numberOfEntries"]):
            closed = counted - int(internal["currentLedgerEntries"]) + int(ledgers[-1]["entries"])
            if closed != int(internal["numberOfEntries"]):
                self._outcome.problems.append(
                    f"{topic}: ledgers hold {counted}, the topic {internal['numberOfEntries']}"
                )
        known = {int(ledger["ledgerId"]) for ledger in ledgers}
        for name, cursor in internal.get("cursors", {}).items():
            last = (-1, -1)
            for found in RANGE.findall(cursor.get("individuallyDeletedMessages", "")):
                begin, end = (int(found[0]), int(found[1])), (int(found[2]), int(found[3]))
                if begin < last or end <= begin or end[0] not in known:
                    self._outcome.problems.append(f"{topic}, {name}: range {begin}..{end} overlaps or lies outside")
                last = end

    def judge(self, rows: Sequence[Row]) -> None:
        arguments = self._arguments
        for row in rows:
            who = f"{row.topic}, {row.subscription}"
            if arguments.max_backlog and row.backlog > arguments.max_backlog:
                self._outcome.problems.append(f"{who}: backlog of {row.backlog}")
            if arguments.max_ack_holes and row.ack_holes > arguments.max_ack_holes:
                self._outcome.problems.append(f"{who}: {row.ack_holes} ack holes")

    def sweep(self, rows: Sequence[Row]) -> int:
        """Deletes orphans; one that somebody connected to meanwhile refuses, and stays."""
        removed = 0
        for row in rows:
            if row.is_orphan:
                name = quote(row.subscription, safe="")
                try:
                    self._admin.call("DELETE", f"{topic_path(row.topic)}/subscription/{name}")
                    removed += 1
                except AdminError as error:
                    if error.status not in (404, 412):
                        raise
        return removed


LAST_USED = (
    "lastConsumedFlowTimestamp",
    "lastConsumedTimestamp",
    "lastAckedTimestamp",
    "lastMarkDeleteAdvancedTimestamp",
)


def bill(rows: Sequence[Row]) -> dict[str, int]:
    """Stored bytes by tenant; a topic counts once, however many subscriptions it has."""
    topics = {row.topic: row for row in rows}
    totals: dict[str, int] = {}
    for row in topics.values():
        totals[row.tenant] = totals.get(row.tenant, 0) + row.storage_bytes
    return totals


def show(rows: Sequence[Row]) -> None:
    """The ones that are furthest behind first."""
    print(f"{'topic':60} {'subscription':30} {'backlog':>10} {'holes':>7} {'stored':>14} {'idle h':>8}")
    for row in sorted(rows, key=lambda row: -row.backlog):
        mark = "  orphan" if row.is_orphan else ""
        idle = "" if row.idle_hours < 0 else f"{row.idle_hours:.1f}"
        print(
            f"{row.topic:60} {row.subscription[:30]:30} {row.backlog:>10,} {row.ack_holes:>7,} "
            f"{row.storage_bytes:>14,} {idle:>8}{mark}"
        )


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
