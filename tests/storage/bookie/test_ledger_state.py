"""Master keys and fences, kept over restarts."""

import pytest

from storage.bookie.ledger_state import LedgerState, LedgerStates


def test_a_state_reads_back_as_it_was_written() -> None:
    fenced = LedgerState(7, b"key", fenced=True)
    assert fenced.encode() == b"\x01\x03key"
    again = LedgerState.decode(7, fenced.encode())
    assert (again.ledger_id, again.master_key, again.fenced, again.fence_durable, again.key_durable) == (
        7,
        b"key",
        True,
        True,
        True,
    )
    assert not LedgerState.decode(7, b"\x00\x00").fenced


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x03ke", b"\x00\x01key"])
def test_a_state_of_the_wrong_length_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        LedgerState.decode(7, data)


def test_changes_are_handed_out_once() -> None:
    states = LedgerStates()
    states.load(LedgerState(1, b"key"))
    states.create(3, b"key")
    states.create(2, b"key")
    assert [ledger_id for ledger_id, _ in states.take_changed()] == [2, 3]
    assert states.take_changed() == []


def test_a_removed_ledger_is_not_written_any_more() -> None:
    states = LedgerStates()
    states.create(3, b"key")
    states.remove(3)
    assert states.take_changed() == []
    assert 3 not in states
