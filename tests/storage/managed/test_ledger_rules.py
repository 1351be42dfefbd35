"""When ledgers are closed."""

from dataclasses import replace
from typing import Any

import pytest

from magnetar.storage.managed import ledger_rules
from magnetar.storage.managed.ledger_list import LedgerInfo, LedgerList
from magnetar.storage.managed.ledger_rules import is_due, is_full
from magnetar.storage.managed.managed_ledger_config import MEBIBYTE, ManagedLedgerConfig

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
