"""When ledgers are closed and deleted."""

from dataclasses import replace
from typing import Any

import pytest

from magnetar.storage.managed import ledger_rules
from magnetar.storage.managed.ledger_list import LedgerInfo, LedgerList
from magnetar.storage.managed.ledger_rules import Trim, choose_trim, is_due, is_full
from magnetar.storage.managed.managed_ledger_config import MEBIBYTE, ManagedLedgerConfig
from pulsar_proto.ids import Position

CONFIG = ManagedLedgerConfig()
MINUTE_S = 60
MINUTE_MS = 60_000
NOW_MS = 1_000 * MINUTE_MS


def three_and_current(entries: int = 4) -> LedgerList:
    """Returns ledgers 1, 2, 3 of 4 entries and 1 MiB, closed 30, 20 and 10 minutes ago; ledger 4 is open."""
    ledgers = LedgerList(LedgerInfo(n, 4, MEBIBYTE, NOW_MS - (40 - 10 * n) * MINUTE_MS) for n in (1, 2, 3))
    ledgers.add(4)
    if entries:
        ledgers.grow(entries, MEBIBYTE)
    return ledgers


def trim(slowest: Position | None, minutes: int = 0, megabytes: int = 0) -> Trim:
    config = replace(CONFIG, retention_time_minutes=minutes, retention_size_mb=megabytes)
    return choose_trim(config, three_and_current(), slowest, NOW_MS)


@pytest.mark.parametrize(
    ("entries", "size", "age_minutes", "full"),
    [
        (49_999, 0, 200, False),
        (50_000, 0, 9, False),
        (50_000, 0, 10, True),
        (1, 2048 * MEBIBYTE - 1, 200, False),
        (1, 2048 * MEBIBYTE, 10, True),
        (1, 0, 239, False),
        (1, 0, 240, True),
        (0, 0, 500, False),
    ],
)
def test_full_by_entries_size_or_age_but_not_before_the_minimum_age(
    entries: int, size: int, age_minutes: int, full: bool
) -> None:
    assert is_full(CONFIG, entries, size, age_minutes * MINUTE_S) is full


def test_a_consumed_idle_ledger_is_due_at_the_minimum_age() -> None:
    ledgers, idle = three_and_current(), ledger_rules.IDLE_SECONDS
    assert is_due(CONFIG, ledgers, 10 * MINUTE_S, idle, consumed=True)
    assert not is_due(CONFIG, ledgers, 10 * MINUTE_S, idle, consumed=False)
    assert not is_due(CONFIG, ledgers, 10 * MINUTE_S, idle - 1, consumed=True)
    assert not is_due(CONFIG, ledgers, 9 * MINUTE_S, idle, consumed=True)
    assert not is_due(CONFIG, three_and_current(0), 999 * MINUTE_S, idle, consumed=True)
    forever = replace(CONFIG, retention_time_minutes=-1, retention_size_mb=-1)
    assert not is_due(forever, ledgers, 10 * MINUTE_S, idle, consumed=True), "closing it frees nothing"


def test_an_inactive_ledger_is_due_when_so_configured() -> None:
    config = replace(CONFIG, managed_ledger_inactive_ledger_rollover_time_seconds=30)
    assert is_due(config, three_and_current(), 31, 30, consumed=False)
    assert not is_due(config, three_and_current(), 31, 29.9, consumed=False)


@pytest.mark.parametrize(
    ("slowest", "expected"),
    [
        (Position(1, -1), ()),
        (Position(1, 2), ()),
        (Position(1, 3), (1,)),
        (Position(2, 0), (1,)),
        (Position(2, 3), (1, 2)),
        (Position(4, 3), (1, 2, 3)),
        (Position(0, 7), ()),
        (None, (1, 2, 3)),
    ],
)
def test_without_retention_everything_that_the_slowest_cursor_passed_goes(
    slowest: Position | None, expected: tuple[int, ...]
) -> None:
    assert trim(slowest).ledger_ids == expected


@pytest.mark.parametrize(("minutes", "expected"), [(-1, ()), (5, (1, 2, 3)), (15, (1, 2)), (30, ()), (29, (1,))])
def test_retention_by_time_counts_from_the_close_of_the_ledger(minutes: int, expected: tuple[int, ...]) -> None:
    assert trim(None, minutes, -1).ledger_ids == expected


@pytest.mark.parametrize(("megabytes", "expected"), [(-1, ()), (4, ()), (3, (1,)), (2, (1, 2)), (1, (1, 2, 3))])
def test_retention_by_size_keeps_at_least_so_much(megabytes: int, expected: tuple[int, ...]) -> None:
    assert trim(None, -1, megabytes).ledger_ids == expected


def test_either_limit_of_retention_is_enough() -> None:
    assert trim(None, 1000, 3).ledger_ids == (1,)
    assert trim(None, 15, 1000).ledger_ids == (1, 2)
    assert trim(Position(2, 0), 15, 1000).ledger_ids == (1,), "but never what a cursor needs"


def test_what_holds_the_rest_is_said() -> None:
    assert trim(Position(1, 0)).held_by == "cursor"
    assert trim(None, -1, -1).held_by == "retention"
    assert trim(None).held_by == "current"
    nothing_open = LedgerList([LedgerInfo(1, 4, 10, NOW_MS)])
    assert choose_trim(CONFIG, nothing_open, None, NOW_MS) == Trim((), "last")
    assert choose_trim(CONFIG, nothing_open, Position(1, 3), NOW_MS) == Trim((1,), None)


def test_the_last_ledger_of_a_terminated_topic_stays_as_long_as_an_idle_open_one() -> None:
    end = Position(2, 3)

    def trim_after(minutes: int, slowest: Position | None = end) -> Trim:
        ledgers = LedgerList(LedgerInfo(n, 4, 10, NOW_MS) for n in (1, 2))
        return choose_trim(CONFIG, ledgers, slowest, NOW_MS + minutes * MINUTE_MS, terminated=end)

    assert trim_after(0) == trim_after(9) == Trim((1,), "end")
    assert trim_after(10) == Trim((1, 2), None)
    assert trim_after(1_000, None) == Trim((1,), "last"), "nobody has read it"


@pytest.mark.parametrize(
    "change",
    [
        {"managed_ledger_default_ack_quorum": 2},
        {"managed_ledger_default_ensemble_size": 0},
        {"managed_ledger_max_entries_per_ledger": 0},
        {"retention_time_minutes": -2},
        {"managed_ledger_cursor_max_entries_per_ledger": 1},
    ],
)
def test_settings_out_of_bounds_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        replace(CONFIG, **change)


@pytest.mark.parametrize(("ttl_minutes", "expected"), [(0, 10), (3, 13), (10, 10), (60, 10)])
def test_a_time_to_live_that_is_shorter_than_the_retention_is_added_to_it(ttl_minutes: int, expected: int) -> None:
    """An expired message is kept as long as an acknowledged one. While it is not expired, the cursors hold its
    ledger."""
    config = replace(CONFIG, retention_time_minutes=10, message_ttl_seconds=ttl_minutes * 60)
    assert config.retention_ms == expected * 60_000
    assert replace(config, retention_time_minutes=-1).retention_ms < 0
    assert replace(config, retention_time_minutes=0).retention_ms == 0
