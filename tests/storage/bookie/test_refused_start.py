"""A start that is refused leaves every file as it was, so it suffices to put back what is missing."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from magnetar.storage.bookie.bookie_errors import BookieStartError
from magnetar.storage.bookie.journal_format import BATCH_MAGIC, FILE_HEADER_SIZE
from tests.storage.bookie.helpers import add, files_of, flip_byte, open_bookie, read_all, running

LEDGERS = (2, 3)


def two_journals(folder: Path) -> dict[str, Any]:
    return {"journal_directories": (str(folder / "journal-a"), str(folder / "journal-b"))}


def content_of(folder: Path) -> dict[str, bytes | None]:
    """Returns every file with its bytes and every folder; process ids in lock files are left out."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.name != "LOCK"
    }


async def killed(folder: Path) -> Path:
    """Returns the folder of a bookie that was killed after a checkpoint and more adds, and then moved. A start would
    cut torn ends, write cookies and open an index."""
    before = folder / "before"
    async with running(before, **two_journals(before)) as bookie:
        for number in range(6):
            for ledger_id in LEDGERS:
                await add(bookie, ledger_id, [number], size=500)
            if number == 2:
                await bookie.checkpoint()
        shutil.copytree(before, folder / "after")
    shutil.rmtree(before)
    for journal in files_of(folder / "after", ".journal"):
        journal.write_bytes(journal.read_bytes() + b"a torn batch")
    return folder / "after"


def damage_the_last_journal(folder: Path) -> None:
    journal = files_of(folder, ".journal")[-1]
    flip_byte(journal, journal.read_bytes().find(BATCH_MAGIC, FILE_HEADER_SIZE + 2000) + 60)


def damage_the_mark(folder: Path) -> None:
    flip_byte(folder / "ledgers" / "lastMark", 20)


def lose_index_records(folder: Path) -> None:
    shutil.rmtree(folder / "ledgers" / "index")


def damage_the_index(folder: Path) -> None:
    (manifest,) = (folder / "ledgers" / "index").glob("MANIFEST-*")
    flip_byte(manifest, 30)


def lose_a_journal(folder: Path) -> None:
    files_of(folder, ".journal")[-1].unlink()


def lose_a_cookie(folder: Path) -> None:
    (folder / "journal-b" / "VERSION").unlink()


@pytest.mark.parametrize(
    "harm",
    [
        damage_the_last_journal,
        damage_the_mark,
        lose_index_records,
        damage_the_index,
        lose_a_journal,
        lose_a_cookie,
    ],
)
async def test_a_refused_start_changes_nothing_and_what_was_put_back_starts(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    folder = await killed(tmp_path)
    shutil.copytree(folder, tmp_path / "sound")
    harm(folder)
    harmed = content_of(folder)
    with pytest.raises(BookieStartError):
        await open_bookie(folder, **two_journals(folder))
    assert content_of(folder) == harmed
    shutil.rmtree(folder)
    os.rename(tmp_path / "sound", folder)
    async with running(folder, **two_journals(folder)) as bookie:
        for ledger_id in LEDGERS:
            assert len(await read_all(bookie, ledger_id, 0, 5)) == 6
