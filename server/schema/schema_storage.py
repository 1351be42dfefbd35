"""Stores the versions of schemas. Each version has a ledger of its own, and each schema has one record that lists its
versions.

The record below /schemas is replaced by compare-and-set after the ledger of the new version was closed, so each version
that the record names can be read. A ledger is garbage if another broker was faster to replace the record, or if this
broker crashed before it replaced the record.

Sources: BookkeeperSchemaStorage; what a broker of 4.0.7 stored is in `tests/vectors/pulsar_records.json`.
"""

import logging
from typing import NamedTuple

from google.protobuf.message import DecodeError

from magnetar.metadata.errors import BadVersionError, MetadataError, NodeExistsError, NoNodeError
from magnetar.metadata.paths import SCHEMAS
from magnetar.metadata.store import MetadataStore
from magnetar.server.schema.schema_types import Schema, StoredSchema, schema_of_record, schema_to_record
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import LedgerError
from pulsar_proto.names import topic_of_schema
from pulsar_proto.pb import managed_ledger_pb2 as records

log = logging.getLogger(__name__)

LEDGERS_SHOWN_MAX = 100
"""For how many versions `sizes` returns the size at most; it chooses the newest versions."""

NO_POSITION = -1
"""Each version's ledger entry lists the earlier versions. The entry of the first version lists its own position
instead; NO_POSITION stands for that position, which is not known when the entry is written."""


class SchemaStorageFault(Exception):
    """Raised when the metadata store or a ledger fails, or holds invalid data. The error's text says what happened."""


class SchemaRaceLost(Exception):
    """Raised when another broker has changed the schema's record meanwhile. The caller reads the record again and
    retries."""


class Locator(NamedTuple):
    """The record of one schema id, which says in which ledgers the versions are."""

    record: records.SchemaLocator
    record_version: int
    """The metadata store's version of the record, for compare-and-set."""

    @property
    def ledger_ids(self) -> list[int]:
        return [each.position.ledgerId for each in self.record.index]


