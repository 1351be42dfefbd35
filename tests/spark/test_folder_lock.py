"""Two runs in one folder would write over each other: the second one is refused."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from magnetar.spark.jobs.folder_lock import hold_folder, release_folders
from magnetar.spark.jobs.job_session import guarded
from magnetar.spark.jobs.storage.storage_rules import LOCK_FILE, FolderInUse

HOLD = (
    "import sys, pathlib; from magnetar.spark.jobs.folder_lock import hold_folder; "
    "hold_folder(pathlib.Path(sys.argv[1])); print(1); input()"
)


@pytest.mark.process
def test_a_folder_has_one_run_until_that_ends_or_is_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "checkpoint"

    def held(argv: Sequence[str]) -> int:
        hold_folder(folder)
        return 0

    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.read(1) == b"1"
        assert guarded("job", held, []) == 1
        assert f"another run works in {folder}: wait for its end" in capsys.readouterr().err
        other.kill()
    assert guarded("job", held, []) == 0  # the lock is released at the end of a job
    hold_folder(folder)
    release_folders()
    assert [path.name for path in folder.iterdir()] == [LOCK_FILE]


def test_a_run_holds_several_folders(tmp_path: Path) -> None:
    hold_folder(tmp_path / "one")
    hold_folder(tmp_path / "two")
    with pytest.raises(FolderInUse):
        hold_folder(tmp_path / "one")
    release_folders()
    hold_folder(tmp_path / "one")
    release_folders()
