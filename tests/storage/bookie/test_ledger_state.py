"""Master keys and fences survive restarts."""

import pytest

from magnetar.storage.bookie.ledger_state import BookieLedgerState, LedgerStates


def test_a_state_reads_back_as_it_was_written() -> None:
    fenced = BookieLedgerState(7, b"key", fenced=True)
    assert fenced.encode() == b"\x01\x03key"
    again = BookieLedgerState.decode(7, fenced.encode())
    assert (again.ledger_id, again.master_key, again.fenced, again.fence_durable, again.key_durable) == (
        7,
        b"key",
        True,
        True,
        True,
    )
    assert not BookieLedgerState.decode(7, b"\x00\x00").fenced


def test_limbo_and_an_unknown_key_are_kept() -> None:
    states = LedgerStates()
    states.create(1, b"key")
    for ledger_id in (1, 2):
        states.put_into_limbo(ledger_id)
    records = dict(states.take_changed())
    assert records == {1: b"\x03\x03key", 2: b"\x07\x00"}
    known, unknown = (BookieLedgerState.decode(ledger_id, data) for ledger_id, data in records.items())
    assert (known.master_key, known.limbo, known.fenced) == (b"key", True, True)
    assert (unknown.master_key, unknown.limbo, unknown.fenced) == (None, True, True)
    states.learn_key(unknown, b"other")
    assert (unknown.master_key, unknown.key_durable, states.changed) == (b"other", False, {2})


def test_a_kept_ledger_is_kept_over_a_restart() -> None:
    states = LedgerStates()
    states.create(1, b"key")
    states.create(2, b"key")
    states.keep([2])
    records = dict(states.take_changed())
    assert records == {1: b"\x00\x03key", 2: b"\x08\x03key"}
    assert [BookieLedgerState.decode(ledger_id, data).kept for ledger_id, data in records.items()] == [False, True]
    assert states.kept_ids() == {2}


@pytest.mark.parametrize("data", [b"", b"\x00", b"\x00\x03ke", b"\x00\x01key"])
def test_a_state_of_the_wrong_length_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        BookieLedgerState.decode(7, data)


def test_changes_are_handed_out_once() -> None:
    states = LedgerStates()
    states.load(BookieLedgerState(1, b"key"))
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
