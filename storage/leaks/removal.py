"""Removes what a backup holds, and puts it back.

A record is removed only if a second look still finds it to be an orphan, if its version is the one that was looked at,
and if the backup has its bytes. A ledger is deleted by deleting its record: the bookies then collect its entries.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from magnetar.metadata.errors import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError
from magnetar.metadata.paths import INSTANCE_ID, LEDGERS_ROOT
from magnetar.metadata.store import delete_empty_parents
from magnetar.storage.leaks.backup import Backup, entries_of
from magnetar.storage.leaks.backup_rules import BackupDamaged, BackupItem, Manifest
from magnetar.storage.leaks.finder import Findings, Site
from magnetar.storage.ledger.ledger_errors import LedgerError
from pulsar_proto.counted import counted


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one item. `done` tells whether the record is in the wanted state now."""

    item: BackupItem
    done: bool
    text: str


async def check_place(site: Site, manifest: Manifest) -> None:
    """Raises BackupDamaged when the backup is of another BookKeeper cluster, or of metadata stores that were not
    given."""
    instance = await site.ledgers.get(INSTANCE_ID)
    name = instance.value.decode("utf-8", "replace") if instance else ""
    if name != manifest.instance_id:
        raise BackupDamaged(f"the backup is of the cluster {manifest.instance_id!r}, and this is {name!r}")
    missing = [item.store for item in manifest.items if item.store and item.store not in site.stores]
    if missing:
        raise BackupDamaged(f"the backup has records of {missing[0]}: give that metadata store, too")


def still_leaked(findings: Findings) -> set[tuple[str, str]]:
    """Returns the records that may be removed after this look, as (store, path)."""
    ledgers = {("", ledger.path) for ledger, _ in findings.orphans}
    records = {
        (leftover.store, node.path) for leftover in findings.leftovers if leftover.removable for node in leftover.nodes
    }
    return ledgers | records


async def remove(site: Site, backup: Backup, manifest: Manifest, second_look: Findings) -> AsyncIterator[Outcome]:
    """Removes the items of the backup that the second look found again, the deepest records first. Yields the outcome
    of each. Raises BackupDamaged before anything is removed; MetadataError."""
    await check_place(site, manifest)
    await backup.verify(manifest)
    leaked = await asyncio.to_thread(still_leaked, second_look)
    for index, item in reversed(list(enumerate(manifest.items))):
        if (item.store, item.path) not in leaked:
            store = site.store_of(item.store)
            gone = await store.exists(item.path) is None
            yield Outcome(item, gone, "is gone already" if gone else "is in use again, or too young: kept")
        elif not await _is_held(site, backup, index, item):
            yield Outcome(item, False, "was changed since the backup: kept")
        else:
            yield await _remove(site, item)


async def _is_held(site: Site, backup: Backup, index: int, item: BackupItem) -> bool:
    """Returns whether the backup has the bytes that the record has now."""
    record = await site.store_of(item.store).get(item.path)
    return record is not None and record.value == await backup.record(index, item)


async def _remove(site: Site, item: BackupItem) -> Outcome:
    store = site.store_of(item.store)
    try:
        await store.delete(item.path, item.version)
    except NoNodeError:
        return Outcome(item, True, "is gone already")
    except (BadVersionError, NotEmptyError) as error:
        return Outcome(item, False, f"was changed since the backup: kept ({error})")
    if item.ledger_id is not None:
        await delete_empty_parents(store, item.path, LEDGERS_ROOT)
    return Outcome(item, True, "removed")


async def restore(site: Site, backup: Backup, manifest: Manifest) -> AsyncIterator[Outcome]:
    """Puts back the records of a backup that are missing, and the entries that the bookies do not have any more. Yields
    the outcome of each. Raises BackupDamaged before anything is changed; MetadataError."""
    await check_place(site, manifest)
    await backup.verify(manifest)
    for index, item in enumerate(manifest.items):
        value = await backup.record(index, item)
        store = site.store_of(item.store)
        text = "restored"
        try:
            await store.create(item.path, value, make_parents=True)
        except NodeExistsError:
            record = await store.get(item.path)
            if record is None or record.value != value:
                yield Outcome(item, False, "has another value now: left as it is")
                continue
            text = "is there"
        if item.ledger_id is None:
            yield Outcome(item, True, text)
        else:
            yield await _restore_entries(site, backup, item, value, text)


async def _restore_entries(site: Site, backup: Backup, item: BackupItem, value: bytes, text: str) -> Outcome:
    """Gives the bookies the entries of a ledger that they lack."""
    ledger_id = item.ledger_id
    assert ledger_id is not None
    try:
        if await _has_entries(site, backup, item):
            return Outcome(item, True, f"{text}, the bookies have its entries")
        if item.entries is None:
            return Outcome(item, False, f"{text}, but the bookies lack entries, and the backup has none")
        await site.entries.add_back(ledger_id, value, backup.entries(ledger_id))
        return Outcome(item, True, f"{text}, with {counted(item.entries.count, 'entry', 'entries')}")
    except LedgerError as error:
        return Outcome(item, False, f"{text}, but its entries are not: {error}")


async def _has_entries(site: Site, backup: Backup, item: BackupItem) -> bool:
    """Returns whether the bookies have all entries of a ledger; if the backup has entries, these very ones."""
    assert item.ledger_id is not None
    stored = backup.entries(item.ledger_id) if item.entries is not None else None
    count = 0
    try:
        async for found in entries_of(site.entries, item.ledger_id):
            count += 1
            if stored is not None and await anext(stored, None) != found:
                return False
    except LedgerError:
        return False
    finally:
        if stored is not None:
            await stored.aclose()
    return item.entries is None or count >= item.entries.count