class SchemaStorage:
    """Stores versions in ledgers. `quorums` are the ensemble size, write quorum and ack quorum of the ledgers that this
    object creates."""

    def __init__(self, metadata: MetadataStore, bookkeeper: BookKeeper, quorums: tuple[int, int, int]) -> None:
        self._metadata = metadata
        self._bookkeeper = bookkeeper
        self._quorums = quorums

    async def locate(self, schema_id: str) -> Locator | None:
        """Returns the record of `schema_id`, which is "tenant/namespace/topic", or None when there is no such record.
        Raises SchemaStorageFault when the record cannot be read."""
        path = f"{SCHEMAS}/{schema_id}"
        try:
            record = await self._metadata.get(path)
        except MetadataError as error:
            raise SchemaStorageFault(f"{path}: {error}") from error
        if record is None or not record.value:
            # An empty record is the parent of another record (topic names may hold a slash), or was made by hand.
            return None
        try:
            return Locator(records.SchemaLocator.FromString(record.value), record.stat.version)
        except DecodeError as error:
            raise SchemaStorageFault(f"{path} is not the record of a schema") from error

    async def read(self, entry: records.SchemaIndexEntry) -> StoredSchema:
        """Reads and returns one version. Raises SchemaStorageFault when the version cannot be read."""
        ledger_id, entry_id = entry.position.ledgerId, entry.position.entryId
        try:
            handle = await self._bookkeeper.open_ledger(ledger_id)
            stored = (await handle.read(entry_id, entry_id))[0]
            data = records.SchemaEntry.FromString(stored[handle.payload_offset :]).schema_data
            return StoredSchema(entry.version, schema_of_record(data))
        except (LedgerError, DecodeError, ValueError) as error:
            raise SchemaStorageFault(f"schema version {entry.version} in ledger {ledger_id}: {error}") from error

    async def sizes(self, locator: Locator) -> list[tuple[int, int, int]]:
        """Returns (ledger id, entries, bytes) of the newest versions' ledgers. Raises SchemaStorageFault when a ledger
        cannot be asked."""
        found = []
        for ledger_id in locator.ledger_ids[-LEDGERS_SHOWN_MAX:]:
            try:
                handle = await self._bookkeeper.open_ledger(ledger_id)
            except LedgerError as error:
                raise SchemaStorageFault(f"ledger {ledger_id} of a schema: {error}") from error
            found.append((ledger_id, handle.last_add_confirmed + 1, handle.length))
        return found

    async def append(self, schema_id: str, locator: Locator | None, schema: Schema, schema_hash: bytes) -> Locator:
        """Adds a version after the versions of `locator`, and returns the new record. Raises SchemaStorageFault when
        the version cannot be stored, and SchemaRaceLost when another broker has changed the record."""
        version = locator.record.info.version + 1 if locator else 0
        if locator is None:
            nowhere = records.NestedPositionInfo(ledgerId=NO_POSITION, entryId=NO_POSITION)
            index = [records.SchemaIndexEntry(version=0, position=nowhere, hash=schema_hash)]
        else:
            index = list(locator.record.index)
        entry = records.SchemaEntry(schema_data=schema_to_record(schema_id, schema), index=index)
        ledger_id, entry_id = await self._write(schema_id, entry.SerializeToString())
        position = records.NestedPositionInfo(ledgerId=ledger_id, entryId=entry_id)
        info = records.SchemaIndexEntry(version=version, position=position, hash=schema_hash)
        known = locator.record.index if locator else ()
        record = records.SchemaLocator(info=info, index=[*known, info])
        try:
            return Locator(record, await self._put(schema_id, locator, record.SerializeToString()))
        except SchemaRaceLost:
            await self._delete_ledger(ledger_id)
            raise

    async def delete(self, schema_id: str, locator: Locator) -> None:
        """Deletes the record, and then the ledgers. Raises SchemaStorageFault when the deletion fails, and
        SchemaRaceLost when another broker has changed the record."""
        try:
            await self._metadata.delete(f"{SCHEMAS}/{schema_id}", locator.record_version)
        except BadVersionError as error:
            raise SchemaRaceLost from error
        except NoNodeError:
            return
        except MetadataError as error:
            raise SchemaStorageFault(f"the record of the schema of {topic_of_schema(schema_id)}: {error}") from error
        for ledger_id in locator.ledger_ids:
            await self._delete_ledger(ledger_id)

    async def _write(self, schema_id: str, payload: bytes) -> tuple[int, int]:
        ensemble, write, ack = self._quorums
        try:
            handle = await self._bookkeeper.create_ledger(
                ensemble_size=ensemble,
                write_quorum=write,
                ack_quorum=ack,
                custom_metadata={
                    "application": b"pulsar",
                    "component": b"schema",
                    "pulsar/schemaId": schema_id.encode(),
                },
            )
            entry_id = await handle.add(payload)
            await handle.close()
        except LedgerError as error:
            topic = topic_of_schema(schema_id)
            raise SchemaStorageFault(f"{topic}: the ledger of a new version of its schema: {error}") from error
        return handle.ledger_id, entry_id

    async def _put(self, schema_id: str, locator: Locator | None, value: bytes) -> int:
        path = f"{SCHEMAS}/{schema_id}"
        try:
            if locator is not None:
                return (await self._metadata.put(path, value, locator.record_version)).version
            return (await self._metadata.create(path, value, make_parents=True)).stat.version
        except (BadVersionError, NodeExistsError, NoNodeError) as error:
            raise SchemaRaceLost from error
        except MetadataError as error:
            raise SchemaStorageFault(f"{path}: {error}") from error

    async def _delete_ledger(self, ledger_id: int) -> None:
        try:
            await self._bookkeeper.delete_ledger(ledger_id)
        except LedgerError as error:
            log.warning("ledger %d of a schema is left behind: %s", ledger_id, error)
