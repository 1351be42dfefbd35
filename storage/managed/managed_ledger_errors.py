"""Errors of managed ledgers.

Each class carries the ServerError code that a client is told. `retriable` says whether the same call may succeed later
on the same object.
"""

from typing import ClassVar

from pulsar_proto.pb import pulsar_api_pb2 as pb


class ManagedLedgerError(Exception):
    """The base of all errors of managed ledgers. `name` is the managed ledger concerned."""

    code: ClassVar[pb.ServerError.ValueType] = pb.PersistenceError
    retriable: ClassVar[bool] = False

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class NoSuchManagedLedger(ManagedLedgerError):
    """A managed ledger that has no record was to be opened without `create`, or to be deleted."""

    code = pb.TopicNotFound

    def __init__(self, name: str) -> None:
        super().__init__(name, "no such managed ledger")


class ManagedLedgerFenced(ManagedLedgerError):
    """Another owner has taken over the managed ledger, so this object cannot be used any more
    (ManagedLedgerFencedException)."""

    code = pb.ServiceNotReady


class ManagedLedgerClosed(ManagedLedgerError):
    """The managed ledger was used after close() or delete()."""

    code = pb.ServiceNotReady


class ManagedLedgerTerminated(ManagedLedgerError):
    """An entry was added after terminate()."""

    code = pb.TopicTerminatedError

    def __init__(self, name: str) -> None:
        super().__init__(name, "terminated, takes no more entries")


class AppendFault(ManagedLedgerError):
    """Entries could not be stored. It is unknown whether these entries are in the log, as after any lost answer."""

    retriable = True


class TooManyPending(ManagedLedgerError):
    """The queue of groups that wait for a new ledger is full (`append_queue.PENDING_ENTRIES_MAX`,
    `PENDING_BYTES_MAX`)."""

    code = pb.TooManyRequests
    retriable = True


class EntryReadFault(ManagedLedgerError):
    """A stored entry cannot be read now."""

    retriable = True


class LedgerGone(ManagedLedgerError):
    """A ledger of the list cannot be read at all, because it was offloaded and removed from the bookies."""


class EntriesLost(ManagedLedgerError):
    """Every replica was asked for an entry, and none has it (NonRecoverableLedgerException). With
    autoSkipNonRecoverableData such entries are passed over instead."""

    retriable = True


class MetaStoreFault(ManagedLedgerError):
    """The metadata store failed (ManagedLedgerException.MetaStoreException). The outcome of a write is unknown until
    the record is read again."""

    code = pb.MetadataError
    retriable = True


class NoSuchCursor(ManagedLedgerError):
    """The managed ledger has no cursor of that name."""

    code = pb.SubscriptionNotFound

    def __init__(self, name: str, cursor: str) -> None:
        super().__init__(name, f"no cursor {cursor!r}")


class CursorFault(ManagedLedgerError):
    """The cursor's state could not be stored or read, or the cursor is closed or deleted. A state that could not be
    stored stays in memory, and storing it is tried again."""

    retriable = True


class CursorExists(CursorFault):
    """A cursor cannot be created, because another owner has created it."""
