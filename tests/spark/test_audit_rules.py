"""The audit's rules against a topic that is nothing but a list of entries."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.spark.jobs.audit.audit_rules import UNKNOWN, check_topic, expected_backlog, is_orphan, rows_of

UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
HOUR_MS = 3_600_000


def internal_of(ledgers: list[int], acknowledged: set[int]) -> tuple[dict[str, Any], int]:
    """Returns internalStats of a topic whose ledgers hold so many entries, and its backlog. `acknowledged` numbers the
    entries over all ledgers."""
    places = [(ledger, entry) for ledger, count in enumerate(ledgers, start=7) for entry in range(count)]
    mark = -1
    while mark + 1 in acknowledged:
        mark += 1

    def name(at: int) -> str:
        return "{}:{}".format(*places[at]) if at >= 0 else "-1:-1"

    ranges: list[list[int]] = []
    for at in sorted(each for each in acknowledged if each > mark):
        if ranges and ranges[-1][1] == at - 1:
            ranges[-1][1] = at
        else:
            ranges.append([at - 1, at])
    infos = [{"ledgerId": ledger, "entries": count, "size": count} for ledger, count in enumerate(ledgers, start=7)]
    open_entries = infos[-1]["entries"] if infos else 0
    if infos:
        infos[-1] = {"ledgerId": infos[-1]["ledgerId"], "entries": 0, "size": 0}
    cursor = {
        "markDeletePosition": name(mark),
        "individuallyDeletedMessages": f"[{','.join(f'({name(a)}..{name(b)}]' for a, b in ranges)}]",
    }
    internal = {
        "ledgers": infos,
        "numberOfEntries": len(places),
        "currentLedgerEntries": open_entries,
        "currentLedgerSize": open_entries,
        "cursors": {"s": cursor},
    }
    return internal, len(places) - len(acknowledged)


@given(st.lists(st.integers(1, 6), max_size=4), st.data())
def test_published_is_acknowledged_and_backlog(ledgers: list[int], data: st.DataObject) -> None:
    total = sum(ledgers)
    acknowledged = data.draw(st.sets(st.integers(0, total - 1))) if total else set()
    internal, backlog = internal_of(ledgers, acknowledged)
    assert expected_backlog(internal, internal["cursors"]["s"]) == backlog
    stats = {"subscriptions": {"s": {"msgBacklog": backlog}}}
    assert check_topic(internal, stats, internal) == []
    wrong = {"subscriptions": {"s": {"msgBacklog": backlog + 1}}}
    assert check_topic(internal, wrong, internal) == [
        f"s: {backlog} entries are not acknowledged, its backlog says {backlog + 1}"
    ]


def test_a_backlog_may_lie_between_two_looks() -> None:
    before, _ = internal_of([5], {0})
    after, _ = internal_of([5, 5], {0})
    for backlog, problems in ((4, 0), (7, 0), (9, 0), (10, 1), (3, 1)):
        stats = {"subscriptions": {"s": {"msgBacklog": backlog}}}
        assert len(check_topic(before, stats, after)) == problems


@given(st.lists(st.sampled_from(["publish", "acknowledge"]), max_size=30), st.data())
def test_a_topic_in_use_fails_no_check(steps: list[str], data: st.DataObject) -> None:
    states: list[tuple[int, set[int]]] = [(3, {1})]
    for step in steps:
        published, acknowledged = states[-1]
        waiting = sorted(set(range(published)) - acknowledged)
        if step == "publish":
            states.append((published + 1, acknowledged))
        elif waiting:
            states.append((published, acknowledged | {data.draw(st.sampled_from(waiting))}))
    first, middle, last = (internal_of([1, count - 1], acknowledged) for count, acknowledged in (
        states[at] for at in sorted(data.draw(st.lists(st.integers(0, len(states) - 1), min_size=3, max_size=3)))
    ))  # fmt: skip
    stats = {"subscriptions": {"s": {"msgBacklog": middle[1]}}}
    assert check_topic(first[0], stats, last[0]) == []


def test_ledgers_and_ranges_that_do_not_fit_are_named() -> None:
    internal, backlog = internal_of([5, 5], {0, 3})
    stats = {"subscriptions": {"s": {"msgBacklog": backlog}}}
    assert check_topic(internal, stats, {**internal, "numberOfEntries": 11}) == [
        "its ledgers hold 10 entries, the topic says 11"
    ]
    for ranges, sentence in (
        ("[(7:1..7:3],(7:2..7:4]]", "acknowledged 7:2..7:4 overlaps what lies before"),
        ("[(8:1..8:9]]", "acknowledged 8:1..8:9 lies outside the topic"),
        ("[(9:1..9:2]]", "acknowledged 9:1..9:2 lies outside the topic"),
    ):
        cursor = {"markDeletePosition": "7:0", "individuallyDeletedMessages": ranges}
        broken = {**internal, "cursors": {"s": cursor}}
        assert f"s: {sentence}" in check_topic(broken, stats, broken)


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        (f"spark-pulsar-{UUID}", True),
        (f"spark-pulsar-batch-{UUID}-persistent://public/default/t-partition-0", True),
        (f"spar-pulsar-{UUID}-persistent://public/default/t", True),
        ("spark-pulsar-nightly", False),
        (f"mine-spark-pulsar-{UUID}", False),
        (UUID, False),
    ],
)
def test_only_names_that_connectors_make_up_are_orphans(name: str, is_one: bool) -> None:
    assert is_orphan(name, 0, 25.0, 24) is is_one
    assert not is_orphan(name, 1, 25.0, 24)
    assert not is_orphan(name, 0, 23.0, 24)
    assert not is_orphan(name, 0, UNKNOWN, 24)
    assert is_orphan(name, 0, UNKNOWN, 0) is is_one


def test_a_subscription_that_was_never_used_has_no_age() -> None:
    internal, _ = internal_of([5], set())
    stats = {"topicCreationTimeStamp": 3 * HOUR_MS, "subscriptions": {"s": {"msgBacklog": 5}}}
    (row,) = rows_of("persistent://a/b/c-partition-1", stats, internal, 5 * HOUR_MS, 24)
    assert (row.idle_hours, row.unmoved_hours, row.base_topic) == (UNKNOWN, 2.0, "persistent://a/b/c")
    stats["subscriptions"] = {"s": {"msgBacklog": 5, "lastMarkDeleteAdvancedTimestamp": 4 * HOUR_MS}}
    (row,) = rows_of("persistent://a/b/c-partition-1", stats, internal, 5 * HOUR_MS, 24)
    assert (row.idle_hours, row.unmoved_hours) == (1.0, 1.0)
