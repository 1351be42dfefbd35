"""Opening a managed ledger: from its record to a list of closed ledgers that nobody else can extend.

The steps are those of ManagedLedgerImpl.initialize, and a process may die after any of them:

1. Read the record, or create it.
2. Open the last ledger with recovery. Recovery fences and closes the ledger, so an owner that still writes to it stops.
3. Write the record by compare-and-set, with that ledger's size and without empty ledgers, even if nothing changed. An
   owner that is between two ledgers finds another version and stops.
4. Delete the empty ledgers.

Unlike Apache's broker, this module does not create the next ledger. The first append creates it (`appender`), with a
compare-and-set of its own before the entry is sent. The guarantee is the same: an entry is confirmed only in a ledger
that is in the list as its owner last wrote it. And opening ten thousand idle topics makes no ledgers that the next
start must delete.
"""

import logging
from dataclasses import replace
from typing import NamedTuple

from magnetar.metadata.errors import MetadataError, NodeExistsError
from magnetar.metadata.store import MetadataStore
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import LedgerError, NoSuchLedger
from magnetar.storage.managed.ledger_list import LedgerInfo, LedgerList
from magnetar.storage.managed.list_record import ListRecord, parse_list, serialize_list
from magnetar.storage.managed.list_store import ListStore
from magnetar.storage.managed.managed_ledger_errors import (
    AppendFault,
    ManagedLedgerFenced,
    MetaStoreFault,
    NoSuchManagedLedger,
)
from magnetar.storage.managed.versioned_record import SupersededError, VersionedRecord
from pulsar_proto.errors import MalformedRecord

logger = logging.getLogger(__name__)


class OpenedList(NamedTuple):
    """The opened list, and the ledgers that are left to be deleted."""

    lists: ListStore
    garbage: tuple[int, ...]
    """Ledgers that left the list and are to be deleted."""
    has_cursors: bool
    """Whether the record has children, which are the cursors."""


async def open_list(
    label: str, path: str, metadata: MetadataStore, bookkeeper: BookKeeper, *, create: bool, now_ms: int
) -> OpenedList:
    """Takes over the list of a managed ledger. Raises NoSuchManagedLedger (without `create`), ManagedLedgerFenced
    (another process opened it at the same time), MetaStoreFault, AppendFault (the last ledger could not be recovered
    now)."""
    record = VersionedRecord(metadata, path)
    try:
        value = await record.load()
        if value is None:
            if not create:
                raise NoSuchManagedLedger(label)
            try:
                await record.create(b"")
            except NodeExistsError:
                value = await record.load()
                if value is None:
                    raise ManagedLedgerFenced(label, "created and deleted by others meanwhile") from None
            else:
                return OpenedList(_list_store(label, record, ListRecord()), (), False)
        stored = parse_list(value)
        closed = await _recover_last(label, stored, bookkeeper, now_ms)
        ledgers = tuple(ledger for ledger in closed if ledger.entries)
        kept = ListRecord(ledgers, stored.terminated, stored.properties, stored.extra)
        written = await record.write(serialize_list(kept.ledgers, kept.terminated, kept.properties, kept.extra))
    except SupersededError as error:
        raise ManagedLedgerFenced(label, f"opened elsewhere at the same time: {error}") from error
    except MetadataError as error:
        raise MetaStoreFault(label, str(error)) from error
    except MalformedRecord as error:
        raise MetaStoreFault(label, f"damaged record at {path}: {error}") from error
    garbage = tuple(ledger.ledger_id for ledger in closed if not ledger.entries)
    if garbage:
        logger.info("%s: opened, %d ledgers, %d empty ones dropped", label, len(kept.ledgers), len(garbage))
    return OpenedList(_list_store(label, record, kept), garbage, bool(written.child_count))


async def _recover_last(label: str, stored: ListRecord, bookkeeper: BookKeeper, now_ms: int) -> list[LedgerInfo]:
    """Returns the ledgers, with the last one closed and its entries counted."""
    ledgers = sorted(stored.ledgers, key=lambda ledger: ledger.ledger_id)
    if not ledgers or ledgers[-1].offloaded_only:
        return ledgers
    last = ledgers.pop()
    try:
        handle = await bookkeeper.open_ledger(last.ledger_id, recover=True)
    except NoSuchLedger:
        # Nothing can bring the entries of this ledger back. Apache's broker goes on without such a ledger, too.
        logger.warning("%s: last ledger %d does not exist, dropped from the list", label, last.ledger_id)
        return ledgers
    except LedgerError as error:
        raise AppendFault(label, f"ledger {last.ledger_id} cannot be recovered: {error}") from error
    closed_ms = last.closed_ms or now_ms
    ledgers.append(replace(last, entries=handle.last_add_confirmed + 1, size=handle.length, closed_ms=closed_ms))
    return ledgers


def _list_store(label: str, record: VersionedRecord, stored: ListRecord) -> ListStore:
    ledgers = LedgerList(stored.ledgers)
    if stored.terminated is not None and not len(ledgers):
        ledgers.last_confirmed = stored.terminated
    return ListStore(
        label,
        record,
        ledgers,
        terminated=stored.terminated,
        properties=dict(stored.properties),
        extra=stored.extra,
    )
