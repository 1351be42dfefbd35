"""Every error that the ledger client raises or hands to a callback, with BookKeeper's client code.

Codes and names: `BKException.Code` of Apache's client. A class whose code is taken already raises at import. What
one bookie caused is a `BookieFault`; these decide about ensemble change and about the next replica of a read.
"""

from typing import ClassVar

from pulsar_proto.wire.bookie_wire import BookieRc

_BY_CODE: dict[int, type["LedgerError"]] = {}


class LedgerError(Exception):
    """Base of all. `code` is BookKeeper's; `retriable` says that the same call may succeed later, unchanged."""

    code: ClassVar[int]
    retriable: ClassVar[bool] = False
    is_lost = False
    """Of a read: every replica answered, and none has the entry in order; it will not come back by itself."""

    def __init_subclass__(cls, *, code: int | None = None, retriable: bool = False) -> None:
        super().__init_subclass__()
        if code is None:
            return
        if code in _BY_CODE:
            raise TypeError(f"{cls.__name__}: code {code} belongs to {_BY_CODE[code].__name__}")
        cls.code = code
        cls.retriable = retriable
        _BY_CODE[code] = cls


class BookieFault(LedgerError):
    """What one bookie answered, or failed to."""


class ReadFault(BookieFault, code=-1, retriable=True):
    """A bookie could not read, or a read went beyond the last confirmed entry."""


class DigestMismatch(BookieFault, code=-5, retriable=True):
    """A stored entry does not belong to its id, or its bytes are damaged."""


class NotEnoughBookies(LedgerError, code=-6, retriable=True):
    """Fewer writable bookies than an ensemble, or the replacement of a failed one, needs."""


class NoSuchLedgerOnBookie(BookieFault, code=-7):
    """The bookie never saw the ledger."""


class BookieHandleNotAvailable(BookieFault, code=-8, retriable=True):
    """The bookie cannot be reached, or the connection ended before it answered."""


class LedgerMetadataFault(LedgerError, code=-9, retriable=True):
    """The metadata store failed (BookKeeper: ZKException)."""


class LedgerRecoveryFailed(LedgerError, code=-10, retriable=True):
    """Recovery could not decide where the ledger ends, or could not copy an entry; nothing was closed."""


class LedgerClosed(LedgerError, code=-11):
    """The ledger is closed: no entry can be added."""


class WriteFault(BookieFault, code=-12, retriable=True):
    """A bookie could not store an entry."""


class NoSuchEntry(BookieFault, code=-13):
    """The bookie has no such entry."""


class IncorrectParameter(LedgerError, code=-14):
    """The caller asked for something that cannot be: a bug on this side."""


class ProtocolVersion(BookieFault, code=-16):
    """The bookie does not speak the version of the request."""


class MetadataVersion(LedgerError, code=-17):
    """Somebody else changed the ledger's metadata in a way that contradicts the change asked for."""


class MetadataDamaged(LedgerError, code=-18):
    """The ledger's metadata record cannot be understood (BookKeeper: MetaStoreException)."""


class ClientClosed(LedgerError, code=-19):
    """The client was closed while the operation was under way."""


class LedgerExists(LedgerError, code=-20):
    """A ledger of that id exists already."""


class AddQuorumTimeout(LedgerError, code=-21, retriable=True):
    """The ack quorum was not reached in time."""


class DuplicateEntryId(LedgerError, code=-22):
    """An entry of that id was added before."""


class BookieTimeout(BookieFault, code=-23, retriable=True):
    """The bookie did not answer before the deadline."""


class NoSuchLedger(LedgerError, code=-25):
    """The metadata store knows no such ledger."""

    is_lost = True


class IllegalOperation(BookieFault, code=-100):
    """The bookie refuses such an operation on this ledger."""


class LedgerFenced(BookieFault, code=-101):
    """Another client recovers, or recovered, the ledger: this writer is over."""


class UnauthorizedAccess(BookieFault, code=-102):
    """Wrong password (master key)."""


class WriteOnReadOnlyBookie(BookieFault, code=-104, retriable=True):
    """The bookie takes no writes now."""


class BookieOverloaded(BookieFault, code=-105, retriable=True):
    """The bookie is overloaded."""


class LedgerIdOverflow(LedgerError, code=-106):
    """No ledger id is left."""


class DataUnknown(BookieFault, code=-108, retriable=True):
    """The bookie cannot tell whether it had the entry: it may have lost it."""


# Facts, bookkeeper.md 1.5. EIO, EBADREQ and everything unlisted depend on the direction.
_CODE_BY_RC = {
    int(BookieRc.ENOLEDGER): NoSuchLedgerOnBookie,
    int(BookieRc.ENOENTRY): NoSuchEntry,
    int(BookieRc.EBADVERSION): ProtocolVersion,
    int(BookieRc.EUA): UnauthorizedAccess,
    int(BookieRc.EFENCED): LedgerFenced,
    int(BookieRc.EREADONLY): WriteOnReadOnlyBookie,
    int(BookieRc.ETOOMANYREQUESTS): BookieOverloaded,
    int(BookieRc.EUNKNOWNLEDGERSTATE): DataUnknown,
}


def error_class(rc: int, *, reading: bool) -> type[LedgerError]:
    """The error that a bookie's return code means to its client.

    `rc` is a v2 return code other than EOK, or a negative client code that a channel reports for itself (-8 for a lost
    connection, -23 for a timeout).
    """
    known = _CODE_BY_RC.get(rc) if rc > 0 else _BY_CODE.get(rc)
    return known or (ReadFault if reading else WriteFault)


def ends_writer(rc: int) -> bool:
    """Whether one such answer to an add ends the handle at once; any other asks for an ensemble change.

    Facts, bookkeeper.md 5 "Write errors": EFENCED, EUA and IllegalOp.
    """
    return rc in _ENDS_WRITER


_ENDS_WRITER = frozenset(
    {
        int(BookieRc.EFENCED),
        int(BookieRc.EUA),
        LedgerFenced.code,
        UnauthorizedAccess.code,
        IllegalOperation.code,
    }
)
