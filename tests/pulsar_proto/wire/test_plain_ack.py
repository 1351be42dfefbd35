"""An ACK that is read by hand is what protobuf reads."""

from hypothesis import example, given
from hypothesis import strategies as st

from pulsar_proto.ids import TxnId
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.varint import varint
from pulsar_proto.wire.commands import parse_command
from pulsar_proto.wire.id_list import PORTION_BYTES
from pulsar_proto.wire.plain_ack import (
    PLAIN_ACK_PREFIX,
    TOGETHER_MAX,
    AcksInTransaction,
    acks_in_transaction,
    acks_of,
    plain_ack,
)

IDS = st.integers(0, 300) | st.integers(0, 2**64 - 1)
MESSAGE_IDS = st.builds(pb.MessageIdData, ledgerId=IDS, entryId=IDS)
ACKS = st.builds(
    pb.CommandAck,
    consumer_id=IDS,
    ack_type=st.just(pb.CommandAck.Individual),
    message_id=st.lists(MESSAGE_IDS, max_size=5),
)


def command_of(ack: pb.CommandAck) -> bytes:
    return pb.BaseCommand(type=pb.BaseCommand.ACK, ack=ack).SerializeToString()


@given(ACKS)
def test_an_ack_of_whole_entries_is_plain_and_means_the_same(ack: pb.CommandAck) -> None:
    found = plain_ack(command_of(ack))
    ids = [ack.consumer_id, *(number for each in ack.message_id for number in (each.ledgerId, each.entryId))]
    assert found == ((ack.consumer_id, acks_of(ack.message_id)) if max(ids) < 1 << 63 else None)


def test_any_other_ack_is_not_plain() -> None:
    plain = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual)
    plain.message_id.add(ledgerId=1, entryId=2)
    assert plain_ack(command_of(plain)) == (1, [(1, 2, None)])
    for other in (
        pb.CommandAck(ack_type=pb.CommandAck.Cumulative),
        pb.CommandAck(request_id=1),
        pb.CommandAck(txnid_least_bits=1, txnid_most_bits=1),
        pb.CommandAck(validation_error=pb.CommandAck.ChecksumMismatch),
        pb.CommandAck(properties=[pb.KeyLongValue(key="a", value=1)]),
        pb.CommandAck(message_id=[pb.MessageIdData(ledgerId=1, entryId=3, ack_set=[1])]),
        pb.CommandAck(message_id=[pb.MessageIdData(ledgerId=1, entryId=3, partition=1)]),
    ):
        whole = pb.CommandAck()
        whole.CopyFrom(plain)
        whole.MergeFrom(other)
        assert plain_ack(command_of(whole)) is None, other


def in_transaction(
    entry_id: int, request_id: int, *, consumer_id: int = 1, ledger_id: int = 7, least: int = 3, most: int = 4
) -> pb.CommandAck:
    ack = pb.CommandAck(consumer_id=consumer_id, ack_type=pb.CommandAck.Individual, request_id=request_id)
    ack.message_id.add(ledgerId=ledger_id, entryId=entry_id)
    ack.txnid_least_bits, ack.txnid_most_bits = least, most
    return ack


def read(*acks: pb.CommandAck, start: int = 0) -> AcksInTransaction | None:
    return acks_in_transaction([(command_of(each), None) for each in acks], start)


def _assert_means(found: AcksInTransaction, *acks: pb.CommandAck) -> None:
    txn_ids = {TxnId(each.txnid_most_bits, each.txnid_least_bits) for each in acks}
    assert ({found.consumer_id}, {found.txn_id}) == ({each.consumer_id for each in acks}, txn_ids)
    assert found.entries == [(each.message_id[0].ledgerId, each.message_id[0].entryId) for each in acks]
    assert found.request_ids == [each.request_id for each in acks]


@given(st.tuples(IDS, IDS, IDS, IDS, IDS, IDS))
def test_an_ack_of_one_whole_entry_in_a_transaction_is_read_as_protobuf_does(numbers: tuple[int, ...]) -> None:
    entry_id, request_id, consumer_id, ledger_id, least, most = numbers
    ack = in_transaction(entry_id, request_id, consumer_id=consumer_id, ledger_id=ledger_id, least=least, most=most)
    found = read(ack)
    assert (found is None) == (max(numbers) >= 1 << 63)
    if found is not None:
        _assert_means(found, ack)


