"""The rules of open and aborted transactions against a model that looks at the whole log each time."""

from random import Random

import pytest

from magnetar.server.topics.transactions.buffer_rules import OpenTransactions
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.records.transaction_snapshot import AbortedTxn


class Log:
    """A log in one ledger after another, of `size` entries each. Entries before `first` are deleted."""

    def __init__(self, size: int = 4) -> None:
        self.size = size
        self.count = 0
        self.first = 0

    def at(self, rank: int) -> Position:
        return Position(10 + rank // self.size, rank % self.size)

    @property
    def last_confirmed(self) -> Position:
        return self.at(self.count - 1) if self.count else Position(10, -1)

    @property
    def first_position(self) -> Position:
        return self.at(self.first)

    def previous_position(self, position: Position) -> Position:
        rank = (position.ledger_id - 10) * self.size + position.entry_id
        return self.at(rank - 1) if rank > self.first else Position(position.ledger_id, position.entry_id - 1)

    def append(self) -> Position:
        self.count += 1
        return self.at(self.count - 1)


@pytest.mark.parametrize("seed", range(30))
def test_the_read_limit_and_the_aborted_ones_are_those_that_the_whole_log_shows(seed: int) -> None:
    random = Random(seed)
    log = Log()
    rules = OpenTransactions(log)
    entries: list[tuple[TxnId | None, bool | None]] = []
    """(transaction, None for a message, else whether the marker commits)"""
    for _ in range(200):
        txn_id = TxnId(random.randint(0, 1), random.randint(0, 12))
        step = random.random()
        position = log.append()
        if step < 0.3:
            entries.append((None, None))
        elif step < 0.7:
            entries.append((txn_id, None))
            rules.stored(txn_id, position, 0)
        elif step < 0.85:
            entries.append((txn_id, True))
            rules.committed(txn_id)
        else:
            entries.append((txn_id, False))
            rules.aborted_at(txn_id, position)
        first_open, aborted = _look(entries)
        assert rules.max_read_position == (log.last_confirmed if first_open is None else before(log, first_open))
        assert rules.aborted == {each: log.at(rank) for each, rank in aborted.items()}
        assert (rules.oldest() is None) == (first_open is None)


def before(log: Log, rank: int) -> Position:
    return log.at(rank - 1) if rank else Position(10, -1)


def _look(entries: list[tuple[TxnId | None, bool | None]]) -> tuple[int | None, dict[TxnId, int]]:
    """Returns the first entry of the first transaction that is open, and the marker of each aborted one."""
    opened: dict[TxnId, int] = {}
    aborted: dict[TxnId, int] = {}
    for rank, (txn_id, commits) in enumerate(entries):
        if txn_id is None:
            continue
        if commits is None:
            if txn_id not in aborted:
                opened.setdefault(txn_id, rank)
            continue
        opened.pop(txn_id, None)
        if not commits:
            aborted[txn_id] = rank
    return min(opened.values(), default=None), aborted


def test_an_aborted_transaction_is_forgotten_with_the_ledger_of_its_marker() -> None:
    log = Log(size=1)
    rules = OpenTransactions(log)
    rules.restore([AbortedTxn(TxnId(0, 1), Position(9, 0)), AbortedTxn(TxnId(0, 2), Position(11, 0))])
    assert rules.is_aborted(TxnId(0, 1))
    log.count, log.first = 3, 1
    rules.aborted_at(TxnId(0, 3), Position(12, 0))
    assert list(rules.aborted) == [TxnId(0, 2), TxnId(0, 3)]


def test_the_low_watermark_is_signed_and_only_grows() -> None:
    rules = OpenTransactions(Log())
    assert not rules.is_over(TxnId(0, 0))
    rules.watermark(0, -1)
    assert not rules.is_over(TxnId(0, 0))
    rules.watermark(0, 7)
    rules.watermark(0, 3)
    assert rules.is_over(TxnId(0, 7))
    assert not rules.is_over(TxnId(0, 8))
    assert not rules.is_over(TxnId(1, 0))
    assert rules.low_watermarks == {0: 7}


def test_a_hundred_thousand_transactions_end_in_order_in_no_time() -> None:
    """Ends that each looked through all that have ended before would take minutes."""
    log = Log(size=1_000_000)
    rules = OpenTransactions(log)
    for least in range(100_000):
        rules.stored(TxnId(0, least), log.append(), 0)
    for least in range(100_000):
        rules.aborted_at(TxnId(0, least), log.append())
    assert rules.max_read_position == log.last_confirmed
    assert len(rules.aborted) == 100_000
