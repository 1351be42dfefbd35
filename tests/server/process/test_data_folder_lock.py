"""Only one server can use a data folder; every other one ends with a sentence that says which process uses it."""

import os
from pathlib import Path

import pytest

from magnetar.server.process.data_folder_lock import LOCK_FILE, AlreadyInUseError, DataFolderLock


def test_second_lock_names_folder_and_pid(tmp_path: Path) -> None:
    lock = DataFolderLock(tmp_path / "data")
    with pytest.raises(AlreadyInUseError) as caught:
        DataFolderLock(tmp_path / "data")
    assert str(caught.value) == f"data folder {tmp_path / 'data'} is in use by pid {os.getpid()}"
    lock.release()


def test_released_lock_can_be_taken_again_over_a_stale_pid(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).write_text("99999999999999999999\n")
    lock = DataFolderLock(tmp_path)
    assert (tmp_path / LOCK_FILE).read_text() == f"{os.getpid()}\n"
    lock.release()
    DataFolderLock(tmp_path).release()


def test_a_folder_that_cannot_be_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=f"^data folder {tmp_path}/file: a file of that name is there$"):
        DataFolderLock(tmp_path / "file")
    with pytest.raises(OSError, match=f"^data folder {tmp_path}/file/below cannot be used: Not a directory$"):
        DataFolderLock(tmp_path / "file" / "below")
