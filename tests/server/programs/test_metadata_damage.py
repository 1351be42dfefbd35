"""Metadata and ledgers of a standalone server that do not fit each other: the server does not start, changes nothing,
and says what to do.

The independent record of receipts is `TOPICS`: all that was acknowledged is there, or the server refuses to start.
"""

import asyncio
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from compat_tests.harness import Server
from magnetar.metadata.embedded.embedded_store import EmbeddedStore
from magnetar.metadata.embedded.record_file import RecordFile
from magnetar.metadata.embedded.record_rows import RECORDS
from magnetar.metadata.embedded.stored_metadata import PAGE_BYTES, read_stored
from magnetar.metadata.embedded.write_ahead_log import read_log
from magnetar.server.process.running import StartError
from magnetar.server.programs import storage_start
from magnetar.storage.bookie.bookie import Bookie
from tests.server.receipt_site import Site, check, content_of, publish

TOPICS = [f"persistent://public/default/t{number}" for number in range(6)]
EARLY = TOPICS[:3]
"""The topics that the older copies know."""

Harm = Callable[[Path, Path], None]
"""Takes the data folder and the folder with the older copies."""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes three data folders. `now` is that of a server that was killed after its last receipt, `old` the same one
    when only the topics EARLY were there, and `other` that of another server."""
    folder = tmp_path_factory.mktemp("images")

    async def make() -> None:
        async with Site(folder / "other") as site:
            for topic in TOPICS:
                await site.publish(topic)
        async with Site(folder / "live") as site:
            for topic in EARLY:
                await site.publish(topic)
            shutil.copytree(folder / "live", folder / "old")
        async with Site(folder / "live") as site:
            for topic in TOPICS[len(EARLY) :]:
                await site.publish(topic)
            shutil.copytree(folder / "live", folder / "now")

    asyncio.run(make())
    shutil.rmtree(folder / "live")
    return folder


def log_of(folder: Path) -> Path:
    return folder / "metadata.sqlite-wal"


def file_of(folder: Path) -> Path:
    return folder / "metadata.sqlite"


def witness_of(folder: Path) -> Path:
    return folder / "ledgers" / "metadataWitness"


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)


def flip_in_the_last_frame(folder: Path, images: Path) -> None:
    end = read_log(log_of(folder).read_bytes(), PAGE_BYTES).end  # frames of the log's former use may follow
    flip(log_of(folder), end - 1000)


def flip_at_random(folder: Path, images: Path) -> None:
    end = read_log(log_of(folder).read_bytes(), PAGE_BYTES).end
    flip(log_of(folder), random.Random(7).randrange(end))


def cut_the_log(folder: Path, images: Path) -> None:
    os.truncate(log_of(folder), read_log(log_of(folder).read_bytes(), PAGE_BYTES).end - 2000)


def empty_the_log(folder: Path, images: Path) -> None:
    os.truncate(log_of(folder), 0)


def zero_the_log(folder: Path, images: Path) -> None:
    log_of(folder).write_bytes(bytes(log_of(folder).stat().st_size))


def delete_the_log(folder: Path, images: Path) -> None:
    log_of(folder).unlink()


def old_file_and_log(folder: Path, images: Path) -> None:
    for path in (file_of, log_of):
        shutil.copy(path(images / "old"), path(folder))


def old_file_without_its_log(folder: Path, images: Path) -> None:
    shutil.copy(file_of(images / "old"), file_of(folder))
    log_of(folder).unlink()


def file_without_a_record(folder: Path, images: Path) -> None:
    file_of(folder).unlink()
    log_of(folder).unlink()
    RecordFile.open(read_stored(str(file_of(folder)), None, None, RECORDS)).close()


def old_log(folder: Path, images: Path) -> None:
    shutil.copy(log_of(images / "old"), log_of(folder))


def file_of_another_server(folder: Path, images: Path) -> None:
    shutil.copy(file_of(images / "other"), file_of(folder))
    log_of(folder).unlink()


def delete_file_and_log(folder: Path, images: Path) -> None:
    file_of(folder).unlink()
    log_of(folder).unlink()


def delete_the_file(folder: Path, images: Path) -> None:
    file_of(folder).unlink()


def delete_all_metadata_and_the_witness(folder: Path, images: Path) -> None:
    delete_file_and_log(folder, images)
    witness_of(folder).unlink()


def delete_the_witness(folder: Path, images: Path) -> None:
    witness_of(folder).unlink()


def zero_the_witness(folder: Path, images: Path) -> None:
    witness_of(folder).write_bytes(bytes(8192))


def unmount_the_bookies_folders(folder: Path, images: Path) -> None:
    for name in ("journal", "ledgers"):
        shutil.rmtree(folder / name)


def empty_the_bookies_folders(folder: Path, images: Path) -> None:
    unmount_the_bookies_folders(folder, images)
    (folder / "journal").mkdir()
    (folder / "ledgers").mkdir()


def empty_the_ledgers(folder: Path, images: Path) -> None:
    shutil.rmtree(folder / "ledgers")
    (folder / "ledgers").mkdir()


def old_bookie(folder: Path, images: Path) -> None:
    unmount_the_bookies_folders(folder, images)
    for name in ("journal", "ledgers"):
        shutil.copytree(images / "old" / name, folder / name)


def damage_the_mark(folder: Path, images: Path) -> None:
    flip(folder / "ledgers" / "lastMark", 20)


def lose_the_index(folder: Path, images: Path) -> None:
    shutil.rmtree(folder / "ledgers" / "index")


def cookie_of_another_server(folder: Path, images: Path) -> None:
    shutil.copy(images / "other" / "ledgers" / "VERSION", folder / "ledgers")


def make_layout_1(folder: Path) -> None:
    connection = sqlite3.connect(file_of(folder))
    connection.executescript(
        "ALTER TABLE meta DROP COLUMN identity; ALTER TABLE meta DROP COLUMN generation; PRAGMA user_version = 1;"
    )
    connection.close()
    witness_of(folder).unlink(missing_ok=True)


def old_file_of_layout_1(folder: Path, images: Path) -> None:
    old_file_and_log(folder, images)
    make_layout_1(folder)


def layout_1_and_no_bookie(folder: Path, images: Path) -> None:
    make_layout_1(folder)
    unmount_the_bookies_folders(folder, images)


METADATA_IS_OLD = [
    flip_in_the_last_frame,
    cut_the_log,
    empty_the_log,
    zero_the_log,
    delete_the_log,
    old_file_and_log,
    old_file_without_its_log,
    file_without_a_record,
    old_log,
    old_file_of_layout_1,
]
METADATA_IS_WHOLE = [delete_the_witness, zero_the_witness]
OTHERS = [
    flip_at_random,
    file_of_another_server,
    delete_file_and_log,
    delete_the_file,
    delete_all_metadata_and_the_witness,
    unmount_the_bookies_folders,
    empty_the_bookies_folders,
    empty_the_ledgers,
    old_bookie,
    layout_1_and_no_bookie,
    damage_the_mark,
    lose_the_index,
    cookie_of_another_server,
]


async def refusal(folder: Path, **settings: str) -> str:
    with pytest.raises(StartError) as refused:
        async with Site(folder, **settings):
            pass
    return str(refused.value)


@pytest.mark.parametrize("harm", METADATA_IS_OLD + METADATA_IS_WHOLE + OTHERS)
async def test_what_does_not_fit_is_refused_by_name_and_changes_nothing(
    tmp_path: Path, images: Path, harm: Harm
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(images / "now", folder)
    harm(folder, images)
    before = content_of(folder)
    reason = await refusal(folder)
    assert str(folder / "metadata.sqlite") in reason or str(folder / "ledgers") in reason
    assert content_of(folder) == before
    # The original files are put back.
    shutil.rmtree(folder)
    shutil.copytree(images / "now", folder)
    async with Site(folder) as site:
        for topic in TOPICS:
            await site.check(topic)


def accepted_generation(reason: str) -> str:
    return reason.partition("acceptMetadataGeneration=")[2].partition(":")[0]


@pytest.mark.parametrize("harm", METADATA_IS_OLD + METADATA_IS_WHOLE)
async def test_the_way_out_loses_only_what_the_metadata_forgot_and_deletes_no_ledger(
    tmp_path: Path, images: Path, harm: Harm
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(images / "now", folder)
    harm(folder, images)
    known = (
        []
        if harm in (old_file_without_its_log, file_without_a_record)
        else EARLY
        if harm in METADATA_IS_OLD
        else TOPICS
    )
    generation = accepted_generation(await refusal(folder))
    async with Site(folder, acceptMetadataGeneration=generation) as site:
        held = {ledger_id for ledger_id in site.server.bookie.ledger_ids() if ledger_id < 1 << 32}
        await site.server.bookie.collect_garbage(1)
        assert site.server.bookie.ledger_ids() >= held
        for topic in known:
            await site.check(topic)
        await site.publish("persistent://public/default/new")
        added = site.server.bookie.ledger_ids() - held
        assert min(added) > max(held)
    async with Site(folder) as site:
        await site.server.bookie.collect_garbage(1)
        assert site.server.bookie.ledger_ids() >= site.server.bookie.kept_ledgers()
        for topic in [*known, "persistent://public/default/new"]:
            await site.check(topic)


@pytest.mark.process
async def test_after_sigkill_one_flipped_bit_in_the_log_ends_the_process_with_one_sentence(tmp_path: Path) -> None:
    server = Server(tmp_path)
    await server.start_async()
    try:
        for topic in TOPICS:
            await publish(server.broker_port, topic)
        server.kill()
        log = log_of(server.data_dir)
        sound = log.read_bytes()
        flip_in_the_last_frame(server.data_dir, tmp_path)
        server.spawn()
        assert await asyncio.to_thread(server.wait) == 1
        (sentence,) = (line for line in server.log_text().splitlines() if line.startswith("magnetar: "))
        assert f"{file_of(server.data_dir)}: is older than what the bookie holds" in sentence
        log.write_bytes(sound)
        await server.start_async()
        for topic in TOPICS:
            await check(server.broker_port, topic)
    finally:
        server.close()


async def test_the_answer_to_one_refusal_is_no_answer_to_the_next(tmp_path: Path, images: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(images / "now", folder)
    old_file_and_log(folder, images)
    generation = accepted_generation(await refusal(folder))
    async with Site(folder, acceptMetadataGeneration=generation):
        shutil.copytree(folder, tmp_path / "later")
    delete_the_log(tmp_path / "later", images)
    assert "older than what the bookie holds" in await refusal(tmp_path / "later", acceptMetadataGeneration=generation)


async def test_data_of_the_first_layout_is_adopted_once(tmp_path: Path, images: Path) -> None:
    folder = tmp_path / "data"
    shutil.copytree(images / "now", folder)
    make_layout_1(folder)
    shutil.copytree(folder, tmp_path / "before")
    for _ in range(2):
        async with Site(folder) as site:
            for topic in TOPICS:
                await site.check(topic)
    shutil.copy(file_of(tmp_path / "before"), file_of(folder))
    assert "older than what the bookie holds" in await refusal(folder)


async def test_data_of_the_first_layout_keeps_ledgers_that_it_may_have_forgotten(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the first layout ledger ids come from a block that was drawn before, so nothing tells a forgotten ledger from
    a deleted one."""
    folder = tmp_path / "data"
    async with Site(tmp_path / "live") as site:
        await site.publish(TOPICS[0])
        shutil.copytree(tmp_path / "live", tmp_path / "old")
        await site.publish(TOPICS[1])
        forgotten = max(site.server.bookie.ledger_ids())
        shutil.copytree(tmp_path / "live", folder)
    old_file_of_layout_1(folder, tmp_path)
    for _ in range(2):
        caplog.clear()
        async with Site(folder) as site:
            await site.server.bookie.collect_garbage()
            assert forgotten in site.server.bookie.ledger_ids()
            await site.check(TOPICS[0])
        assert any("are kept" in line and str(forgotten) in line for line in caplog.messages)


async def test_a_first_start_that_broke_off_anywhere_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is killed before each step that a first start makes durable."""
    folder = tmp_path / "data"

    async def killed(*_: object, **__: object) -> None:
        shutil.copytree(folder, tmp_path / "copy")
        raise OSError("killed here")

    steps = [
        (storage_start, "_write_cluster_records"),
        (Bookie, "start"),
        (EmbeddedStore, "begin_witness"),
    ]
    for owner, name in steps:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, killed)
            assert "killed here" in await refusal(folder)
        shutil.rmtree(folder)
        os.rename(tmp_path / "copy", folder)
        async with Site(folder) as site:
            await site.publish(TOPICS[0])
        async with Site(folder) as site:
            await site.check(TOPICS[0])
        shutil.rmtree(folder)
