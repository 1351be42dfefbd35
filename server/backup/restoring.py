"""`magnetar restore`: makes the data folder of a standalone server of a backup.

The ledgers go through a bookie of our own, so the folder has the files that any server writes. The metadata comes last
and with one commit: a folder whose restore broke off has none, and no server starts on it.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from magnetar.metadata.embedded.record_rows import Row
from magnetar.metadata.embedded.records_restore import restore_records
from magnetar.metadata.embedded.witness import FILE_NAME, Witness
from magnetar.server.backup.backup_errors import BackupError
from magnetar.server.backup.backup_folder import kept_from_backups
from magnetar.server.backup.manifest_rules import LedgerCopy, Manifest
from magnetar.server.backup.receiving import Progress
from magnetar.server.backup.restore_rules import rows_of_restored
from magnetar.server.backup.verifying import entry_groups, read_records, verify
from magnetar.server.config.broker_config import load_config
from magnetar.server.process.data_folder_lock import DataFolderLock
from magnetar.storage.bookie.bookie import Bookie
from pulsar_proto.wire.bookie_wire import BookieRc

ROOM = {"diskUsageThreshold": "0.9995"}
"""A restore may fill the disk further than a server that grows."""
ADDS_MAX = 16
"""How many groups of entries may wait for the journal at once. A group has about 128 KiB."""


async def restore(backup: Path, data_dir: Path, bookie_id: str, progress: Progress) -> Manifest:
    """Makes the data folder, after it has verified the whole backup. `bookie_id` is the id that the bookie of a
    standalone server has.

    Raises BackupError for a backup that is damaged and for a folder that is not empty, AlreadyInUseError, the errors of
    a bookie's start, MetadataError and OSError.
    """
    with kept_from_backups(backup):
        return await _restore(backup, data_dir, bookie_id, progress)


async def _restore(backup: Path, data_dir: Path, bookie_id: str, progress: Progress) -> Manifest:
    manifest, damages = await asyncio.to_thread(verify, backup)
    if damages:
        raise damages[0]
    await asyncio.to_thread(check_empty, data_dir)
    lock = await asyncio.to_thread(DataFolderLock, data_dir)
    try:
        rows = await asyncio.to_thread(read_records, backup, manifest)
        last_entries = await _restore_ledgers(backup, manifest, data_dir, bookie_id, progress)
        await asyncio.to_thread(_restore_records, rows_of_restored(rows, manifest, last_entries), data_dir)
    finally:
        lock.release()
    progress.end()
    return manifest


def check_empty(data_dir: Path) -> None:
    """Raises BackupError unless the folder is missing or empty."""
    if data_dir.is_dir() and any(data_dir.iterdir()):
        raise BackupError(f"{data_dir} is not empty: name a folder that is new or empty")


async def _restore_ledgers(
    backup: Path, manifest: Manifest, data_dir: Path, bookie_id: str, progress: Progress
) -> dict[int, bytes]:
    """Writes all entries and returns the last one of each ledger that lacks some."""

    async def all_ledgers() -> set[int]:
        return set(manifest.ledgers)

    config = load_config(None, ROOM).bookie(
        journal_directories=(data_dir / "journal",), ledger_directories=(data_dir / "ledgers",)
    )
    bookie = await Bookie.open(config, bookie_id=bookie_id, instance_id=manifest.instance_id, list_ledgers=all_ledgers)
    try:
        adds = _Adds(bookie)
        size = 0
        for done, (ledger_id, copy) in enumerate(manifest.ledgers.items()):
            await adds.add_ledger(backup, ledger_id, copy)
            size += copy.part.size
            progress.tell(done, len(manifest.ledgers), size)
        await adds.finish()
        return adds.last_entries
    finally:
        await bookie.close()


class _Adds:
    """Adds the entries of ledgers to a bookie, with a bounded number of groups under way."""

    def __init__(self, bookie: Bookie) -> None:
        self._bookie = bookie
        self._room = asyncio.Semaphore(ADDS_MAX)
        self._refused: int | None = None
        self.last_entries: dict[int, bytes] = {}
        """The last entry of each ledger that lacks some."""

    async def add_ledger(self, backup: Path, ledger_id: int, copy: LedgerCopy) -> None:
        """Adds all entries of a ledger. Raises BackupError when the bookie refuses some."""
        groups = entry_groups(backup, ledger_id, copy)
        key = bytes.fromhex(copy.master_key)
        while (group := await asyncio.to_thread(next, groups, None)) is not None:
            await self._room.acquire()
            self._check()
            ids = [entry_id for entry_id, _ in group]
            entries = [entry for _, entry in group]
            self._bookie.add_entries(ledger_id, key, ids, entries, 0, self._done)
            if copy.missing:
                self.last_entries[ledger_id] = entries[-1]

    async def finish(self) -> None:
        """Returns when all entries are durable. Raises BackupError when the bookie refused some."""
        for _ in range(ADDS_MAX):
            await self._room.acquire()
        self._check()

    def _done(self, entry_ids: Sequence[int], rc: int) -> None:
        if rc != BookieRc.EOK:
            self._refused = rc
        self._room.release()

    def _check(self) -> None:
        if self._refused is not None:
            reason = self._bookie.hindrance or f"result code {self._refused}"
            raise BackupError(f"the entries could not be written: {reason}")


def _restore_records(rows: Sequence[Row], data_dir: Path) -> None:
    restore_records(str(data_dir / "metadata.sqlite"), rows, Witness(str(data_dir / "ledgers" / FILE_NAME)))
