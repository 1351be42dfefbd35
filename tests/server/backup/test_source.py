"""A backup is of one moment, and tells what cannot be read."""

import asyncio
from pathlib import Path

import pytest

from magnetar.server.backup.backup_errors import BackupError, DamageError
from magnetar.server.backup.backup_folder import GrowingFile, read_manifest
from magnetar.server.backup.block_rules import block
from magnetar.server.backup.manifest_rules import FilePart
from magnetar.server.backup.receiving import Progress, warnings
from magnetar.server.backup.restoring import restore
from magnetar.server.backup.source import BACKUPS_MAX
from magnetar.server.backup.stream_rules import Frame, FrameReader, Kind
from magnetar.server.backup.verifying import verify
from magnetar.server.process.running import StartError
from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from magnetar.server.programs.storage_start import BOOKIE_ID
from pulsar_proto.checksum import crc32c
from pulsar_proto.wire.bookie_wire import BookieError
from tests.server.backup.scene import Scene, scene


async def frames_of(at: Scene, meanwhile: object = None) -> list[Frame]:
    """Returns a whole stream; awaits `meanwhile` when the first part has come."""
    reader, found = FrameReader(), list[Frame]()
    async for part in at.source.stream(b""):
        found += reader.feed(part)
        if asyncio.iscoroutine(meanwhile):
            await meanwhile
            meanwhile = None
    return found


def ledgers_in(frames: list[Frame]) -> dict[int, int]:
    return {each.fields()["ledger"]: each.fields()["last"] for each in frames if each.kind is Kind.LEDGER}


