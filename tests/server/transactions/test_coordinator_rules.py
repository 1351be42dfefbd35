"""The transactions of a coordinator: what records do, and what Apache's recorded logs come to."""

from random import Random

import pytest

from magnetar.server.transactions.coordinator_rules import TransactionTable
from magnetar.server.transactions.log_place import LogPlace, acks_of, is_left, places_in
from magnetar.storage.managed.ack_sets import mask_of_words
from pulsar_proto.errors import InvalidTxnStatus, TransactionNotFound
from pulsar_proto.ids import TxnId
from pulsar_proto.records.transaction_log import (
    Record,
    TxnStatus,
    new_record,
    parse_entry,
    partitions_record,
    update_record,
)
from tests.pulsar_proto.vectors import Item, load, unhex

LOGS = {ledger["ledger"]: ledger for ledger in load("transaction_log.json") if ledger["kind"] == "log"}
OPEN, COMMITTING, COMMITTED = TxnStatus.OPEN, TxnStatus.COMMITTING, TxnStatus.COMMITTED


def replayed(ledger: Item) -> tuple[TransactionTable, set[LogPlace], set[LogPlace]]:
    """Replays a recorded ledger. Returns the transactions, all places, and the places that can be deleted."""
    table, places, deleted = TransactionTable(0), set[LogPlace](), set[LogPlace]()
    for entry in ledger["entries"]:
        records, _ = parse_entry(unhex(entry["hex"]))
        for record, place in zip(records, places_in(ledger["ledger"], entry["entry"], len(records)), strict=True):
            places.add(place)
            try:
                deleted.update(table.apply(record, place))
            except InvalidTxnStatus:
                deleted.add(place)
    return table, places, deleted


def test_apaches_recorded_log_comes_to_what_apaches_cursor_says() -> None:
    """The recorded cursor has acknowledged all entries of ledger 144 but the third: mark-delete 144:1, and 144:2 to
    144:44, where the lower end is not part of the range."""
    table, places, deleted = replayed(LOGS[144])
    assert [(each.txn_id, each.status, each.places) for each in table] == [(TxnId(0, 47), OPEN, [LogPlace(144, 2)])]
    assert places - deleted == {LogPlace(144, 2)}
    assert (table.counter, table.low_watermark) == (67, 46)
    assert any(place.slot >= 0 for place in places)


def test_apaches_recorded_log_of_single_records_ends_all_its_transactions() -> None:
    """The first 60 entries of ledger 18, of transactions that began in this ledger or before it."""
    table, places, deleted = replayed(LOGS[18])
    assert len(table) == 0
    assert deleted == places
    assert (table.counter, table.low_watermark) == (29, 0)


def record_of(kind: str, least: int, counter: int) -> Record:
    txn_id = TxnId(0, least)
    match kind:
        case "new":
            return new_record(txn_id, counter=counter, now_ms=1, timeout_ms=1, owner=None)
        case "add":
            return partitions_record(txn_id, [f"t{counter}"], counter=counter, now_ms=1)
        case "commit":
            return update_record(txn_id, OPEN, COMMITTING, counter=counter, now_ms=1)
        case "committed":
            return update_record(txn_id, COMMITTING, COMMITTED, counter=counter, now_ms=1)
        case "abort":
            return update_record(txn_id, OPEN, TxnStatus.ABORTING, counter=counter, now_ms=1)
        case _:
            return update_record(txn_id, TxnStatus.ABORTING, TxnStatus.ABORTED, counter=counter, now_ms=1)


@pytest.mark.parametrize("seed", range(20))
def test_a_replay_of_what_is_left_comes_to_the_same_state(seed: int) -> None:
    """Any records in any order: those that were not deleted make the same transactions again."""
    rng = Random(seed)
    table, log = TransactionTable(0), dict[LogPlace, Record]()
    counter = -1
    for entry_id in range(300):
        kind = rng.choice(["new", "add", "add", "commit", "committed", "abort", "aborted"])
        counter += kind == "new"
        least = counter if kind == "new" else rng.randint(0, max(counter, 0) + 1)
        place, record = LogPlace(1, entry_id), record_of(kind, least, counter)
        log[place] = record
        try:
            gone = list(table.apply(record, place))
        except InvalidTxnStatus:
            gone = [place]
        for each in gone:
            del log[each]
        again = TransactionTable(0)
        for at, left in log.items():
            assert not again.apply(left, at)
        assert [_state(each) for each in again] == [_state(each) for each in table]
        assert again.low_watermark == table.low_watermark


def _state(transaction: object) -> tuple[object, ...]:
    return tuple(getattr(transaction, name) for name in ("txn_id", "status", "partitions", "places"))


def test_a_second_record_of_an_end_changes_nothing() -> None:
    table = TransactionTable(0)
    table.apply(record_of("new", 0, 0), LogPlace(1, 0))
    assert not table.apply(record_of("commit", 0, 0), LogPlace(1, 1))
    assert not table.apply(record_of("commit", 0, 0), LogPlace(1, 2))
    with pytest.raises(
        InvalidTxnStatus, match=r"Expect Txn `\(0,0\)` to be in ABORTING status but it is in COMMITTING"
    ):
        table.apply(record_of("abort", 0, 0), LogPlace(1, 3))
    assert table.apply(record_of("committed", 0, 0), LogPlace(1, 4)) == [LogPlace(1, each) for each in (0, 1, 2, 4)]
    with pytest.raises(TransactionNotFound):
        table.get(TxnId(0, 0))


@pytest.mark.parametrize("size", [1, 2, 63, 64, 65, 512])
def test_deleting_each_record_of_a_batch_leaves_none(size: int) -> None:
    places = list(places_in(3, 4, size))
    if size == 1:
        assert acks_of(places) == [(3, 4, None)]
        return
    left = (1 << size) - 1
    for number, place in enumerate(places):
        ((_, _, words),) = acks_of([place])
        assert words is not None
        assert is_left([left >> 64 * word & 2**64 - 1 for word in range(8)], place)
        left &= mask_of_words(words)
        assert left.bit_count() == size - number - 1


def test_the_records_of_an_entry_are_deleted_together() -> None:
    batch = list(places_in(3, 4, 70))
    acks = acks_of([*batch[:3], LogPlace(3, 5), batch[69], LogPlace(2, 9)])
    assert [(*each[:2], None if each[2] is None else mask_of_words(each[2])) for each in acks] == [
        (2, 9, None),
        (3, 4, ((1 << 70) - 1) & ~(0b111 | 1 << 69)),
        (3, 5, None),
    ]
    ((_, _, words),) = acks_of(batch)
    assert words == [0, 0]