def test_acks_of_one_consumer_in_one_transaction_that_follow_one_another_are_read_together() -> None:
    acks = [in_transaction(entry_id, entry_id + 10, ledger_id=7 + entry_id // 2) for entry_id in range(5)]
    others = (
        in_transaction(5, 15, consumer_id=2),
        in_transaction(5, 15, least=4),
        in_transaction(5, 15, most=5),
        pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual),
    )
    for other in others:
        found = read(*acks, other, *acks)
        assert found is not None
        _assert_means(found, *acks)
    later = read(others[0], *acks, start=1)
    assert later is not None
    _assert_means(later, *acks)
    many = read(*[acks[0]] * (TOGETHER_MAX + 1))
    assert many is not None
    assert len(many.entries) == TOGETHER_MAX


def test_any_other_ack_in_a_transaction_is_left_to_protobuf() -> None:
    usual = in_transaction(2, 5)
    assert read(usual) is not None
    for other in (
        pb.CommandAck(ack_type=pb.CommandAck.Cumulative),
        pb.CommandAck(validation_error=pb.CommandAck.ChecksumMismatch),
        pb.CommandAck(properties=[pb.KeyLongValue(key="a", value=1)]),
        pb.CommandAck(message_id=[pb.MessageIdData(ledgerId=1, entryId=3)]),
        pb.CommandAck(message_id=[pb.MessageIdData(ledgerId=1, entryId=3)] * 20),
    ):
        whole = pb.CommandAck()
        whole.CopyFrom(usual)
        whole.MergeFrom(other)
        assert read(whole) is None, other
    for field in ("message_id", "txnid_least_bits", "txnid_most_bits", "request_id"):
        short = pb.CommandAck()
        short.CopyFrom(usual)
        short.ClearField(field)
        assert read(short) is None, field
    for part in (
        pb.MessageIdData(ledgerId=1, entryId=2, batch_size=3),
        pb.MessageIdData(ledgerId=1, entryId=2, ack_set=[1], batch_size=3),
    ):
        whole = pb.CommandAck()
        whole.CopyFrom(usual)
        whole.message_id[0].CopyFrom(part)
        assert read(whole) is None, part


def test_a_list_that_has_to_be_cut_is_not_plain() -> None:
    ack = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual)
    while len(command_of(ack)) <= PORTION_BYTES:
        assert plain_ack(command_of(ack)) is not None
        ack.message_id.extend([pb.MessageIdData(ledgerId=1, entryId=2)] * 1_000)
    assert plain_ack(command_of(ack)) is None


FIELDS = st.tuples(st.sampled_from([0x08, 0x10, 0x18]), st.integers(0, 3) | IDS).map(
    lambda field: bytes([field[0]]) + varint(field[1])
)
NESTED = st.lists(FIELDS, max_size=3).map(b"".join).map(lambda body: b"\x1a" + varint(len(body)) + body)
BODIES = st.lists(FIELDS | NESTED | st.binary(max_size=3), max_size=6).map(b"".join)


TAIL = st.tuples(*(st.tuples(st.sampled_from([tag, 0x40]), st.integers(0, 3) | IDS) for tag in (0x30, 0x38, 0x40))).map(
    lambda fields: b"".join(bytes([tag]) + varint(value) for tag, value in fields)
)


@given(NESTED, TAIL, st.binary(max_size=2), st.integers(-1, 1))
def test_what_passes_for_an_ack_in_a_transaction_is_what_protobuf_reads(
    message_id: bytes, tail: bytes, more: bytes, lie: int
) -> None:
    body = b"\x08\x01\x10\x00" + message_id + tail + more
    data = PLAIN_ACK_PREFIX + varint(max(0, len(body) + lie)) + body
    found = acks_in_transaction([(data, None)], 0)
    if found is not None:
        ack = parse_command(data).ack
        _assert_means(found, ack)
        fields = {"consumer_id", "ack_type", "message_id", "txnid_least_bits", "txnid_most_bits", "request_id"}
        assert {field.name for field, _ in ack.ListFields()} == fields
        assert ack.ack_type == pb.CommandAck.Individual


@given(st.just(b"\x08\x01\x10\x00") | st.just(b""), BODIES, st.integers(-1, 1))
@example(b"\x08\x01\x10\x00", b"\x1a\x04\x08\x01\x10\x80", 0)
def test_what_passes_for_plain_is_what_protobuf_reads(begin: bytes, rest: bytes, lie: int) -> None:
    data = PLAIN_ACK_PREFIX + varint(max(0, len(begin + rest) + lie)) + begin + rest
    found = plain_ack(data)
    if found is not None:
        ack = parse_command(data).ack
        assert found == (ack.consumer_id, acks_of(ack.message_id))
        assert ack.ack_type == pb.CommandAck.Individual
        assert {field.name for field, _ in ack.ListFields()} <= {"consumer_id", "ack_type", "message_id"}
