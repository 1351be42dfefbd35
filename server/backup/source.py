"""The running server's side of a backup: streams the metadata of one moment and the ledgers that it names.

One turn of the event loop fixes the moment: it orders the copy of the metadata, and notes the last entry of every
ledger. A record is written only after the entries that it speaks of, so the copy names no entry of a later moment, even
if it holds a change that was under way; and a cursor's ledger ends where it ended at the moment, so no cursor is ahead
of the messages. The bookie keeps ledgers that are deleted meanwhile (`storage/bookie/ledger_holds.py`).
"""

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime
from typing import NamedTuple

from magnetar import __version__
from magnetar.metadata.embedded.embedded_store import EmbeddedStore
from magnetar.metadata.embedded.records_copy import RecordsCopy
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.paths import INSTANCE_ID
from magnetar.server.backup.backup_errors import StreamError
from magnetar.server.backup.block_rules import encode_entries, encode_rows
from magnetar.server.backup.stream_rules import STREAM_FORMAT, Held, Kind, decode_held, frame, json_frame
from magnetar.server.process.turns import Turns
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.bookie_errors import IndexFailure
from magnetar.storage.bookie.ledger_holds import LedgerHold
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.records.ledger_record import LedgerMetadata, ledger_id_of_path
from pulsar_proto.wire.bookie_wire import BookieError, BookieRc, EntryDamaged

log = logging.getLogger(__name__)

BACKUPS_MAX = 2
"""How many backups may be under way at once, since each has a copy of the metadata in memory."""
RECORDS_BYTES = 64 << 10
"""About how many bytes of records are read at once."""
PORTION_BYTES = 128 << 10
"""About how many bytes of entries are read at once."""
GATHERED_BYTES = 64 << 10
"""How many bytes are gathered before they are sent."""
BUSY_SECONDS = 1.0
BUSY_TRIES_MAX = 60
"""How often, and how long apart, a read is tried again that the bookie refused because it has too many."""
FAULTS = (MetadataError, BookieError, IndexFailure, MalformedRecord, StreamError, sqlite3.Error, OSError)


class LedgerEnd(NamedTuple):
    """A ledger that the metadata names. `last_entry_id` is None while the ledger is not closed."""

    ledger_id: int
    last_entry_id: int | None


class BackupSource:
    """Makes the streams of backups of one standalone server."""

    def __init__(self, store: EmbeddedStore, bookie: Bookie, cluster: str) -> None:
        self._store = store
        self._bookie = bookie
        self._cluster = cluster
        self._under_way = 0

    async def stream(self, request: bytes) -> AsyncGenerator[bytes, None]:
        """Yields the parts of a stream. A fault of the server ends the stream with a frame that says it."""
        if self._under_way >= BACKUPS_MAX:
            yield frame(Kind.FAULT, f"{self._under_way} backups are under way already".encode())
            return
        self._under_way += 1
        began = time.monotonic()
        sent = 0
        gathered = bytearray()
        turns = Turns()
        try:
            async with contextlib.aclosing(self._frames(await asyncio.to_thread(decode_held, request))) as frames:
                async for part in frames:
                    gathered += part
                    if len(gathered) >= GATHERED_BYTES:
                        sent += len(gathered)
                        yield bytes(gathered)
                        gathered.clear()
                    await turns.breathe()
            yield bytes(gathered)
            log.info("backup: %d bytes sent in %.1f s", sent, time.monotonic() - began)
        except FAULTS as error:
            log.warning("a backup broke off: %s", error)
            yield bytes(gathered) + frame(Kind.FAULT, str(error).encode("utf-8", "replace"))
        finally:
            self._under_way -= 1

    async def _frames(self, held: Held) -> AsyncGenerator[bytes, None]:
        moment = datetime.now(UTC)
        copying = self._store.copy()
        hold = self._bookie.holds.take()
        copy: RecordsCopy | None = None
        try:
            copy = await copying
            await hold.ready
            history = copy.history
            yield self._header(copy, moment)
            records, ledgers = 0, list[LedgerEnd]()
            while (part := await asyncio.to_thread(_next_records, copy, ledgers))[0]:
                records += part[0]
                yield frame(Kind.RECORDS, part[1])
            copy.close()
            for ledger in ledgers:
                async with contextlib.aclosing(self._ledger(ledger, hold, held, history)) as parts:
                    async for frames in parts:
                        yield frames
            yield json_frame(Kind.END, records=records, ledgers=len(ledgers))
        finally:
            self._bookie.holds.release(hold)
            copying.cancel()
            if copy is not None:
                copy.close()

    def _header(self, copy: RecordsCopy, moment: datetime) -> bytes:
        return json_frame(
            Kind.HEADER,
            format=STREAM_FORMAT,
            cluster=self._cluster,
            version=__version__,
            instance_id=(copy.value(INSTANCE_ID) or b"").decode(),
            history=copy.history.hex(),
            time=moment.isoformat(timespec="milliseconds"),
        )

    async def _ledger(
        self, ledger: LedgerEnd, hold: LedgerHold, held: Held, history: bytes
    ) -> AsyncGenerator[bytes, None]:
        """Yields the frames of one ledger: what it is, and the entries that the client lacks."""
        ledger_id = ledger.ledger_id
        last = ledger.last_entry_id
        if last is None:
            last = hold.last_entry_ids.get(ledger_id, -1)
        first = held.first_wanted(history, ledger_id)
        key = self._bookie.holds.master_key(ledger_id).hex()
        yield json_frame(Kind.LEDGER, ledger=ledger_id, first=first, last=last, master_key=key)
        if first > last or ledger_id not in hold.ids:
            return
        async for entries in self._entries(ledger_id, first, last):
            yield frame(Kind.ENTRIES, encode_entries(entries))

    async def _entries(self, ledger_id: int, first: int, last: int) -> AsyncIterator[list[bytes]]:
        """Yields the entries in portions. Passes over entries that are damaged, which the bookie logs, and over those
        that are not there. Raises BookieError."""
        while first <= last:
            try:
                entries = await self._read(ledger_id, first, last - first + 1)
            except EntryDamaged:
                first += 1
            except BookieError as error:
                if error.rc is not BookieRc.ENOENTRY:
                    raise
                runs = await self._bookie.entry_id_runs(ledger_id)
                first = next((max(run.start, first + 1) for run in runs if run.stop > first + 1), last + 1)
            else:
                yield entries
                first += len(entries)

    async def _read(self, ledger_id: int, first: int, count: int) -> list[bytes]:
        tries = 0
        while True:
            try:
                return await self._bookie.read_entries(ledger_id, first, count, PORTION_BYTES)
            except BookieError as error:
                tries += 1
                if error.rc is not BookieRc.ETOOMANYREQUESTS or tries == BUSY_TRIES_MAX:
                    raise
            await asyncio.sleep(BUSY_SECONDS)


def _next_records(copy: RecordsCopy, ledgers: list[LedgerEnd]) -> tuple[int, bytes]:
    """Returns how many records come next, and their block; appends the ledgers among them to `ledgers`. Raises
    sqlite3.Error, and MalformedRecord for a ledger's record that does not decode."""
    rows = copy.next_rows(RECORDS_BYTES)
    for path, value, *_ in rows:
        ledger_id = ledger_id_of_path(path)
        if ledger_id is not None:
            metadata = LedgerMetadata.parse(ledger_id, value)
            ledgers.append(LedgerEnd(ledger_id, metadata.last_entry_id if metadata.is_closed else None))
    return len(rows), encode_rows(rows)
