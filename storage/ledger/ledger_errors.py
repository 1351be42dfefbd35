"""Every error that the ledger client raises or hands to a callback, with BookKeeper's code for it.

Codes and names are those of `BKException.Code` in Apache's client. Two classes with one code are refused at import. A
failure that one bookie caused is a `BookieFault`: a writer reacts to it by an ensemble change, a reader by asking the
next replica.
"""

from typing import ClassVar

from pulsar_proto.wire.bookie_wire import BookieRc

_BY_CODE: dict[int, type["LedgerError"]] = {}


class LedgerError(Exception):
    """The base of all errors of the ledger client. `code` is BookKeeper's code; `retriable` says that the same call,
    unchanged, may succeed later."""

    code: ClassVar[int]
    retriable: ClassVar[bool] = False
    is_lost = False
    """True on the error of a read if the entry will not come back by itself: every replica answered and no replica has
    it undamaged (`read_rules.most_telling_failure`), the ledger is gone, or the ledger was closed before the entry."""

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
    """A failure of one bookie: an error in the bookie's answer, or the lack of an answer."""


class ReadFault(BookieFault, code=-1, retriable=True):
    """A bookie could not read, or a read went beyond the last confirmed entry."""


class DigestMismatch(BookieFault, code=-5, retriable=True):
    """A stored entry does not belong to its id, or its bytes are damaged."""


class NotEnoughBookies(LedgerError, code=-6, retriable=True):
    """There are too few writable bookies to make an ensemble or to replace a failed bookie."""


class NoSuchLedgerOnBookie(BookieFault, code=-7):
    """The bookie does not know the ledger."""


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
    """The caller asked for something impossible, which is a bug on this side."""


class ProtocolVersion(BookieFault, code=-16):
    """The bookie does not speak the version of the request."""


class MetadataVersion(LedgerError, code=-17):
    """Somebody else changed the ledger's metadata in a way that contradicts the wanted change, or again and again."""


class MetadataDamaged(LedgerError, code=-18):
    """The ledger's metadata record cannot be understood (BookKeeper: MetaStoreException)."""


class ClientClosed(LedgerError, code=-19):
    """The client was closed before the call, or while the operation was under way."""


class LedgerExists(LedgerError, code=-20):
    """A ledger with this id exists already."""


class DuplicateEntryId(LedgerError, code=-22):
    """The caller of `create_ledger_adv` added an entry under an id that it used before."""


class BookieTimeout(BookieFault, code=-23, retriable=True):
    """The bookie did not answer before the deadline."""


class NoSuchLedger(LedgerError, code=-25):
    """The metadata store knows no such ledger."""

    is_lost = True


class IllegalOperation(BookieFault, code=-100):
    """The bookie refuses an operation of this kind on this ledger."""


class LedgerFenced(BookieFault, code=-101):
    """Another client recovers the ledger or has recovered it: this client may not write to it any more."""


class UnauthorizedAccess(BookieFault, code=-102):
    """The client gave the wrong password (master key) for the ledger."""


class WriteOnReadOnlyBookie(BookieFault, code=-104, retriable=True):
    """The bookie takes no writes now."""


class BookieOverloaded(BookieFault, code=-105, retriable=True):
    """The bookie is overloaded and did not take the request (BookKeeper: TooManyRequestsException)."""


class DataUnknown(BookieFault, code=-108, retriable=True):
    """The bookie may have lost the entry and cannot tell whether it ever had it (EUNKNOWNLEDGERSTATE)."""


# Source: CompletionValue.convertStatus of Apache's client. A code that is not listed (EIO, EBADREQ, …) becomes
# ReadFault after a read, and WriteFault after an add.
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
    """Returns the class of the error that a bookie's return code means to its client.

    `rc` is either a return code of protocol v2 other than EOK, or a negative client code that a channel reports by
    itself (-8 for a lost connection, -23 for a timeout).
    """
    known = _CODE_BY_RC.get(rc) if rc > 0 else _BY_CODE.get(rc)
    return known or (ReadFault if reading else WriteFault)


def ends_writer(rc: int) -> bool:
    """Whether a bookie's answer `rc` to an add ends the writer at once. After every other failure the writer changes
    the ensemble. EFENCED, EUA and IllegalOp end the writer in Apache's client too (PendingAddOp.writeComplete).
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
