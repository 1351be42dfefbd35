"""How an audit reads: sizes, times, and tables whose columns line up."""

import pytest

from magnetar.spark.jobs.audit.audit_rules import UNKNOWN, rows_of
from magnetar.spark.jobs.audit.audit_text import (
    hours_text,
    size_text,
    subscriptions_table,
    table,
    tenants_table,
    time_text,
)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (12_345_678, "12.3 MB"), (999_999, "1.0 MB"), (5e18, "5000.0 PB")],
)
def test_sizes_have_a_unit(count: float, text: str) -> None:
    assert size_text(count) == text


@pytest.mark.parametrize(
    ("hours", "text"),
    [(UNKNOWN, "unknown"), (0.0125, "45 s"), (0.2, "12 min"), (5.5, "5.5 h"), (47.9, "47.9 h"), (77, "3.2 d")],
)
def test_lengths_of_time_have_a_unit(hours: float, text: str) -> None:
    assert hours_text(hours) == text


def test_a_time_is_a_date_in_utc() -> None:
    assert time_text(1_700_000_000_999) == "2023-11-14 22:13:20 UTC"


def test_columns_are_as_wide_as_they_need_and_names_cannot_move_the_cursor() -> None:
    text = table(("topic", "backlog"), [("a\x1b[2Jb", "1,234"), ("c", "5")])
    assert text.splitlines() == [
        "topic      backlog",
        "a\\x1b[2Jb    1,234",
        "c                5",
    ]


def test_an_audit_is_two_tables() -> None:
    stats = {"storageSize": 12_345, "msgInCounter": 50, "bytesInCounter": 12_345}
    subscriptions = {name: {"msgBacklog": backlog} for name, backlog in (("few", 5), ("many", 50))}
    rows = rows_of("persistent://t/n/orders", {**stats, "subscriptions": subscriptions}, {"numberOfEntries": 50}, 0, 24)
    rows += rows_of("persistent://t/n/empty", {}, {"numberOfEntries": 0}, 0, 24)
    heading, *lines = (line.split() for line in subscriptions_table(rows).splitlines())
    assert heading == ["topic", "subscription", "backlog", "holes", "stored", "skew", "idle"]
    assert lines == [
        ["persistent://t/n/orders", "many", "50", "0", "12.3", "kB", "1.0", "unknown"],
        ["persistent://t/n/orders", "few", "5", "0", "12.3", "kB", "1.0", "unknown"],
        ["persistent://t/n/empty", "(none)", "0", "0", "0", "B", "1.0"],
    ]
    assert " ".join(tenants_table(rows).splitlines()[1].split()) == "t 2 50 12.3 kB 12.3 kB 50 0 B 0"
