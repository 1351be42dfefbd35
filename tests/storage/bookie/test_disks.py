"""When a disk counts as full, when as usable again, and what may be written meanwhile."""

from pathlib import Path

import pytest

from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.bookie.disks import BookieMode, DiskRules, DiskUsage, may_change, measure

MB = 1 << 20


def rules() -> DiskRules:
    return DiskRules(
        BookieConfig(
            journal_directories=("j",),
            ledger_directories=("l",),
            disk_usage_threshold=0.95,
            disk_usage_lwm_threshold=0.9,
            disk_usage_warn_threshold=0.85,
            min_usable_size_for_writes_mb=16,
            min_usable_size_for_high_priority_writes=64 * MB,
        )
    )


@pytest.mark.parametrize(
    ("share", "free", "full", "usable"),
    [
        (0.5, 99 * MB, False, True),
        (0.92, 99 * MB, False, False),
        (0.96, 99 * MB, True, False),
        (0.5, 9 * MB, False, False),
    ],
)
def test_between_the_marks_neither_full_nor_usable_again(share: float, free: int, full: bool, usable: bool) -> None:
    usage = DiskUsage(free, share)
    assert rules().is_full(usage) is full
    assert rules().is_usable_again(usage) is usable


def test_a_disk_without_room_for_the_reserve_of_a_start_is_full_at_any_share() -> None:
    usage = DiskUsage(99 * MB, 0.5, reserve_is_whole=False)
    assert rules().is_full(usage)
    assert not rules().is_usable_again(usage)
    assert "reserve" in usage.sentence()


def test_recovery_and_compaction_have_their_own_limits() -> None:
    assert rules().takes_high_priority(DiskUsage(65 * MB, 0.99))
    assert not rules().takes_high_priority(DiskUsage(63 * MB, 0.99))
    assert rules().may_compact(DiskUsage(0, 0.85))
    assert not rules().may_compact(DiskUsage(0, 0.86))


@pytest.mark.parametrize(
    ("share", "free", "kept"),
    [(0.9, 1024 * MB, True), (0.91, 1024 * MB, False), (0.9, 1023 * MB, False)],
)
def test_journals_are_kept_to_be_written_over_while_eight_more_have_room(share: float, free: int, kept: bool) -> None:
    assert rules().may_keep_spares(DiskUsage(free, share)) is kept


def test_a_failed_bookie_only_closes() -> None:
    assert [mode for mode in BookieMode if may_change(BookieMode.FAILED, mode)] == [BookieMode.CLOSED]
    assert [mode for mode in BookieMode if may_change(BookieMode.CLOSED, mode)] == []
    assert may_change(BookieMode.READ_ONLY, BookieMode.WRITABLE)


def test_measuring_reads_the_fullest_disk(tmp_path: Path) -> None:
    usage = measure([str(tmp_path), str(tmp_path)])
    assert usage.free_bytes > 0
    assert 0 < usage.used_share <= 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("journal_max_size_mb", 0),
        ("flush_interval", -1),
        ("disk_usage_threshold", 1.5),
        ("journal_directories", ("",)),
        ("ledger_directories", ("l", "l")),
        ("disk_usage_lwm_threshold", 0.995),
    ],
)
def test_a_bad_setting_is_named(field: str, value: object) -> None:
    settings: dict[str, object] = {"journal_directories": ("j",), "ledger_directories": ("l",)}
    with pytest.raises(ValueError, match=field.rsplit("_", 1)[0]):
        BookieConfig(**settings | {field: value})  # type: ignore[arg-type]
