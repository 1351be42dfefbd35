"""Shows the content of topics and the subscriptions that lag behind, a row for each subscription. Finds and removes
orphans of Spark's connectors.

The published connectors leave durable subscriptions behind, which keep messages for ever: a killed driver leaves all of
its subscriptions, and a batch read leaves one for each partition. A connector's subscription that nobody is connected
to and that was idle for long enough is an orphan.
"""

import argparse
import io
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from magnetar.spark.jobs.audit.audit_count import count_messages, oldest_unacknowledged_ms
from magnetar.spark.jobs.audit.audit_rules import (
    HOUR_MS,
    UNKNOWN,
    SubscriptionRow,
    by_base_topic,
    by_tenant,
    check_topic,
    is_orphan,
    rows_of,
)
from magnetar.spark.jobs.audit.audit_text import subscriptions_table, tenants_table, time_text
from magnetar.spark.jobs.job_arguments import add_number, add_storage, parser, service_options
from magnetar.spark.jobs.job_outcome import JobFailed, JobOutcome, finish
from magnetar.spark.jobs.job_places import check_places, job_place
from magnetar.spark.jobs.job_session import guarded
from magnetar.spark.jobs.progress import Teller
from magnetar.spark.source.client.admin_client import NOT_FOUND, PASSING, AdminClient, AdminError, topic_path
from magnetar.spark.source.options import Options, address_of
from pulsar_proto.counted import counted

CHECK_ATTEMPTS = 3
"""How often a topic's numbers are asked for and checked until they agree. The numbers of a busy topic may disagree,
because `stats` and `internalStats` are asked for one after the other."""
EXAMPLES = """\
  magnetar spark audit --service-url pulsar://127.0.0.1:6650 --admin-url http://127.0.0.1:8080
  magnetar spark audit … --namespaces public/default --max-backlog 100000 --stuck-after 6 --sink ./audit
  magnetar spark audit … --interval 60 --progress json >> audit.jsonl
  magnetar spark audit … --older-than 24 --sweep-orphans
"""


def main(argv: Sequence[str]) -> int:
    return guarded("audit", run, argv)


def options() -> argparse.ArgumentParser:
    made = parser("audit", "Says what topics hold and which subscriptions are behind.", EXAMPLES)
    made.add_argument("--namespaces", default="", metavar="T/N,…", help="a tenant alone: all of its; default: all")
    made.add_argument("--sink", default="", metavar="DIR", help="folder or URL for a Parquet file of each look")
    add_storage(made)
    add_number(made, "--interval", float, metavar="SECONDS", help="look again and again; default once")
    made.add_argument("--count-messages", action="store_true", help="read all of them, and compare; starts Spark")
    add_number(made, "--max-backlog", int, metavar="N", help="a larger one is a failed check")
    add_number(made, "--max-ack-holes", int, metavar="N", help="more are a failed check")
    add_number(made, "--max-skew", float, metavar="X", help="so uneven partitions are a failed check")
    add_number(made, "--stuck-after", float, metavar="HOURS", help="no progress with a backlog: a failed check")
    add_number(made, "--older-than", float, default=24, metavar="HOURS", help="idle so long: an orphan; default 24")
    made.add_argument("--sweep-orphans", action="store_true", help="delete orphans; they and their backlog are gone")
    return made


def run(argv: Sequence[str]) -> int:
    made = options()
    arguments = made.parse_args(argv)
    if not arguments.admin_url:
        made.error("--admin-url is needed")
    check_places(arguments)
    if not arguments.interval:
        return look(arguments)
    teller, code = Teller(arguments.progress, "audit"), 0
    try:
        code = look(arguments)  # an error in the first audit, such as a wrong option, ends the job
        while True:
            time.sleep(arguments.interval)
            try:
                code = max(code, look(arguments))
            except AdminError as error:
                if error.status not in PASSING:
                    raise
                teller.state("failed", f"{error}; next look in {arguments.interval:g} s", error=str(error))
    except KeyboardInterrupt:
        teller.state("ended", "ended")
    return code


