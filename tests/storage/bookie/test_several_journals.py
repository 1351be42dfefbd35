"""Several journal and ledger directories: the adds of a ledger go to one journal, and each journal is replayed from its
own mark."""

import errno
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from magnetar.storage.bookie.bookie_errors import BookieStartError, DirectoryMismatch, JournalMissing
from magnetar.storage.bookie.disks import BookieMode
from magnetar.storage.bookie.index_manifest import Manifest
from magnetar.storage.bookie.journal_format import JournalPosition
from magnetar.storage.bookie.last_mark import LastMark, LastMarkFile
from pulsar_proto.wire.bookie_wire import BookieRc, ReadFlags
from tests.storage.bookie.faults import Faults
from tests.storage.bookie.helpers import KEY, add, entries_of, files_of, open_bookie, read_all, running

JOURNALS = 3
LEDGERS = range(7)


def several(folder: Path, journals: int = JOURNALS, **values: Any) -> dict[str, Any]:
    return {
        "journal_directories": tuple(str(folder / f"journal{number}") for number in range(journals)),
        "ledger_directories": (str(folder / "one"), str(folder / "two")),
        **values,
    }


async def fill(folder: Path, copy: Path, *, checkpoint: bool) -> None:
    """Adds to all ledgers, with a checkpoint in between if asked for, and copies the folder as a kill would leave
    it."""
    async with running(folder, **several(folder)) as bookie:
        for ledger_id in LEDGERS:
            assert await add(bookie, ledger_id, range(10)) == BookieRc.EOK
        if checkpoint:
            await bookie.checkpoint()
        for ledger_id in LEDGERS:
            assert await add(bookie, ledger_id, range(10, 20)) == BookieRc.EOK
        await bookie.read_entry(4, 0, ReadFlags.FENCING, KEY)
        shutil.copytree(folder, copy)


@pytest.mark.parametrize("checkpoint", [False, True])
async def test_all_ledgers_survive_a_kill(tmp_path: Path, checkpoint: bool) -> None:
    await fill(tmp_path / "live", tmp_path / "killed", checkpoint=checkpoint)
    async with running(tmp_path / "killed", **several(tmp_path / "killed")) as bookie:
        for ledger_id in LEDGERS:
            assert await read_all(bookie, ledger_id, 0, 19) == entries_of(ledger_id, range(20))
        assert await add(bookie, 4, range(20, 21)) == BookieRc.EFENCED
        assert await add(bookie, 5, range(20, 21)) == BookieRc.EOK


async def test_a_ledgers_adds_all_go_to_the_journal_that_its_id_names(tmp_path: Path) -> None:
    sizes: list[dict[str, int]] = []
    async with running(tmp_path, **several(tmp_path)) as bookie:
        for ledger_id in (4, 7):
            sizes.append({path.parent.name: path.stat().st_size for path in files_of(tmp_path, ".journal")})
            await add(bookie, ledger_id, range(10))
        sizes.append({path.parent.name: path.stat().st_size for path in files_of(tmp_path, ".journal")})
    for before, after in pairwise(sizes):
        assert {name for name in after if after[name] > before[name]} == {"journal1"}


async def test_a_checkpoint_moves_every_mark_and_drops_what_stands_before(tmp_path: Path) -> None:
    settings = several(tmp_path, journal_max_size_mb=1)
    async with running(tmp_path, **settings) as bookie:
        for number in range(30):
            for ledger_id in range(JOURNALS):
                await add(bookie, ledger_id, range(number * 100, number * 100 + 100), size=1000)
        await bookie.checkpoint()
        first_ids = {path.parent.name: path.name for path in reversed(files_of(tmp_path, ".journal"))}
        assert len(first_ids) == JOURNALS
        assert all(name > "0000000000000002" for name in first_ids.values())
    mark = LastMarkFile(str(tmp_path / "one" / "lastMark")).load()
    assert mark is not None
    assert [position.journal_id > 2 for position in mark.positions] == [True] * JOURNALS


async def test_a_missing_journal_is_noticed_though_the_others_are_there(tmp_path: Path) -> None:
    await fill(tmp_path / "live", tmp_path / "killed", checkpoint=False)
    (lost,) = files_of(tmp_path / "killed" / "journal1", ".journal")
    lost.unlink()
    with pytest.raises(JournalMissing, match="journal1"):
        await open_bookie(tmp_path / "killed", **several(tmp_path / "killed"))


@pytest.mark.parametrize("count", [2, 4])
async def test_another_number_of_journals_is_refused(tmp_path: Path, count: int) -> None:
    """With another number of journals a ledger would be searched for in the wrong one."""
    async with running(tmp_path, **several(tmp_path)) as bookie:
        await add(bookie, 1, range(3))
    with pytest.raises(DirectoryMismatch, match="journal directories"):
        await open_bookie(tmp_path, **several(tmp_path, journals=count))


async def test_one_journals_failed_sync_ends_all_writes(tmp_path: Path) -> None:
    faults = Faults()
    bookie = await open_bookie(tmp_path, open_file=faults.open, **several(tmp_path))
    (journal,) = files_of(tmp_path / "journal1", ".journal")
    faults.only_path_ending = str(journal)
    faults.sync_error = errno.EIO
    assert await add(bookie, 0, range(5)) == BookieRc.EOK
    assert await add(bookie, 1, range(5)) == BookieRc.EIO
    assert bookie.mode is BookieMode.FAILED
    assert await add(bookie, 0, range(5, 6)) == BookieRc.EIO
    assert await read_all(bookie, 0, 0, 4) == entries_of(0, range(5))
    faults.sync_error = None
    await bookie.close()


def test_a_mark_of_several_journals_reads_back_and_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lastMark"
    mark = LastMark((JournalPosition(1, 64, 1), JournalPosition(7, 1 << 40, 12)), 99, Manifest(3, 4, 5), 6)
    LastMarkFile(str(path)).save(mark)
    assert LastMarkFile(str(path)).load() == mark
    data = path.read_bytes()
    for damaged in (data[:-1], b"", data[:20] + b"x" + data[21:]):
        path.write_bytes(damaged)
        with pytest.raises(BookieStartError, match="lastMark is damaged"):
            LastMarkFile(str(path)).load()


async def test_entry_logs_are_spread_over_the_ledger_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = {"one": 2, "two": 1}
    monkeypatch.setattr("magnetar.storage.bookie.entry_logs._free_bytes", lambda directory: room[Path(directory).name])
    async with running(tmp_path, **several(tmp_path)) as bookie:
        await add(bookie, 1, range(3))
        await bookie.checkpoint()
    room["two"] = 3
    async with running(tmp_path, **several(tmp_path)) as bookie:
        await add(bookie, 1, range(3, 6))
        await bookie.checkpoint()
        assert {path.parent.name for path in files_of(tmp_path, ".log")} == {"one", "two"}
        assert await read_all(bookie, 1, 0, 5) == entries_of(1, range(6))
