"""The start is refused, with the reason, when a data folder belongs to another bookie or a part of it is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from magnetar.storage.bookie.bookie_errors import DirectoryInUse, DirectoryMismatch
from magnetar.storage.bookie.cookie import Cookie, parse_cookie
from tests.storage.bookie.helpers import folders


def two(folder: Path) -> dict[str, Any]:
    return {"ledger_directories": (str(folder / "one"), str(folder / "two"))}


def claim_and_release(folder: Path, **values: Any) -> bool:
    directories = folders(folder, **values)
    fresh = directories.claim()
    directories.make_own()
    directories.release()
    return fresh


def test_the_cookie_is_apaches_text() -> None:
    cookie = Cookie("127.0.0.1:3181", ("/j",), ("/a", "/b"), "uuid")
    assert cookie.format().decode() == (
        '5\nbookieHost: "127.0.0.1:3181"\njournalDir: "/j"\nledgerDirs: "2\\t/a\\t/b"\ninstanceId: "uuid"\n'
    )
    assert parse_cookie(cookie.format()) == cookie


@pytest.mark.parametrize("text", ["", "3\n", "5\nbookieHost: x\n", '5\nbookieHost: "b"\n', "\x00\xff"])
def test_a_damaged_cookie_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_cookie(text.encode("latin-1"))


def test_a_folder_may_be_the_root_of_a_volume(tmp_path: Path) -> None:
    (tmp_path / "ledgers" / "lost+found").mkdir(parents=True)
    assert claim_and_release(tmp_path)
    assert not claim_and_release(tmp_path)


def test_new_folders_are_made_and_recognised_again(tmp_path: Path) -> None:
    assert claim_and_release(tmp_path)
    assert not claim_and_release(tmp_path)
    assert sorted(os.listdir(tmp_path / "journal")) == ["LOCK", "VERSION"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [({"bookie_id": "b2"}, "belongs to bookie b1"), ({"instance_id": "i2"}, "cluster instance 'i1'")],
)
def test_the_folders_of_another_bookie_are_refused(tmp_path: Path, values: dict[str, str], reason: str) -> None:
    claim_and_release(tmp_path)
    with pytest.raises(DirectoryMismatch, match=reason):
        claim_and_release(tmp_path, **values)


def test_a_missing_folder_is_refused_and_not_made_anew(tmp_path: Path) -> None:
    claim_and_release(tmp_path, **two(tmp_path))
    (tmp_path / "one" / "0000.log").touch()
    shutil.rmtree(tmp_path / "two")
    with pytest.raises(DirectoryMismatch, match="is a disk not mounted"):
        claim_and_release(tmp_path, **two(tmp_path))
    assert not (tmp_path / "two").exists()


def test_another_number_of_ledger_folders_is_refused(tmp_path: Path) -> None:
    claim_and_release(tmp_path, **two(tmp_path))
    with pytest.raises(DirectoryMismatch, match="2 ledger directories"):
        claim_and_release(tmp_path, ledger_directories=(str(tmp_path / "one"),))


def test_files_without_a_cookie_are_somebody_elses(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "thesis.txt").touch()
    with pytest.raises(DirectoryMismatch, match=r"thesis\.txt"):
        claim_and_release(tmp_path)
    assert not (tmp_path / "ledgers").exists()


def test_a_first_start_that_broke_off_is_completed(tmp_path: Path) -> None:
    claim_and_release(tmp_path, **two(tmp_path))
    (tmp_path / "two" / "VERSION").unlink()
    claim_and_release(tmp_path, **two(tmp_path))
    assert (tmp_path / "two" / "VERSION").exists()


def test_a_damaged_cookie_file_is_named(tmp_path: Path) -> None:
    claim_and_release(tmp_path)
    (tmp_path / "journal" / "VERSION").write_bytes(b"junk")
    with pytest.raises(DirectoryMismatch, match="journal/VERSION"):
        claim_and_release(tmp_path)


def test_folders_that_another_process_made_its_own_meanwhile_are_in_use(tmp_path: Path) -> None:
    slow = folders(tmp_path)
    assert slow.claim()
    claim_and_release(tmp_path)
    with pytest.raises(DirectoryInUse):
        slow.make_own()
    slow.release()


def test_claiming_changes_nothing(tmp_path: Path) -> None:
    directories = folders(tmp_path / "before")
    directories.claim()
    directories.release()
    assert not (tmp_path / "before").exists()
    claim_and_release(tmp_path / "before")
    os.rename(tmp_path / "before", tmp_path / "after")
    cookie = tmp_path / "after" / "ledgers" / "VERSION"
    content = cookie.read_bytes()
    moved = folders(tmp_path / "after")
    moved.claim()
    assert cookie.read_bytes() == content
    moved.release()


def test_a_folder_that_was_moved_as_a_whole_is_accepted(tmp_path: Path) -> None:
    claim_and_release(tmp_path / "before")
    os.rename(tmp_path / "before", tmp_path / "after")
    assert not claim_and_release(tmp_path / "after")
    assert str(tmp_path / "after") in (tmp_path / "after" / "ledgers" / "VERSION").read_text()


@pytest.mark.process
def test_a_second_bookie_on_the_folders_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    script = (
        "import sys; from tests.storage.bookie.test_cookie import folders; from pathlib import Path;"
        "directories = folders(Path(sys.argv[1])); directories.claim(); directories.make_own();"
        "print('claimed', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"claimed\n"
        with pytest.raises(DirectoryInUse) as caught:
            claim_and_release(tmp_path)
        assert caught.value.pid == holder.pid
        holder.communicate(b"")
    assert not claim_and_release(tmp_path)