def look(arguments: Namespace) -> int:
    """Makes one audit of all topics, and returns the exit code."""
    began = time.monotonic()
    outcome = JobOutcome("audit")
    address = address_of(Options(service_options(arguments)))
    audit = Audit(AdminClient(address.admin_url, address.login), arguments, outcome)
    rows = list(audit.rows())
    for_people = arguments.progress != "json"
    if arguments.progress == "text":
        print(f"{subscriptions_table(rows)}\n\n{tenants_table(rows)}\n")
    if arguments.sink and rows:
        made = io.BytesIO()
        pq.write_table(pa.Table.from_pylist([{"time": audit.now, **asdict(row)} for row in rows]), made)
        job_place(arguments, arguments.sink).open().write(f"audit-{audit.now}.parquet", made.getvalue())
        outcome.written = len(rows)
    details = outcome.details
    details["time"] = time_text(audit.now) if for_people else audit.now
    if not for_people:
        details |= {"usage by tenant": by_tenant(rows), "topics": by_base_topic(rows)}
    details["non-persistent topics, which keep nothing"] = audit.non_persistent
    details["orphans"] = sum(row.is_orphan for row in rows)
    details["orphans of unknown age, kept"] = sum(is_of_unknown_age(row) for row in rows)
    if arguments.count_messages:
        details["counted"] = audit.count(rows)
    if arguments.sweep_orphans:
        details["removed"] = audit.sweep(rows)
    audit.judge(rows)
    return finish(outcome, began, arguments.progress)


def is_of_unknown_age(row: SubscriptionRow) -> bool:
    """Returns whether a subscription would be an orphan if it were known to be old enough."""
    unknown = row.idle_hours == UNKNOWN and not row.is_orphan
    return unknown and is_orphan(row.subscription, row.consumers, row.idle_hours, 0)


