"""Bits that flip on disk while the bookie is down are found and reported, and never answered as data."""

import os
import shutil
from collections.abc import Awaitable
from pathlib import Path

import pytest

from magnetar.storage.bookie.bookie_errors import IndexDamaged, JournalDamaged
from magnetar.storage.bookie.file_inspection import SeenBlock, read_entry_log
from pulsar_proto.wire.bookie_wire import BookieError, BookieRc
from tests.storage.bookie.helpers import add, entries_of, files_of, flip_byte, open_bookie, read_all, running

COUNT = 400


async def written(folder: Path, *, checkpoint: bool) -> None:
    """Leaves the folder `copy` as a kill would leave it: a copy of a running bookie's folder."""
    bookie = await open_bookie(folder / "live")
    for first in range(0, COUNT, 20):
        await add(bookie, 1, range(first, first + 20), size=500)
    if checkpoint:
        await bookie.checkpoint()
    shutil.copytree(folder / "live", folder / "killed")
    await bookie.close()
    shutil.copytree(folder / "killed", folder / "copy")


async def test_a_flipped_bit_in_an_entry_log_is_named_and_the_rest_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await written(tmp_path, checkpoint=True)
    log = files_of(tmp_path / "copy", ".log")[0]
    flip_byte(log, log.stat().st_size // 2)
    async with running(tmp_path / "copy") as bookie:
        codes = [await code_of(bookie.read_entry(1, entry_id)) for entry_id in range(COUNT)]
        assert set(codes) == {BookieRc.EOK, BookieRc.EIO}
        assert codes.count(BookieRc.EIO) < COUNT / 2
        for entry_id in range(COUNT):
            if codes[entry_id] is BookieRc.EOK:
                assert await bookie.read_entry(1, entry_id) == entries_of(1, [entry_id], 500)[0]
        first_bad = codes.index(BookieRc.EIO)
        run = await bookie.read_entries(1, first_bad - 3, 10, 1 << 20)
        assert run == entries_of(1, range(first_bad - 3, first_bad), 500)
    messages = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert str(log) in messages[0]
    assert "offset" in messages[0]


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.98])
async def test_a_flipped_bit_in_the_journal_is_found(tmp_path: Path, share: float) -> None:
    await written(tmp_path, checkpoint=False)
    journal = files_of(tmp_path / "copy", ".journal")[0]
    offset = int(journal.stat().st_size * share)
    flip_byte(journal, offset)
    if share < 0.9:
        with pytest.raises(JournalDamaged) as caught:
            await open_bookie(tmp_path / "copy")
        assert caught.value.file == str(journal)
        assert caught.value.offset <= offset
    else:
        # Damage in the last batch looks like a torn write, so that batch is cut off, and the log says so.
        async with running(tmp_path / "copy") as bookie:
            assert await read_all(bookie, 1, 0, COUNT - 21) == entries_of(1, range(COUNT - 20), 500)


async def test_a_refused_start_leaves_the_folders_free_and_unchanged(tmp_path: Path) -> None:
    await written(tmp_path, checkpoint=False)
    journal = files_of(tmp_path / "copy", ".journal")[0]
    flip_byte(journal, 3000)
    before = journal.read_bytes()
    for _ in range(2):
        with pytest.raises(JournalDamaged):
            await open_bookie(tmp_path / "copy")
    assert journal.read_bytes() == before
    flip_byte(journal, 3000)
    async with running(tmp_path / "copy") as bookie:
        assert await read_all(bookie, 1, 0, COUNT - 1) == entries_of(1, range(COUNT), 500)


