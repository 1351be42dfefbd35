"""Reads the references that stand in entries of ledgers: which compacted ledger a topic has, by its compaction cursor's
ledger, and which earlier versions a schema's version names.

No ledger is fenced or closed for this, so brokers that write to it go on.
"""

from collections.abc import AsyncIterator, Sequence

from magnetar.storage.leaks.entry_writer import EntryWriter
from magnetar.storage.leaks.orphan_rules import BlindSpot, Picture
from magnetar.storage.leaks.record_reader import CursorLedger, at_once
from magnetar.storage.leaks.reference_rules import (
    Reference,
    Role,
    references_of_cursor_entry,
    references_of_schema_entry,
)
from magnetar.storage.ledger.channel_lookup import ChannelOf
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import LedgerError, NoSuchEntry
from magnetar.storage.ledger.metadata_driver import LedgerMetadataDriver
from magnetar.storage.ledger.read_handle import ReadHandle
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.records.ledger_record import LedgerMetadata

LOOKED_BACK_MAX = 1000
"""How many entries before a cursor's last one are looked through for the one that names a compacted ledger. Every entry
that a broker wrote after the first compaction names one."""


class EntryReader:
    """Reads ledgers' entries through the cluster's ledger client. `channel_of` gives the channel of a bookie."""

    def __init__(
        self, bookkeeper: BookKeeper, driver: LedgerMetadataDriver, channel_of: ChannelOf, timeout_sec: float
    ) -> None:
        self._bookkeeper = bookkeeper
        self._driver = driver
        self._writer = EntryWriter(channel_of, timeout_sec)

    async def add_compacted(self, picture: Picture, cursors: Sequence[CursorLedger]) -> None:
        """Adds the compacted ledgers that cursors' entries name. A ledger that cannot be read, or that the cursor has
        left meanwhile, becomes a blind spot: nobody knows then which compacted ledger is in use."""

        async def add(cursor: CursorLedger) -> None:
            try:
                picture.add(await self._compacted_of(cursor))
                if not await cursor.is_current():
                    raise MalformedRecord("the cursor's record was changed during the look")
            except (LedgerError, MalformedRecord) as error:
                path = f"ledger {cursor.ledger_id} of {cursor.path}"
                picture.blind.append(BlindSpot(path, cursor.owner, str(error)))

        await at_once(add, cursors)

    async def _compacted_of(self, cursor: CursorLedger) -> list[Reference]:
        """Returns the compacted ledgers that the newest entries name. Every entry that may be the last one counts: a
        reader cannot know which of the newest entries are confirmed."""
        handle = await self.open(cursor.ledger_id)
        entry_id = handle.last_add_confirmed
        newest = [entry async for entry in _unconfirmed(handle)]
        found: list[Reference] = []
        while entry_id >= 0 and not found:
            if handle.last_add_confirmed - entry_id > LOOKED_BACK_MAX:
                raise MalformedRecord(f"its last {LOOKED_BACK_MAX} entries name no compacted ledger")
            found = self._of(cursor, handle, (await handle.read(entry_id, entry_id))[0], is_last=not newest)
            entry_id -= 1
        for number, entry in enumerate(newest, start=1):
            found += self._of(cursor, handle, entry, is_last=number == len(newest))
        return found

    def _of(self, cursor: CursorLedger, handle: ReadHandle, entry: bytes, *, is_last: bool) -> list[Reference]:
        return references_of_cursor_entry(cursor.path, entry[handle.payload_offset :], is_last=is_last)

    async def add_schemas(self, picture: Picture, schemas: Sequence[str]) -> None:
        """Adds what the entries of these schemas' versions name in turn. Apache's broker looks for an old version there
        (BookkeeperSchemaStorage.findSchemaEntryByVersion)."""
        wanted = set(schemas)
        waiting = {
            each.ledger_id: each
            for references in picture.references.values()
            for each in references
            if each.role is Role.SCHEMA and each.path.split("/", 2)[2] in wanted
        }
        seen: set[int] = set()
        while waiting:
            seen |= waiting.keys()
            named = [each for found in await at_once(self._versions_before, waiting.values()) for each in found]
            for each in named:
                if isinstance(each, BlindSpot):
                    picture.blind.append(each)
                else:
                    picture.add([each])
            waiting = {each.ledger_id: each for each in named if isinstance(each, Reference)}
            waiting = {ledger_id: each for ledger_id, each in waiting.items() if ledger_id not in seen}

    async def _versions_before(self, version: Reference) -> list[Reference] | list[BlindSpot]:
        """Returns the versions that the entry of a version names."""
        try:
            handle = await self.open(version.ledger_id)
            if handle.last_add_confirmed < 0:
                return []
            entry = (await handle.read(0, 0))[0]
            return references_of_schema_entry(version.path, entry[handle.payload_offset :])
        except (LedgerError, MalformedRecord) as error:
            path, schema_id = f"ledger {version.ledger_id} of {version.path}", version.path.split("/", 2)[2]
            return [BlindSpot(path, schema_id, str(error))]

    async def open(self, ledger_id: int) -> ReadHandle:
        """Opens a ledger for reading with the password of its record, without fencing it. Raises LedgerError."""
        metadata = (await self._driver.read(ledger_id)).metadata
        return await self._bookkeeper.open_ledger_no_recovery(ledger_id, password=metadata.password or b"")

    async def add_back(self, ledger_id: int, record: bytes, entries: AsyncIterator[tuple[int, bytes]]) -> None:
        """Stores entries of a ledger on the bookies that its record names. Raises LedgerError, MalformedRecord."""
        await self._writer.add(LedgerMetadata.parse(ledger_id, record), entries)


async def _unconfirmed(handle: ReadHandle) -> AsyncIterator[bytes]:
    """Yields the entries behind the last one that is known to be confirmed. The writer may have confirmed them."""
    if handle.is_closed:
        return
    entry_id = handle.last_add_confirmed + 1
    while True:
        try:
            yield (await handle.read_unconfirmed(entry_id, entry_id))[0]
        except NoSuchEntry:
            return
        entry_id += 1
