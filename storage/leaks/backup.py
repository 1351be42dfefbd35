"""Writes what a look found into a folder, and reads it back.

The manifest is written last, after everything else was synced and read back: a folder with a manifest is a whole
backup.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import aiofiles
import aiofiles.os
from aiofiles.threadpool.binary import AsyncBufferedIOBase

from magnetar.metadata.paths import INSTANCE_ID
from magnetar.storage.leaks.backup_rules import (
    BackupDamaged,
    BackupItem,
    Manifest,
    StoredEntries,
    digest,
    frame,
    frames,
)
from magnetar.storage.leaks.entry_reader import EntryReader
from magnetar.storage.leaks.finder import Findings, Site
from magnetar.storage.ledger.ledger_errors import LedgerError, NoSuchEntry

MANIFEST = "manifest.json"
LOG = "log"
CHUNK_BYTES = 1 << 20

Said = Callable[[str], None]


class Backup:
    """A folder with a backup."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def record_file(self, index: int) -> Path:
        return self._folder / "records" / f"{index:08d}"

    def entries_file(self, ledger_id: int) -> Path:
        return self._folder / "entries" / f"{ledger_id}"

    async def write(self, site: Site, findings: Findings, made_ms: int, *, entries: bool, said: Said) -> Manifest:
        """Writes the records of the orphans and of the removable leftovers and, with `entries`, the ledgers' entries.
        A ledger whose entries cannot be read is left out, and `said` gets a sentence about it.

        Raises FileExistsError when the folder is not empty, OSError, MetadataError.
        """
        for name in ("records", "entries"):
            await aiofiles.os.makedirs(self._folder / name, exist_ok=True)
            if await aiofiles.os.listdir(self._folder / name):
                raise FileExistsError(0, "the folder has a backup already; take another one", str(self._folder))
        items: list[BackupItem] = []
        for item in await asyncio.to_thread(_wanted, findings):
            store = site.store_of(item.store)
            record = await store.get(item.path)
            if record is None or record.stat.version != item.version:
                said(f"{item.path} has changed since the look and is left out")
                continue
            item = replace(item, value_bytes=len(record.value), sha256=digest(record.value))
            if entries and item.ledger_id is not None:
                try:
                    item = replace(item, entries=await self._write_entries(site.entries, item.ledger_id))
                except LedgerError as error:
                    said(f"ledger {item.ledger_id} is left out, because its entries cannot be read: {error}")
                    continue
            await _write(self.record_file(len(items)), record.value)
            items.append(item)
        instance = await site.ledgers.get(INSTANCE_ID)
        name = instance.value.decode("utf-8", "replace") if instance else ""
        manifest = Manifest(made_ms, name, tuple(site.stores), tuple(items))
        await self.verify(manifest)
        await _write(self._folder / MANIFEST, await asyncio.to_thread(manifest.serialize))
        return manifest

    async def _write_entries(self, reader: EntryReader, ledger_id: int) -> StoredEntries:
        count, size, checksum = 0, 0, sha256()
        async with aiofiles.open(self.entries_file(ledger_id), "wb") as file:
            async for entry_id, entry in entries_of(reader, ledger_id):
                data = frame(entry_id, entry)
                await file.write(data)
                checksum.update(data)
                count += 1
                size += len(data)
            await _sync(file)
        return StoredEntries(count, size, checksum.hexdigest())

    async def manifest(self) -> Manifest:
        """Returns the manifest. Raises BackupDamaged, OSError."""
        try:
            async with aiofiles.open(self._folder / MANIFEST, "rb") as file:
                return await asyncio.to_thread(Manifest.parse, await file.read())
        except FileNotFoundError:
            raise BackupDamaged(f"{self._folder} has no {MANIFEST}: it is no backup, or was not finished") from None

    async def verify(self, manifest: Manifest) -> None:
        """Reads everything back. Raises BackupDamaged when a byte is missing or wrong, OSError."""
        for index, item in enumerate(manifest.items):
            await self.record(index, item)
            if item.entries is None or item.ledger_id is None:
                continue
            count, checksum = 0, sha256()
            async for chunk in self._chunks(item.ledger_id):
                checksum.update(chunk)
            async for _ in self.entries(item.ledger_id):
                count += 1
            if (count, checksum.hexdigest()) != (item.entries.count, item.entries.sha256):
                raise BackupDamaged(f"{self.entries_file(item.ledger_id)} is not what was written")

    async def record(self, index: int, item: BackupItem) -> bytes:
        """Returns the value of the manifest's item number `index`. Raises BackupDamaged, OSError."""
        async with aiofiles.open(self.record_file(index), "rb") as file:
            value = await file.read()
        if not item.holds(value):
            raise BackupDamaged(f"{self.record_file(index)} is not the record {item.path} that was written")
        return value

    async def entries(self, ledger_id: int) -> AsyncGenerator[tuple[int, bytes], None]:
        """Yields the id and the bytes of each stored entry. Raises BackupDamaged for a file that ends within one."""
        left = b""
        async for chunk in self._chunks(ledger_id):
            left += chunk
            used = 0
            for entry_id, start, end in frames(left):
                yield entry_id, left[start:end]
                used = end
            left = left[used:]
        if left:
            raise BackupDamaged(f"{self.entries_file(ledger_id)} ends within an entry")

    async def note(self, line: str) -> None:
        """Adds a line to the backup's log, which says what was done with it. Raises OSError."""
        async with aiofiles.open(self._folder / LOG, "a", encoding="utf-8") as file:
            await file.write(line + "\n")

    async def _chunks(self, ledger_id: int) -> AsyncIterator[bytes]:
        async with aiofiles.open(self.entries_file(ledger_id), "rb") as file:
            while chunk := await file.read(CHUNK_BYTES):
                yield chunk


def _wanted(findings: Findings) -> Sequence[BackupItem]:
    """Returns what is to be written, without the values. Records come before the records below them."""
    ledgers = [
        BackupItem("", ledger.path, ledger.version, 0, "", judgement.reason, ledger.ledger_id)
        for ledger, judgement in findings.orphans
    ]
    records = [
        BackupItem(leftover.store, node.path, node.version, 0, "", leftover.reason)
        for leftover in findings.leftovers
        if leftover.removable
        for node in leftover.nodes
    ]
    return [*ledgers, *records]


async def entries_of(reader: EntryReader, ledger_id: int) -> AsyncIterator[tuple[int, bytes]]:
    """Yields the id and the bytes of each entry of a ledger, as the bookies have it. Of a ledger that is not closed,
    the entries behind the last confirmed one come, too. Raises LedgerError."""
    handle = await reader.open(ledger_id)
    entry_id = 0
    while entry_id <= handle.last_add_confirmed:
        for entry in await handle.read(entry_id, handle.last_add_confirmed):
            yield entry_id, entry
            entry_id += 1
    while not handle.is_closed:
        try:
            entry = (await handle.read_unconfirmed(entry_id, entry_id))[0]
        except NoSuchEntry:
            return
        yield entry_id, entry
        entry_id += 1


async def _write(path: Path, data: bytes) -> None:
    """Writes a file in one step: it is there as a whole, or not at all."""
    part = path.with_name(f"{path.name}.part")
    async with aiofiles.open(part, "wb") as file:
        await file.write(data)
        await _sync(file)
    await aiofiles.os.replace(part, path)


async def _sync(file: AsyncBufferedIOBase) -> None:
    await file.flush()
    await asyncio.to_thread(os.fsync, file.fileno())
