"""Codes of the client's errors (BKException.Code), and what a bookie's return code means to it
(CompletionValue.convertStatus)."""

import pytest

from magnetar.storage.ledger.ledger_errors import (
    BookieHandleNotAvailable,
    BookieTimeout,
    LedgerError,
    ends_writer,
    error_class,
)
from pulsar_proto.wire.bookie_wire import BookieRc

CODES = {
    BookieRc.ENOLEDGER: (-7, -7),
    BookieRc.ENOENTRY: (-13, -13),
    BookieRc.EBADREQ: (-1, -12),
    BookieRc.EIO: (-1, -12),
    BookieRc.EUA: (-102, -102),
    BookieRc.EBADVERSION: (-16, -16),
    BookieRc.EFENCED: (-101, -101),
    BookieRc.EREADONLY: (-104, -104),
    BookieRc.ETOOMANYREQUESTS: (-105, -105),
    BookieRc.EUNKNOWNLEDGERSTATE: (-108, -108),
}
"""Maps a return code to (error code of a read, error code of an add)."""


@pytest.mark.parametrize("rc", [rc for rc in BookieRc if rc is not BookieRc.EOK])
def test_a_return_code_has_its_meaning_in_each_direction(rc: BookieRc) -> None:
    assert (error_class(int(rc), reading=True).code, error_class(int(rc), reading=False).code) == CODES[rc]


def test_what_a_channel_reports_of_itself_keeps_its_code() -> None:
    for kind in (BookieHandleNotAvailable, BookieTimeout):
        assert error_class(kind.code, reading=False) is kind
        assert error_class(kind.code, reading=True) is kind


def test_an_unknown_code_is_a_failed_read_or_write() -> None:
    assert error_class(99, reading=True).code == -1
    assert error_class(-999, reading=False).code == -12


def test_only_a_fence_a_wrong_key_and_an_illegal_operation_end_a_writer() -> None:
    ending = {rc for rc in BookieRc if ends_writer(int(rc))}
    assert ending == {BookieRc.EFENCED, BookieRc.EUA}
    assert {code for code in range(-1000, 0) if ends_writer(code)} == {-101, -102, -100}


def test_a_code_has_one_class() -> None:
    with pytest.raises(TypeError, match="-101 belongs to LedgerFenced"):
        type("Another", (LedgerError,), {}, code=-101)