async def test_a_start_that_skips_the_damage_needs_no_second_one(tmp_path: Path) -> None:
    await written(tmp_path, checkpoint=False)
    journal = files_of(tmp_path / "copy", ".journal")[0]
    flip_byte(journal, journal.stat().st_size // 2)
    async with running(tmp_path / "copy", skip_damaged_journal=True) as bookie:
        lost = [i for i in range(COUNT) if not await readable(bookie.read_entry(1, i))]
        assert 0 < len(lost) <= 20
        await bookie.checkpoint()
    async with running(tmp_path / "copy") as bookie:
        assert [i for i in range(COUNT) if not await readable(bookie.read_entry(1, i))] == lost


async def readable(read: Awaitable[bytes]) -> bool:
    return await code_of(read) is BookieRc.EOK


async def code_of(read: Awaitable[object]) -> BookieRc:
    try:
        await read
    except BookieError as error:
        return error.rc
    return BookieRc.EOK


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8, 0.99])
async def test_a_flipped_bit_in_the_index_loses_nothing_silently(tmp_path: Path, share: float) -> None:
    await written(tmp_path, checkpoint=True)
    index = tmp_path / "copy" / "ledgers" / "index"
    damaged = [path for path in index.iterdir() if path.suffix in (".log", ".sst") or "MANIFEST" in path.name]
    for path in damaged:
        shutil.rmtree(tmp_path / "copy")
        shutil.copytree(tmp_path / "killed", tmp_path / "copy")
        if size := path.stat().st_size:
            flip_byte(path, min(int(size * share), size - 1))
            await refuses_or_reads_everything(tmp_path / "copy")


async def refuses_or_reads_everything(folder: Path) -> None:
    bookie, refusal = None, ""
    try:
        bookie = await open_bookie(folder)
    except IndexDamaged as error:
        refusal = str(error)
    if bookie is None:
        assert str(folder / "ledgers" / "index") in refusal
        return
    try:
        for entry_id in range(COUNT):
            if await code_of(bookie.read_entry(1, entry_id)) is not BookieRc.EIO:
                assert await bookie.read_entry(1, entry_id) == entries_of(1, [entry_id], 500)[0]
    finally:
        await bookie.close()


async def test_a_missing_entry_log_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await written(tmp_path, checkpoint=True)
    log = files_of(tmp_path / "copy", ".log")[0]
    os.unlink(log)
    async with running(tmp_path / "copy") as bookie:
        with pytest.raises(BookieError) as caught:
            await bookie.read_entry(1, 0)
        assert caught.value.rc == BookieRc.EIO
    assert log.name in caplog.text


async def test_an_entry_log_that_is_cut_loses_only_what_was_cut_off(tmp_path: Path) -> None:
    """Reading ahead reaches beyond the file's end; what is before the end is read all the same."""
    await written(tmp_path, checkpoint=True)
    log = files_of(tmp_path / "copy", ".log")[0]
    blocks = [found for found in read_entry_log(str(log)) if isinstance(found, SeenBlock)]
    os.truncate(log, blocks[-1].offset + 10)
    first_lost = blocks[-1].block.ids[0]
    assert first_lost > 0
    async with running(tmp_path / "copy") as bookie:
        assert await read_all(bookie, 1, 0, first_lost - 1) == entries_of(1, range(first_lost), 500)
        assert await code_of(bookie.read_entry(1, first_lost)) is BookieRc.EIO


async def test_a_lost_entry_log_can_be_put_back_after_the_bookie_went_on_without_it(tmp_path: Path) -> None:
    await written(tmp_path, checkpoint=True)
    log = files_of(tmp_path / "copy", ".log")[-1]
    log.rename(tmp_path / "lost")
    async with running(tmp_path / "copy") as bookie:
        await add(bookie, 2, range(50), size=500)
        await bookie.checkpoint()
        assert not log.exists(), "its name was given to another one"
    (tmp_path / "lost").rename(log)
    async with running(tmp_path / "copy") as bookie:
        assert await read_all(bookie, 1, 0, COUNT - 1) == entries_of(1, range(COUNT), 500)
        assert await read_all(bookie, 2, 0, 49) == entries_of(2, range(50), 500)
