"""Ledger records in the metadata store: create, read, compare-and-set, delete.

Paths and bytes are those of BookKeeper's hierarchical ("hybrid") ledger manager (HierarchicalLedgerManager), made by
`pulsar_proto.records.ledger_record`. Every method raises LedgerMetadataFault when the store fails, and MetadataDamaged
for a record that does not decode.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from magnetar.metadata.errors import BadVersionError, MetadataError, NodeExistsError, NoNodeError
from magnetar.metadata.store import CancelWatch, MetadataStore, delete_empty_parents
from magnetar.storage.ledger.fragment_rules import Step
from magnetar.storage.ledger.ledger_errors import (
    LedgerExists,
    LedgerMetadataFault,
    MetadataDamaged,
    MetadataVersion,
    NoSuchLedger,
)
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.records.ledger_record import LEDGERS_ROOT, LedgerMetadata, ledger_path

UPDATE_ATTEMPTS_MAX = 100
"""How many compare-and-set rounds may be lost in a row. A ledger has one writer and seldom a recoverer, so more lost
rounds mean a fault."""

CREATE_ATTEMPTS_MAX = 100
"""How many ledger ids that are taken already are tried before giving up."""


class VersionedMetadata(NamedTuple):
    """A ledger's metadata as read or written at one version of its record."""

    metadata: LedgerMetadata
    version: int
    """The record's version in the store, for the next compare-and-set."""


@contextmanager
def _as_ledger_errors(doing: str) -> Iterator[None]:
    """Turns the errors of the store, and of a record that does not decode, into those of the ledger client."""
    try:
        yield
    except MetadataError as error:
        raise LedgerMetadataFault(f"{doing}: {error}") from error
    except MalformedRecord as error:
        raise MetadataDamaged(f"{doing}: {error}") from error


class LedgerMetadataDriver:
    """Reads and writes ledgers' records. `next_id` draws ledger ids that were never used before; `root` is BookKeeper's
    `/ledgers`."""

    def __init__(self, store: MetadataStore, next_id: Callable[[], Awaitable[int]], root: str = LEDGERS_ROOT) -> None:
        self._store = store
        self._next_id = next_id
        self._root = root

    def path(self, ledger_id: int) -> str:
        return ledger_path(ledger_id, self._root)

    async def create(self, draft: LedgerMetadata, ctoken: int) -> VersionedMetadata:
        """Writes a new ledger's record under a fresh id, which replaces the id of the draft.

        `ctoken` is a random number, not negative, a different one for each ledger. If there is a record already and it
        carries this number, it was made by this very call, whose answer got lost (as in
        AbstractZkLedgerManager.createLedgerMetadata). Raises LedgerExists after CREATE_ATTEMPTS_MAX ids that were
        taken.
        """
        for _ in range(CREATE_ATTEMPTS_MAX):
            with _as_ledger_errors("new ledger id"):
                ledger_id = await self._next_id()
            created = await self._create(replace(draft, ledger_id=ledger_id, ctoken=ctoken))
            if created is not None:
                return created
        raise LedgerExists(f"{CREATE_ATTEMPTS_MAX} new ledger ids in a row were taken")

    async def create_as(self, draft: LedgerMetadata, ctoken: int) -> VersionedMetadata:
        """Writes a new ledger's record under the draft's own id. Raises LedgerExists."""
        metadata = replace(draft, ctoken=ctoken)
        created = await self._create(metadata)
        if created is None:
            raise LedgerExists(f"ledger {draft.ledger_id}")
        return created

    async def _create(self, metadata: LedgerMetadata) -> VersionedMetadata | None:
        """Writes the record of a new ledger. Returns None when another ledger has that id."""
        path = self.path(metadata.ledger_id)
        with _as_ledger_errors("create"):
            try:
                created = await self._store.create(path, metadata.serialize(), make_parents=True)
                return VersionedMetadata(metadata, created.stat.version)
            except NodeExistsError:
                record = await self._store.get(path)
            if record is None or LedgerMetadata.parse(metadata.ledger_id, record.value).ctoken != metadata.ctoken:
                return None
            return VersionedMetadata(metadata, record.stat.version)

    def watch(self, ledger_id: int, changed: Callable[[], None]) -> CancelWatch:
        """Has `changed` called on the loop after each change of the ledger's record. `changed` must not raise or block.
        Returns a function that ends the calls."""
        return self._store.watch(self.path(ledger_id), lambda event: changed())

    async def read(self, ledger_id: int) -> VersionedMetadata:
        """Returns the ledger's metadata and the version of its record. Raises NoSuchLedger."""
        with _as_ledger_errors("read"):
            record = await self._store.get(self.path(ledger_id))
            if record is None:
                raise NoSuchLedger(f"there is no ledger {ledger_id}")
            return VersionedMetadata(LedgerMetadata.parse(ledger_id, record.value), record.stat.version)

    async def update(self, known: VersionedMetadata, step: Step) -> VersionedMetadata:
        """Applies `step` by compare-and-set and returns the metadata that the store then holds.

        1. Apply the step to the metadata as last known.
        2. If the step has nothing to write, return.
        3. Write the result, provided that the record's version is unchanged; return on success.
        4. If another client has changed the record, read the record again and go back to 1.

        This is not `metadata/compare_and_set.py`, which reads the record first: the caller has the metadata already, so
        an undisturbed change costs one round trip to the store.

        Raises the errors of `step`, NoSuchLedger, and MetadataVersion after UPDATE_ATTEMPTS_MAX rounds. Source:
        MetadataUpdateLoop of Apache's client.
        """
        ledger_id = known.metadata.ledger_id
        for _ in range(UPDATE_ATTEMPTS_MAX):
            changed = step(known.metadata)
            if changed is None:
                return known
            with _as_ledger_errors("update"):
                try:
                    stat = await self._store.put(
                        self.path(ledger_id), changed.serialize(), expected_version=known.version
                    )
                    return VersionedMetadata(changed, stat.version)
                except BadVersionError:
                    pass
                except NoNodeError as error:
                    raise NoSuchLedger(f"ledger {ledger_id}") from error
            known = await self.read(ledger_id)
        raise MetadataVersion(f"ledger {ledger_id}: lost {UPDATE_ATTEMPTS_MAX} compare-and-set rounds in a row")

    async def delete(self, ledger_id: int) -> None:
        """Deletes the record, and the parents that become empty. If the record is gone already, that is success.

        The bookies notice that the record is missing and reclaim the space.
        """
        path = self.path(ledger_id)
        with _as_ledger_errors("delete"):
            try:
                await self._store.delete(path)
            except NoNodeError:
                return
            await delete_empty_parents(self._store, path, self._root)
