"""Find, backup, remove and restore on real records, a real ledger client and a real bookie, in one process."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from magnetar.metadata import paths
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.store import Stat
from magnetar.metadata.unique_ids import LedgerIdGenerator
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.leaks.backup import Backup, entries_of
from magnetar.storage.leaks.backup_rules import BackupDamaged, Manifest
from magnetar.storage.leaks.entry_reader import EntryReader
from magnetar.storage.leaks.finder import Findings, NotPulsar, Site, find
from magnetar.storage.leaks.orphan_rules import Caution, Verdict
from magnetar.storage.leaks.removal import Outcome, remove, restore
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.ledger.ledger_handle import WriteHandle
from magnetar.storage.ledger.ledger_listing import list_ledgers
from magnetar.storage.ledger.metadata_driver import LedgerMetadataDriver
from magnetar.storage.ledger.read_handle import ReadHandle
from magnetar.storage.managed.ledger_labels import ledger_labels
from pulsar_proto.pb import managed_ledger_pb2 as pb
from pulsar_proto.records.ledger_record import ledger_path
from tests.storage.bookie.helpers import config_in

NOW_MS = 2**42
CAUTION = Caution(NOW_MS, grace_ms=0)
TOPIC = "t/n/persistent/x"
LABELS = ledger_labels(TOPIC)
COMPACTED = {"application": b"pulsar", "component": b"compacted-ledger", "pulsar/compactedTopic": b"persistent://t/n/x"}
SCHEMA = {"application": b"pulsar", "component": b"schema", "pulsar/schemaId": b"t/n/x"}


class Scene:
    """A small cluster: its records, its only bookie, and its ledgers."""

    def __init__(self, store: MemoryStore, bookie: Bookie, bookkeeper: BookKeeper, site: Site) -> None:
        self.store, self.bookie, self.bookkeeper, self.site = store, bookie, bookkeeper, site

    async def write(self, labels: dict[str, bytes], *payloads: bytes) -> WriteHandle:
        handle = await self.bookkeeper.create_ledger(custom_metadata=labels, password=b"secret")
        for payload in payloads:
            await handle.add(payload)
        return handle

    async def ledger(self, labels: dict[str, bytes], *payloads: bytes) -> int:
        """Writes a closed ledger and returns its id."""
        handle = await self.write(labels, *payloads)
        await handle.close()
        return handle.ledger_id

    async def put(self, path: str, value: bytes) -> None:
        if await self.store.exists(path) is None:
            await self.store.create(path, make_parents=True)
        await self.store.put(path, value)

    async def topic(self, *ledgers: int) -> None:
        info = pb.ManagedLedgerInfo()
        for ledger_id in ledgers:
            info.ledgerInfo.add(ledgerId=ledger_id)
        await self.put(paths.managed_ledger_path(TOPIC), info.SerializeToString())

    async def cursor(self, name: str, ledger_id: int, **properties: int) -> None:
        info = pb.ManagedCursorInfo(cursorsLedgerId=ledger_id)
        for key, value in properties.items():
            info.properties.add(name=key, value=value)
        await self.put(paths.cursor_path(TOPIC, name), info.SerializeToString())

    async def entries(self, ledger_id: int) -> list[tuple[int, bytes]]:
        return [each async for each in entries_of(self.site.entries, ledger_id)]

    async def orphans(self) -> dict[int, str]:
        return {ledger.ledger_id: judgement.reason for ledger, judgement in (await self.find()).orphans}

    async def find(self) -> Findings:
        return await find(self.site, CAUTION)

    async def backup(self, folder: Path, *, entries: bool = True) -> tuple[Backup, Manifest]:
        backup = Backup(folder)
        return backup, await backup.write(self.site, await self.find(), NOW_MS, entries=entries, said=pytest.fail)


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    store = MemoryStore()
    for path in (paths.MANAGED_LEDGERS, "/admin/policies/t/n", paths.INSTANCE_ID):
        await store.create(path, b"" if path == paths.MANAGED_LEDGERS else b"some", make_parents=True)
    await store.put("/admin/policies/t", b"{}")
    bookie = await Bookie.open(config_in(folder), bookie_id="bookie", list_ledgers=partial(list_ledgers, store))
    ids = LedgerIdGenerator(store)
    channel_of = {"bookie": bookie}.__getitem__
    bookkeeper = BookKeeper(
        store, channel_of, bookies=lambda: ["bookie"], next_ledger_id=ids.next_id, rng=random.Random(1)
    )
    entries = EntryReader(bookkeeper, LedgerMetadataDriver(store, ids.next_id), channel_of, 30)
    try:
        async with asyncio.timeout(60):
            yield Scene(store, bookie, bookkeeper, Site({"zk": store}, [store], store, entries))
    finally:
        await bookkeeper.close()
        await bookie.close()


def position(ledger_id: int) -> bytes:
    entry = pb.PositionInfo(ledgerId=1, entryId=2)
    entry.properties.add(name="CompactedTopicLedger", value=ledger_id)
    return entry.SerializeToString()


async def test_a_compacted_ledger_is_in_use_by_what_the_cursors_ledger_says(tmp_path: Path) -> None:
    async with scene(tmp_path) as here:
        old, new = await here.ledger(COMPACTED, b"a"), await here.ledger(COMPACTED, b"b")
        await here.topic()
        open_cursor = await here.write(LABELS | {"pulsar/cursor": b"__compaction"}, position(old), position(new))
        await here.cursor("__compaction", open_cursor.ledger_id, CompactedTopicLedger=77)
        assert await here.orphans() == {}, "the writer may not have confirmed its last entry yet"
        await open_cursor.add(position(new))
        assert await here.orphans() == {old: "superseded compaction"}
        await open_cursor.close()
        found = await here.find()
        assert [ledger.ledger_id for ledger, _ in found.orphans] == [old]
        assert found.dangling == [], "an old name in the cursor's record is no loss"
        await here.store.delete(ledger_path(new))
        assert [each.ledger_id for each in (await here.find()).dangling] == [new]


async def test_a_cursors_ledger_that_cannot_be_read_keeps_the_compacted_ledgers_of_its_topic(tmp_path: Path) -> None:
    async with scene(tmp_path) as here:
        compacted = await here.ledger(COMPACTED, b"a")
        cursor = await here.ledger(LABELS | {"pulsar/cursor": b"__compaction"}, position(compacted))
        await here.topic()
        await here.cursor("__compaction", cursor)
        assert await here.orphans() == {}
        await here.bookie.drop_ledgers({cursor})
        found = await here.find()
        assert found.orphans == []
        assert [each[1].verdict for each in found.judged] == [Verdict.UNREADABLE]
        assert not found.is_clean
        await here.store.delete(ledger_path(cursor))
        found = await here.find()
        assert [each[1].verdict for each in found.judged] == [Verdict.UNREADABLE]
        assert [each.ledger_id for each in found.dangling] == [cursor]


async def test_a_compaction_that_ends_during_the_look_keeps_its_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path) as here:
        old, new = await here.ledger(COMPACTED, b"a"), await here.ledger(COMPACTED, b"b")
        before = await here.ledger(LABELS | {"pulsar/cursor": b"__compaction"}, position(old))
        after = await here.ledger(LABELS | {"pulsar/cursor": b"__compaction"}, position(new))
        await here.topic()
        await here.cursor("__compaction", before)
        opened = here.site.entries.open

        async def open_and_switch(ledger_id: int) -> ReadHandle:
            handle = await opened(ledger_id)
            if ledger_id == before:
                await here.cursor("__compaction", after)
            return handle

        monkeypatch.setattr(here.site.entries, "open", open_and_switch)
        assert new not in await here.orphans()


def version(number: int, ledger_id: int) -> pb.SchemaIndexEntry:
    place = pb.NestedPositionInfo(ledgerId=ledger_id, entryId=0)
    return pb.SchemaIndexEntry(version=number, position=place, hash=b"")


async def test_versions_that_only_an_older_versions_entry_names_are_in_use(tmp_path: Path) -> None:
    async with scene(tmp_path) as here:
        newest = await here.ledger(SCHEMA, pb.SchemaEntry(schema_data=b"").SerializeToString())
        for number in range(3):
            entry = pb.SchemaEntry(schema_data=b"", index=[version(number, newest)])
            newest = await here.ledger(SCHEMA, entry.SerializeToString())
        stray = await here.ledger(SCHEMA, b"")
        locator = pb.SchemaLocator(info=version(3, newest), index=[version(3, newest)])
        await here.put("/schemas/t/n/x", locator.SerializeToString())
        assert await here.orphans() == {stray: "version not in the schema"}


async def test_a_topic_that_is_deleted_during_the_look_has_lost_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scene(tmp_path) as here:
        await here.topic(77)
        exists = here.store.exists

        async def exists_after_the_deletion(path: str) -> Stat | None:
            if path == ledger_path(77):
                await here.topic()
            return await exists(path)

        assert [each.ledger_id for each in (await here.find()).dangling] == [77]
        monkeypatch.setattr(here.store, "exists", exists_after_the_deletion)
        assert (await here.find()).dangling == []


async def test_a_lost_ledger_is_named_and_one_that_was_made_meanwhile_is_not(tmp_path: Path) -> None:
    async with scene(tmp_path) as here:
        there, lost = await here.ledger(LABELS), await here.ledger(LABELS)
        await here.topic(there, lost)
        await here.store.delete(ledger_path(lost))
        found = await here.find()
        assert [(each.ledger_id, each.path) for each in found.dangling] == [(lost, paths.managed_ledger_path(TOPIC))]
        assert found.orphans == []


async def test_what_is_removed_comes_back_with_every_byte(tmp_path: Path) -> None:
    async with scene(tmp_path / "bookie") as here:
        kept = await here.ledger(LABELS, b"kept")
        orphan = await here.ledger(LABELS, *(b"message %d" % number for number in range(100)))
        empty = await here.ledger(LABELS)
        await here.topic(kept)
        await here.store.create("/loadbalance/bundle-data/t/gone/0x0", b"load", make_parents=True)
        before = {each: await here.store.get(ledger_path(each)) for each in (orphan, empty)}
        entries = await here.entries(orphan)
        backup, manifest = await here.backup(tmp_path / "backup")
        outcomes = [each async for each in remove(here.site, backup, manifest, await here.find())]
        assert {each.text for each in outcomes} == {"removed"}
        assert await list_ledgers(here.store) == {kept}
        assert await here.store.exists("/loadbalance/bundle-data/t/gone") is None
        await here.bookie.collect_garbage()
        assert here.bookie.ledger_ids() == {kept}

        outcomes = [each async for each in restore(here.site, backup, manifest)]
        assert all(each.done for each in outcomes)
        for ledger_id, record in before.items():
            restored = await here.store.get(ledger_path(ledger_id))
            assert record is not None
            assert restored is not None
            assert restored.value == record.value
        assert await here.entries(orphan) == entries
        assert (await here.store.get("/loadbalance/bundle-data/t/gone/0x0")) is not None
        again = [each async for each in restore(here.site, backup, manifest)]
        assert {each.text for each in again} == {"is there, the bookies have its entries", "is there"}


async def remove_all(here: Scene, folder: Path, change: str) -> list[Outcome]:
    """Backs the only orphan up, makes a change, and removes what the second look allows."""
    orphan = await here.ledger(LABELS, b"a")
    await here.topic()
    backup, manifest = await here.backup(folder, entries=False)
    second = await here.find()
    path = ledger_path(orphan)
    if change == "used":
        await here.topic(orphan)
        second = await here.find()
    elif change == "written":
        record = await here.store.get(path)
        assert record is not None
        await here.store.put(path, record.value)
    outcomes = [each async for each in remove(here.site, backup, manifest, second)]
    assert (await here.store.exists(path) is None) == (change == "none")
    return outcomes


@pytest.mark.parametrize("change", ["none", "used", "written"])
async def test_only_what_is_still_an_orphan_and_unchanged_is_removed(tmp_path: Path, change: str) -> None:
    async with scene(tmp_path / "bookie") as here:
        (outcome,) = await remove_all(here, tmp_path / "backup", change)
        assert outcome.done == (change == "none")


async def test_a_damaged_backup_removes_and_restores_nothing(tmp_path: Path) -> None:
    async with scene(tmp_path / "bookie") as here:
        orphan = await here.ledger(LABELS, b"a")
        await here.topic()
        backup, manifest = await here.backup(tmp_path / "backup")
        file = backup.entries_file(orphan)
        whole = file.read_bytes()
        for damaged in (whole[:-1], whole[:-1] + b"?", b""):
            file.write_bytes(damaged)
            with pytest.raises(BackupDamaged):
                [each async for each in remove(here.site, backup, manifest, await here.find())]
            assert await list_ledgers(here.store) == {orphan}
        with pytest.raises(FileExistsError):
            await here.backup(tmp_path / "backup")
        (tmp_path / "backup" / "manifest.json").write_bytes(b"{}")
        with pytest.raises(BackupDamaged):
            await backup.manifest()


async def test_a_restore_into_another_cluster_is_refused(tmp_path: Path) -> None:
    async with scene(tmp_path / "bookie") as here:
        await here.ledger(LABELS, b"a")
        await here.topic()
        backup, manifest = await here.backup(tmp_path / "backup")
        await here.store.put(paths.INSTANCE_ID, b"another")
        with pytest.raises(BackupDamaged, match="another"):
            [each async for each in restore(here.site, backup, manifest)]


async def test_a_restore_of_a_record_without_entries_says_that_they_are_gone(tmp_path: Path) -> None:
    async with scene(tmp_path / "bookie") as here:
        orphan = await here.ledger(LABELS, b"a")
        await here.topic()
        backup, manifest = await here.backup(tmp_path / "backup", entries=False)
        assert [each.text async for each in remove(here.site, backup, manifest, await here.find())] == ["removed"]
        await here.bookie.collect_garbage()
        (outcome,) = [each async for each in restore(here.site, backup, manifest)]
        assert (outcome.done, "the backup has none" in outcome.text) == (False, True)
        with pytest.raises(LedgerError):
            await here.entries(orphan)


async def test_a_ledger_of_any_cluster_that_was_given_is_in_use(tmp_path: Path) -> None:
    async with scene(tmp_path) as here:
        ledger_id = await here.ledger(LABELS)
        second = MemoryStore()
        info = pb.ManagedLedgerInfo(ledgerInfo=[pb.ManagedLedgerInfo.LedgerInfo(ledgerId=ledger_id)])
        await second.create(paths.managed_ledger_path(TOPIC), info.SerializeToString(), make_parents=True)
        both = Site({"zk": here.store, "second": second}, [here.store], here.store, here.site.entries)
        assert await here.orphans() == {ledger_id: "topic deleted"}
        assert (await find(both, CAUTION)).orphans == []


async def test_a_store_that_is_not_pulsars_is_refused(tmp_path: Path) -> None:
    async with scene(tmp_path) as here:
        site = Site({"other": MemoryStore()}, [here.store], here.store, here.site.entries)
        with pytest.raises(NotPulsar):
            await find(site, CAUTION)
