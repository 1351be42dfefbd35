"""Ledger records in the metadata store: create, read, compare-and-set, delete.

Paths and bytes are those of BookKeeper's hierarchical ("hybrid") ledger manager (bookkeeper.md 3 and 4), made by
`pulsar_proto.ledger_record`. Every method raises LedgerMetadataFault when the store fails, MetadataDamaged for a record
that is none.
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
"""Compare-and-set rounds lost in a row; a ledger has one writer and seldom a recoverer, so more means a fault."""

CREATE_ATTEMPTS_MAX = 100
"""Ledger ids drawn that turned out to be taken."""


class Versioned(NamedTuple):
    metadata: LedgerMetadata
    version: int
    """The record's version in the store, for the next compare-and-set."""


@contextmanager
def _as_ledger_errors(doing: str) -> Iterator[None]:
    try:
        yield
    except MetadataError as error:
        raise LedgerMetadataFault(f"{doing}: {error}") from error
    except MalformedRecord as error:
        raise MetadataDamaged(f"{doing}: {error}") from error


class LedgerMetadataDriver:
    """`next_id` draws ledger ids that were never used before; `root` is BookKeeper's `/ledgers`."""

    def __init__(self, store: MetadataStore, next_id: Callable[[], Awaitable[int]], root: str = LEDGERS_ROOT) -> None:
        self._store = store
        self._next_id = next_id
        self._root = root

    def path(self, ledger_id: int) -> str:
        return ledger_path(ledger_id, self._root)

    async def create(self, draft: LedgerMetadata, ctoken: int) -> Versioned:
        """Writes a new ledger's record under a fresh id, which replaces the draft's.

        `ctoken`: random, not negative, other for each ledger. A record that exists already but carries it is this
        creation's own, whose answer got lost. Raises LedgerExists after too many ids that were taken.
        """
        for _ in range(CREATE_ATTEMPTS_MAX):
            with _as_ledger_errors("new ledger id"):
                ledger_id = await self._next_id()
            created = await self._create(replace(draft, ledger_id=ledger_id, ctoken=ctoken))
            if created is not None:
                return created
        raise LedgerExists(f"{CREATE_ATTEMPTS_MAX} new ledger ids in a row were taken")

    async def create_as(self, draft: LedgerMetadata, ctoken: int) -> Versioned:
        """Writes a new ledger's record under the draft's own id. Raises LedgerExists."""
        metadata = replace(draft, ctoken=ctoken)
        created = await self._create(metadata)
        if created is None:
            raise LedgerExists(f"ledger {draft.ledger_id}")
        return created

    async def _create(self, metadata: LedgerMetadata) -> Versioned | None:
        """None when another ledger has the id."""
        path = self.path(metadata.ledger_id)
        with _as_ledger_errors("create"):
            try:
                created = await self._store.create(path, metadata.serialize(), make_parents=True)
                return Versioned(metadata, created.stat.version)
            except NodeExistsError:
                record = await self._store.get(path)
            if record is None or LedgerMetadata.parse(metadata.ledger_id, record.value).ctoken != metadata.ctoken:
                return None
            return Versioned(metadata, record.stat.version)

    def watch(self, ledger_id: int, changed: Callable[[], None]) -> CancelWatch:
        """Calls back on the loop after each change of the ledger's record; the callback must not raise or block."""
        return self._store.watch(self.path(ledger_id), lambda event: changed())

    async def read(self, ledger_id: int) -> Versioned:
        """Raises NoSuchLedger."""
        with _as_ledger_errors("read"):
            record = await self._store.get(self.path(ledger_id))
            if record is None:
                raise NoSuchLedger(f"there is no ledger {ledger_id}")
            return Versioned(LedgerMetadata.parse(ledger_id, record.value), record.stat.version)

    async def update(self, known: Versioned, step: Step) -> Versioned:
        """Applies `step` by compare-and-set and returns what the store holds then.

        1. Apply the step to the metadata known. 2. Nothing to write: done. 3. Write it if the version is unchanged.
        4. Changed by somebody else: read again, back to 1. Raises what the step raises, NoSuchLedger, MetadataVersion.
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
                    return Versioned(changed, stat.version)
                except BadVersionError:
                    pass
                except NoNodeError as error:
                    raise NoSuchLedger(f"ledger {ledger_id}") from error
            known = await self.read(ledger_id)
        raise MetadataVersion(f"ledger {ledger_id}: lost {UPDATE_ATTEMPTS_MAX} compare-and-set rounds in a row")

    async def delete(self, ledger_id: int) -> None:
        """Deletes the record, and parents that this leaves empty. A record that is gone already is success.

        The bookies notice the missing record and reclaim the space (bookkeeper.md 5 "Delete").
        """
        path = self.path(ledger_id)
        with _as_ledger_errors("delete"):
            try:
                await self._store.delete(path)
            except NoNodeError:
                return
            await delete_empty_parents(self._store, path, self._root)