class Audit:
    """One audit of all topics. `now` is the time of the audit, in milliseconds since the epoch."""

    def __init__(self, admin: AdminClient, arguments: Namespace, outcome: JobOutcome) -> None:
        self._admin = admin
        self._arguments = arguments
        self._outcome = outcome
        self._given = [name.strip() for name in arguments.namespaces.split(",") if name.strip()]
        self.now = int(time.time() * 1000)
        self.non_persistent = 0

    def rows(self) -> Iterator[SubscriptionRow]:
        """Asks for the numbers of all topics, checks them, and yields a row for each subscription."""
        for namespace in self._namespaces():
            self.non_persistent += len(self._listed("non-persistent", namespace))
            for topic in sorted(self._listed("persistent", namespace)):
                try:
                    stats, internal = self._checked(topic)
                except AdminError as error:
                    if error.status != NOT_FOUND:  # a topic may be deleted after it was listed
                        raise
                    continue
                self._outcome.read += 1
                yield from rows_of(topic, stats, internal, self.now, self._arguments.older_than)

    def _namespaces(self) -> list[str]:
        """Returns the namespaces that the options name, and those of the tenants that the options name. Returns all
        namespaces when the options name none."""
        found: list[str] = []
        for name in self._given or self._admin.call("GET", "tenants") or []:
            if name.count("/") > 1:
                raise JobFailed(
                    f"--namespaces {name}: expected TENANT/NAMESPACE, or a TENANT for all of its namespaces"
                )
            found += [name] if "/" in name else self._listed("namespaces", name)
        return found

    def _listed(self, kind: str, name: str) -> list[str]:
        """Returns the namespaces of a tenant or the topics of a namespace. When the tenant or namespace does not exist,
        raises JobFailed if the command line names it. Otherwise the tenant or namespace was deleted meanwhile, and the
        list is empty."""
        try:
            return list(self._admin.call("GET", f"{kind}/{quote(name)}") or [])
        except AdminError as error:
            if error.status != NOT_FOUND:
                raise
            if name in self._given:
                raise JobFailed(f"--namespaces: {name} does not exist") from error
            return []

    def _checked(self, topic: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns a topic's `stats` and `internalStats`. Faults that remain after CHECK_ATTEMPTS become problems of the
        outcome."""
        problems: list[str] = []
        for _ in range(CHECK_ATTEMPTS):
            before = self._admin.internal_stats(topic)
            stats = self._stats(topic)
            after = self._admin.internal_stats(topic)
            problems = check_topic(before, stats, after)
            if not problems:
                break
        self._outcome.problems += [f"{topic}, {problem}" for problem in problems]
        return stats, after

    def _stats(self, topic: str) -> dict[str, Any]:
        found: dict[str, Any] = self._admin.call("GET", f"{topic_path(topic)}/stats?getPreciseBacklog=true")
        return found

    def judge(self, rows: Sequence[SubscriptionRow]) -> None:
        """Compares the rows with the limits that were given. A row that exceeds a limit becomes a problem of the
        outcome."""
        arguments, problems = self._arguments, self._outcome.problems
        for row in rows:
            who = f"{row.topic}, {row.subscription}"
            if arguments.max_backlog and row.backlog > arguments.max_backlog:
                problems.append(f"{who}: backlog of {row.backlog}")
            if arguments.max_ack_holes and row.ack_holes > arguments.max_ack_holes:
                problems.append(f"{who}: {row.ack_holes} ack holes")
            if arguments.stuck_after:
                problems += [f"{who}: {problem}" for problem in self._stuck(row)]
        for topic, skew in {each["topic"]: each["skew"] for each in by_base_topic(rows)}.items():
            if arguments.max_skew and skew > arguments.max_skew:
                problems.append(f"{topic}: its largest partition holds {skew} times the mean")

    def _stuck(self, row: SubscriptionRow) -> list[str]:
        """Returns a list with one sentence when the subscription is stuck, otherwise an empty list. A subscription
        without progress does not count as stuck while its oldest unacknowledged message is young."""
        limit = self._arguments.stuck_after
        if not row.backlog or row.unmoved_hours < limit:
            return []
        oldest = oldest_unacknowledged_ms(service_options(self._arguments), row.topic, row.mark_delete)
        if oldest is None or self.now - oldest < limit * HOUR_MS:
            return []
        hours = min(row.unmoved_hours, (self.now - oldest) / HOUR_MS)
        consumers = counted(row.consumers, "consumer")
        return [f"stuck at {row.mark_delete} for {hours:.3g} h, {consumers}, backlog of {row.backlog}"]

    def count(self, rows: Sequence[SubscriptionRow]) -> dict[str, Any]:
        """Reads every message of every topic through the data source, which finds gaps. Returns the counted numbers and
        the numbers of the ledgers. The ledgers may hold more entries than were counted, because markers have no
        message, and the chunks of a large message count as one message."""
        known = {row.topic: row.entries for row in rows}
        by_topic = count_messages(self._arguments, [topic for topic, entries in known.items() if entries])
        for topic, found in by_topic.items():
            entries = int(self._admin.internal_stats(topic)["numberOfEntries"])
            if found.entries > entries:
                self._outcome.problems.append(
                    f"{topic}: {counted(found.entries, 'entry was', 'entries were')} read, its ledgers hold {entries}"
                )
        return {topic: {**asdict(found), "ledger_entries": known[topic]} for topic, found in by_topic.items()}

    def sweep(self, rows: Sequence[SubscriptionRow]) -> int:
        """Checks each orphan again, deletes those that still are orphans, and returns how many were deleted. If a
        client connects to an orphan meanwhile, the broker refuses to delete it (412)."""
        removed = 0
        for row in rows:
            if row.is_orphan and self._is_orphan_still(row):
                name = quote(row.subscription, safe="")
                try:
                    self._admin.call("DELETE", f"{topic_path(row.topic)}/subscription/{name}")
                    removed += 1
                except AdminError as error:
                    if error.status not in (NOT_FOUND, 412):
                        raise
        return removed

    def _is_orphan_still(self, row: SubscriptionRow) -> bool:
        try:
            stats, internal = self._stats(row.topic), self._admin.internal_stats(row.topic)
        except AdminError as error:
            if error.status != NOT_FOUND:
                raise
            return False
        now = int(time.time() * 1000)
        fresh = rows_of(row.topic, stats, internal, now, self._arguments.older_than)
        return any(each.subscription == row.subscription and each.is_orphan for each in fresh)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