async def test_a_ledger_that_is_deleted_during_a_backup_is_in_it_and_goes_afterwards(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        first = await at.ledger(1, payload=b"x" * 100_000)
        doomed = await at.ledger(3)
        await at.bookie.checkpoint()

        async def delete() -> None:
            await at.client.delete_ledger(doomed)
            await at.bookie.collect_garbage()

        frames = await frames_of(at, delete())
        assert ledgers_in(frames) == {first: 0, doomed: 2}
        assert [each.kind for each in frames][-3:] == [Kind.LEDGER, Kind.ENTRIES, Kind.END]
        assert len(await at.bookie.read_entries(doomed, 0, 3, 1 << 20)) == 3
        await at.bookie.collect_garbage()
        with pytest.raises(BookieError):
            await at.bookie.read_entries(doomed, 0, 3, 1 << 20)


async def test_a_stream_that_is_left_early_holds_no_ledgers_any_more(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        doomed = await at.ledger(3, payload=b"x" * 100_000)
        stream = at.source.stream(b"")
        await anext(stream)
        await stream.aclose()
        await at.client.delete_ledger(doomed)
        await at.bookie.collect_garbage()
        assert doomed not in at.bookie.ledger_ids()


async def test_entries_of_a_later_moment_are_not_in_a_backup(tmp_path: Path) -> None:
    """Otherwise a cursor could be ahead of the messages. Half of the ledgers are in the index, half in the cache."""
    async with scene(tmp_path) as at:
        big = await at.ledger(1, payload=b"x" * 100_000)
        handles = [await at.client.create_ledger() for _ in range(4)]
        for handle in handles[:2]:
            await handle.add(b"before")
        await at.bookie.checkpoint()
        for handle in handles[2:]:
            await handle.add(b"before")

        async def add() -> None:
            for handle in handles:
                await handle.add(b"after")
            late = await at.client.create_ledger()
            await late.add(b"after")
            await at.bookie.checkpoint()

        found = ledgers_in(await frames_of(at, add()))
        assert found == {big: 0, **{handle.ledger_id: 0 for handle in handles}}


async def test_no_more_than_so_many_backups_are_under_way_at_once(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        await at.ledger(1, payload=b"x" * 100_000)
        streams = [at.source.stream(b"") for _ in range(BACKUPS_MAX)]
        for stream in streams:
            await anext(stream)
        (refusal,) = await frames_of(at)
        assert refusal.kind is Kind.FAULT
        for stream in streams:
            await stream.aclose()
        assert (await frames_of(at))[-1].kind is Kind.END


async def test_a_request_that_is_no_request_is_refused(tmp_path: Path) -> None:
    async with scene(tmp_path) as at:
        parts = [part async for part in at.source.stream(b"nonsense")]
        assert [each.kind for each in FrameReader().feed(b"".join(parts))] == [Kind.FAULT]


@pytest.mark.parametrize("is_closed", [True, False])
async def test_entries_that_cannot_be_read_are_told_and_those_behind_them_come_back(
    tmp_path: Path, is_closed: bool
) -> None:
    async with scene(tmp_path / "data") as at:
        handle = await at.client.create_ledger()
        await handle.add(b"first")
        # Neither of these two says that the other one is confirmed, so recovery has to read both. Each fills a block.
        await asyncio.gather(handle.add(b"lost" * 20_000), handle.add(b"last" * 20_000))
        await at.bookie.checkpoint()
        (log,) = (tmp_path / "data" / "ledgers").glob("*.log")
        content = bytearray(log.read_bytes())
        content[content.index(b"lost")] ^= 1
        log.write_bytes(content)
        if is_closed:
            await handle.close()
        outcome = await at.back_up(tmp_path / "backup")
        assert outcome.manifest.ledgers[handle.ledger_id].missing == ((1, 1),)
        assert warnings(outcome) == [
            f"the server could not read entries 1 to 1 of ledger {handle.ledger_id}; the backup lacks them"
        ]
    await restore(tmp_path / "backup", tmp_path / "restored", BOOKIE_ID, Progress(None))
    async with scene(tmp_path / "restored") as back:
        opened = await back.client.open_ledger(handle.ledger_id)
        assert opened.last_add_confirmed == 2
        assert (await opened.read(0, 0))[0].endswith(b"first")
        assert (await opened.read(2, 2))[0].endswith(b"lastlast")


async def test_damage_is_told_with_file_and_offset(tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    async with scene(tmp_path / "data") as at:
        ledger_id = await at.ledger(40, payload=b"x" * 10_000)
        await at.back_up(folder)
    manifest = read_manifest(folder)
    files = [folder / manifest.records.name, folder / "ledgers" / manifest.ledgers[ledger_id].part.name]
    for path in files:
        content = path.read_bytes()
        for at_byte in range(0, len(content), len(content) // 40):
            path.write_bytes(content[:at_byte] + bytes([content[at_byte] ^ 4]) + content[at_byte + 1 :])
            (damage,) = verify(folder)[1]
            assert damage.file in (path.name, f"ledgers/{path.name}")
            assert damage.offset <= at_byte < damage.offset + 300_000
        for size in (0, 5, len(content) // 2, len(content) - 1):
            path.write_bytes(content[:size])
            (damage,) = verify(folder)[1]
            assert "ends at" in str(damage)
        path.unlink()
        (damage,) = verify(folder)[1]
        assert str(damage) == f"{damage.file} is damaged at offset 0: the file is missing"
        with pytest.raises(DamageError):
            await restore(folder, tmp_path / "restored", BOOKIE_ID, Progress(None))
        assert not (tmp_path / "restored").exists()
        path.write_bytes(content + b"left behind by a backup that broke off")
        assert verify(folder)[1] == []


async def test_a_whole_file_with_other_content_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "backup"
    async with scene(tmp_path / "data") as at:
        ledger_id = await at.ledger(1)
        await at.back_up(folder)
    path = folder / "ledgers" / read_manifest(folder).ledgers[ledger_id].part.name
    path.write_bytes(block(path.read_bytes()[8:-1] + b"?"))
    (damage,) = verify(folder)[1]
    assert "does not fit the checksum in the manifest" in str(damage)


def test_content_that_a_broken_backup_left_behind_is_cut_off(tmp_path: Path) -> None:
    file = GrowingFile(tmp_path / "3-1.entries", "3-1.entries", FilePart("3-1.entries"))
    file.append(b"known")
    known = file.close()
    file.confirm()
    (tmp_path / "3-1.entries").write_bytes(b"known and much more")
    grown = GrowingFile(tmp_path / "3-1.entries", "3-1.entries", known)
    grown.append(b" new")
    assert grown.close() == FilePart("3-1.entries", 9, crc32c(b"known new"))
    grown.confirm()
    assert (tmp_path / "3-1.entries").read_bytes() == b"known new"
    (tmp_path / "3-1.entries").write_bytes(b"known old")
    with pytest.raises(BackupError, match="does not return what was written"):
        grown.confirm()


async def test_a_restore_that_broke_off_leaves_a_folder_on_which_no_server_starts(tmp_path: Path) -> None:
    async with scene(tmp_path / "data") as at:
        await at.ledger(3)
        await at.back_up(tmp_path / "backup")
    await restore(tmp_path / "backup", tmp_path / "restored", BOOKIE_ID, Progress(None))
    (tmp_path / "restored" / "metadata.sqlite").unlink()
    (tmp_path / "restored" / "ledgers" / "metadataWitness").unlink()

    server = Standalone(StandaloneOptions(data_dir=tmp_path / "restored", broker_port=0, web_port=0))
    with pytest.raises(StartError, match="belongs to one"):
        await server.start()
    await server.stop()
    with pytest.raises(BackupError, match="is not empty"):
        await restore(tmp_path / "backup", tmp_path / "restored", BOOKIE_ID, Progress(None))
