"""The sentence about a start that a full disk has stopped."""

import errno
import os
from pathlib import Path

import pytest

from magnetar.server.programs.start_room import start_sentence


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "VERSION.new"),
        RuntimeError("the index cannot be opened: IO error: No space left on device"),
        RuntimeError("metadata.sqlite: cannot be written: database or disk is full (SQLITE_FULL)"),
    ],
)
def test_a_lack_of_room_names_the_disk_and_the_room_that_is_needed(error: Exception, tmp_path: Path) -> None:
    sentence = start_sentence(error, [tmp_path, tmp_path / "missing"])
    assert "a start needs up to 4 MB on the disk" in sentence
    assert f"{tmp_path} has " in sentence
    assert "missing" not in sentence


def test_another_fault_is_told_as_it_is(tmp_path: Path) -> None:
    assert start_sentence(ValueError("port 1 is in use"), [tmp_path]) == "port 1 is in use"
