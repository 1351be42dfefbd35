"""Records of a coordinator's log: those that Apache's broker wrote are read, and made again byte for byte."""

import pytest

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import TxnId
from pulsar_proto.records.batched_log import batch_entry
from pulsar_proto.records.transaction_log import (
    Record,
    TxnStatus,
    counter_of,
    new_record,
    parse_entry,
    partitions_record,
    subscriptions_record,
    update_record,
)
from tests.pulsar_proto.vectors import Item, as_described, load, unhex

ENTRIES = [entry for ledger in load("transaction_log.json") if ledger["kind"] == "log" for entry in ledger["entries"]]
BARE = [entry for entry in ENTRIES if "TransactionMetadataEntry" in entry]
BATCHES = [entry for entry in ENTRIES if "BatchedTransactionMetadataEntry" in entry]
DESCRIBED = [
    *(entry["TransactionMetadataEntry"] for entry in BARE),
    *(record for entry in BATCHES for record in entry["BatchedTransactionMetadataEntry"]["transaction_logs"]),
]


def made_again(described: Item) -> Record:
    """Returns the record with this description, as a coordinator makes it."""
    txn_id = TxnId(described["txnid_most_bits"], described["txnid_least_bits"])
    counter, now_ms = described["max_local_txn_id"], described["last_modification_time"]
    match described["metadata_op"]:
        case "NEW":
            timeout_ms, owner = described["timeout_ms"], described.get("owner")
            return new_record(txn_id, counter=counter, now_ms=now_ms, timeout_ms=timeout_ms, owner=owner)
        case "ADD_PARTITION":
            return partitions_record(txn_id, described["partitions"], counter=counter, now_ms=now_ms)
        case "ADD_SUBSCRIPTION":
            pairs = [(each["topic"], each["subscription"]) for each in described["subscriptions"]]
            return subscriptions_record(txn_id, pairs, counter=counter, now_ms=now_ms)
        case _:
            expected, new = TxnStatus[described["expected_status"]], TxnStatus[described["new_status"]]
            return update_record(txn_id, expected, new, counter=counter, now_ms=now_ms)


def test_the_captured_entries_have_all_kinds_of_records() -> None:
    kinds = {record["metadata_op"] for record in DESCRIBED}
    assert kinds == {"NEW", "ADD_PARTITION", "ADD_SUBSCRIPTION", "UPDATE"}
    sizes = {len(entry["BatchedTransactionMetadataEntry"]["transaction_logs"]) for entry in BATCHES}
    assert BARE
    assert min(sizes) == 1
    assert max(sizes) > 8


def test_captured_entries_of_one_record_are_read_and_made_again() -> None:
    for entry in BARE:
        data, described = unhex(entry["hex"]), entry["TransactionMetadataEntry"]
        (record,), is_batch = parse_entry(data)
        assert not is_batch
        assert as_described(record) == described
        assert made_again(described).SerializeToString() == data
        assert counter_of(record) == described["max_local_txn_id"]


def test_captured_batches_are_read_and_made_again() -> None:
    for entry in BATCHES:
        data, described = unhex(entry["hex"]), entry["BatchedTransactionMetadataEntry"]["transaction_logs"]
        records, is_batch = parse_entry(data)
        assert is_batch
        assert [as_described(record) for record in records] == described
        assert batch_entry([made_again(each).SerializeToString() for each in described]) == data


def test_a_record_longer_than_127_bytes_keeps_its_length_in_a_batch() -> None:
    record = partitions_record(TxnId(3, 4), ["persistent://public/default/" + "t" * 20_000], counter=4, now_ms=1)
    (read,), is_batch = parse_entry(batch_entry([record.SerializeToString()]))
    assert is_batch
    assert read == record


def test_a_counter_of_nothing_is_read_as_minus_one() -> None:
    record = new_record(TxnId(0, 0), counter=-1, now_ms=1, timeout_ms=1, owner=None)
    assert counter_of(parse_entry(record.SerializeToString())[0][0]) == -1
    assert counter_of(Record()) == -1


@pytest.mark.parametrize(
    "entry", [b"\x0e\x01", b"\x0e\x01\x00", b"\x0e\x01\x00\x02\x0a\x00", b"\x0e\x01\x00\x01\xff", b"\xff"]
)
def test_entries_that_are_no_records_are_refused(entry: bytes) -> None:
    with pytest.raises(MalformedRecord):
        parse_entry(entry)
