"""The reserve of room for a start."""

import os
from pathlib import Path

import pytest

from compat_tests.small_disk import small_disk
from magnetar.storage.bookie.reserve import BYTES_MAX, FILE_NAME, Reserve

MB = 1 << 20


def sizes(*folders: Path) -> list[int | None]:
    paths = [folder / FILE_NAME for folder in folders]
    return [path.stat().st_size if path.exists() else None for path in paths]


def test_there_is_one_reserve_for_all_folders_of_a_disk(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    assert Reserve([str(first), str(second), str(tmp_path / "missing")]).restore()
    assert sizes(first, second) == [BYTES_MAX, None]


@pytest.mark.process
def test_a_full_disk_gets_the_room_of_its_reserve(tmp_path: Path) -> None:
    with small_disk(tmp_path, 32) as disk:
        reserve = Reserve([str(tmp_path)])
        assert reserve.restore()
        assert sizes(tmp_path) == [2 * MB]
        disk.fill(leave_bytes=2 * MB)
        reserve.release()
        assert sizes(tmp_path) == [2 * MB]
        disk.fill(leave_bytes=MB)
        reserve.release()
        assert sizes(tmp_path) == [0]
        status = os.statvfs(tmp_path)
        assert status.f_bavail * status.f_frsize == 3 * MB
        assert not reserve.restore()
        disk.empty()
        assert reserve.restore()
        assert sizes(tmp_path) == [2 * MB]


@pytest.mark.process
def test_a_disk_without_twice_the_room_gets_no_reserve(tmp_path: Path) -> None:
    with small_disk(tmp_path, 32) as disk:
        disk.fill(leave_bytes=3 * MB)
        assert not Reserve([str(tmp_path)]).restore()
        assert sizes(tmp_path) == [None]
