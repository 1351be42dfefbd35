"""Commands: strict parsing, and the hand-made encoders against protobuf's bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.errors import MalformedFrame, UnknownCommand
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.varint import varint
from pulsar_proto.wire.commands import (
    parse_command,
    simple_frame,
)
from pulsar_proto.wire.frame_encoders import (
    MessageFramer,
    Receipt,
    ReceiptEncoder,
    ack_response_frame,
    ack_response_frames,
    transaction_response_frame,
)
from pulsar_proto.wire.send_run import parse_send

U64 = 2**64 - 1
ids = st.one_of(st.integers(0, 300), st.integers(0, 2**63 - 1))
# Around each power of 128 a varint grows by a byte; -1 stands for "no position".
edges = st.sampled_from([n + d for p in range(1, 10) for n in [128**p] for d in (-1, 0, 1) if n + d < 2**63] + [-1])
entry_ids = st.one_of(ids, edges)


def receipt_frame(producer_id: int, receipt: Receipt, ledger_id: int, entry_id: int) -> bytes:
    sequence_id, highest = receipt
    return simple_frame(
        pb.BaseCommand(
            type=pb.BaseCommand.SEND_RECEIPT,
            send_receipt=pb.CommandSendReceipt(
                producer_id=producer_id,
                sequence_id=sequence_id,
                highest_sequence_id=highest,
                message_id=pb.MessageIdData(ledgerId=ledger_id & U64, entryId=entry_id & U64),
            ),
        )
    )


@given(st.integers(-(2**63), 2**64 - 1))
def test_varint_equals_protobufs(value: int) -> None:
    field = pb.CommandPartitionedTopicMetadataResponse(request_id=value & U64)
    assert b"\x10" + varint(value) == field.SerializePartialToString()


@given(st.integers(0, U64), st.lists(st.tuples(st.integers(0, U64), st.none() | ids, entry_ids, entry_ids)))
def test_receipts_equal_protobufs_whatever_came_before(
    producer_id: int, receipts: list[tuple[int, int | None, int, int]]
) -> None:
    encoder = ReceiptEncoder(producer_id)
    for sequence_id, highest, ledger_id, entry_id in receipts:
        expected = receipt_frame(producer_id, (sequence_id, highest), ledger_id, entry_id)
        assert encoder.encode(sequence_id, highest, ledger_id, entry_id) == expected


@given(st.integers(0, 10_000), st.integers(0, 2**40), st.integers(1, 300), entry_ids, st.integers(0, 20_000))
def test_run_of_receipts_equals_single_ones(
    producer_id: int, first_sequence_id: int, count: int, ledger_id: int, first_entry_id: int
) -> None:
    receipts: list[Receipt] = [
        (first_sequence_id + n, first_sequence_id + n + 5 if n % 50 == 7 else None) for n in range(count)
    ]
    expected = [
        receipt_frame(producer_id, receipt, ledger_id, first_entry_id + n) for n, receipt in enumerate(receipts)
    ]
    encoder = ReceiptEncoder(producer_id)
    assert encoder.encode_run(receipts, ledger_id, first_entry_id) == b"".join(expected)


near = st.integers(0, 2).map(lambda block: 128 * block + 126)
"""Ids from which a run passes into the next block, and to which other runs come back."""


@given(st.lists(st.tuples(near, near, st.sampled_from([5, 300]), st.sampled_from([None, 900]), st.integers(1, 4))))
def test_runs_equal_single_receipts_whatever_came_before(runs: list[tuple[int, int, int, int | None, int]]) -> None:
    encoder = ReceiptEncoder(1)
    for sequence_id, entry_id, ledger_id, highest, count in runs:
        receipts: list[Receipt] = [(sequence_id + n, highest if n == 1 else None) for n in range(count)]
        expected = [receipt_frame(1, receipt, ledger_id, entry_id + n) for n, receipt in enumerate(receipts)]
        assert encoder.encode_run(receipts, ledger_id, entry_id) == b"".join(expected)


def test_run_in_the_next_ledger_carries_the_next_ledgers_id() -> None:
    encoder = ReceiptEncoder(1)
    for ledger_id in (5, 6):
        assert encoder.encode_run([(9, None)], ledger_id, 0) == receipt_frame(1, (9, None), ledger_id, 0)


@given(st.integers(0, U64), st.integers(0, U64))
def test_answers_to_acknowledgements_equal_protobufs(consumer_id: int, request_id: int) -> None:
    answer = pb.CommandAckResponse(consumer_id=consumer_id, request_id=request_id)
    expected = simple_frame(pb.BaseCommand(type=pb.BaseCommand.ACK_RESPONSE, ackResponse=answer))
    assert ack_response_frame(consumer_id, request_id) == expected


@given(st.integers(0, U64), st.lists(st.integers(0, U64) | st.integers(0, 300), max_size=20))
def test_answers_to_several_acks_are_the_answers_to_each(consumer_id: int, request_ids: list[int]) -> None:
    each_alone = [ack_response_frame(consumer_id, each) for each in request_ids]
    assert ack_response_frames(consumer_id, request_ids) == b"".join(each_alone)


@pytest.mark.parametrize(
    ("response", "field"),
    [
        (pb.BaseCommand.NEW_TXN_RESPONSE, "newTxnResponse"),
        (pb.BaseCommand.ADD_SUBSCRIPTION_TO_TXN_RESPONSE, "addSubscriptionToTxnResponse"),
        (pb.BaseCommand.END_TXN_ON_SUBSCRIPTION_RESPONSE, "endTxnOnSubscriptionResponse"),
    ],
)
@given(st.integers(0, U64), st.integers(0, U64), st.integers(0, U64))
def test_a_response_about_a_transaction_is_what_protobuf_makes(
    response: "pb.BaseCommand.Type.ValueType", field: str, request_id: int, least: int, most: int
) -> None:
    expected = pb.BaseCommand(type=response)
    body = getattr(expected, field)
    body.request_id, body.txnid_least_bits, body.txnid_most_bits = request_id, least, most
    assert transaction_response_frame(response, request_id, least, most) == simple_frame(expected)


@given(
    st.integers(0, U64),
    st.integers(-1, 1000),
    st.lists(
        st.tuples(
            entry_ids,
            entry_ids,
            st.integers(0, 5_000_000),
            st.integers(0, 3),
            st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
            st.none() | st.integers(0, 9),
        )
    ),
)
def test_message_heads_equal_protobufs_whatever_came_before(
    consumer_id: int, partition: int, messages: list[tuple[int, int, int, int, list[int], int | None]]
) -> None:
    framer = MessageFramer(consumer_id, partition)
    for ledger_id, entry_id, payload_len, redelivery_count, ack_set, epoch in messages:
        message = pb.CommandMessage(
            consumer_id=consumer_id,
            message_id=pb.MessageIdData(ledgerId=ledger_id & U64, entryId=entry_id & U64, partition=partition),
            redelivery_count=redelivery_count or None,
            ack_set=ack_set,
            consumer_epoch=epoch,
        )
        body = pb.BaseCommand(type=pb.BaseCommand.MESSAGE, message=message).SerializeToString()
        sizes = (len(body) + 4 + payload_len).to_bytes(4, "big") + len(body).to_bytes(4, "big")
        assert framer.head(ledger_id, entry_id, payload_len, redelivery_count, ack_set, epoch) == sizes + body


@given(st.integers(0, 2**62), st.integers(0, 2**40), st.lists(st.sampled_from([0, 1, 130, 131, 70_000]), max_size=300))
def test_frames_of_a_run_are_heads_and_payloads_in_turn(ledger_id: int, first: int, sizes: list[int]) -> None:
    payloads = [bytes(size) for size in sizes]
    entry_ids = range(first, first + len(sizes))
    framer, other = MessageFramer(3), MessageFramer(3)
    framer.head(ledger_id + 1, first, 7)
    expected: list[bytes] = []
    for entry_id, payload in zip(entry_ids, payloads, strict=True):
        expected += (other.head(ledger_id, entry_id, len(payload)), payload)
    assert framer.frames(ledger_id, entry_ids, payloads) == expected


@given(
    st.integers(0, U64),
    st.integers(0, U64),
    st.none() | st.integers(-(2**31), 2**31 - 1),
    st.none() | st.integers(0, U64),
)
def test_send_parses_the_same_on_the_fast_path(
    producer_id: int, sequence_id: int, count: int | None, highest: int | None
) -> None:
    send = pb.CommandSend(
        producer_id=producer_id, sequence_id=sequence_id, num_messages=count, highest_sequence_id=highest
    )
    data = pb.BaseCommand(type=pb.BaseCommand.SEND, send=send).SerializeToString()
    assert parse_send(data) == send == parse_command(data).send


def test_send_with_unusual_order_or_length_parses_all_the_same() -> None:
    send = pb.CommandSend(producer_id=1, sequence_id=2)
    body = send.SerializeToString()
    type_last = b"\x32" + varint(len(body)) + body + b"\x08\x06"
    assert parse_send(type_last) == send
    two_byte_length = b"\x08\x06\x32" + bytes((len(body) | 0x80, 0)) + body
    assert parse_send(two_byte_length) == send
    ids_swapped = b"\x08\x06\x32\x04\x10\x02\x08\x01"
    assert parse_send(ids_swapped) == send
    send.message_id.ledgerId, send.message_id.entryId = 7, 8
    send.message_id.ack_set.extend(range(100))
    assert parse_send(pb.BaseCommand(type=pb.BaseCommand.SEND, send=send).SerializeToString()) == send


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x08", id="cut in the type"),
        pytest.param(b"\x08\x06", id="type without its field"),
        pytest.param(b"\x08\x06\x32", id="cut before the length"),
        pytest.param(b"\x08\x06\x32\x00", id="empty SEND"),
        pytest.param(b"\x08\x06\x32\x02\x08\x01", id="no sequence id"),
        pytest.param(b"\x08\x06\x32\x02\x10\x01", id="no producer id"),
        pytest.param(b"\x08\x06\x32\x04\x08\x01\x10", id="length beyond the end"),
        pytest.param(b"\x08\x06\x32\x03\x08\x01\x10\x02", id="length before the end"),
        pytest.param(b"\x08\x06\x32\x03\x08\x01\x10", id="cut varint"),
        pytest.param(b"\x08\x06\x32\x0e\x08\x01\x10" + b"\xff" * 11, id="endless varint"),
        pytest.param(b"\x08\x06\x32\x08\x08\x01\x10\x02\x4a\x02\x08\x05", id="message id without entry"),
        pytest.param(b"\x08\x12\x92\x01\x00", id="another command"),
    ],
)
def test_broken_send_is_malformed_on_both_paths(data: bytes) -> None:
    with pytest.raises(MalformedFrame):
        parse_send(data)
    if not data.startswith(b"\x08\x12"):
        with pytest.raises(MalformedFrame):
            parse_command(data)


@pytest.mark.parametrize("type_name", sorted(set(pb.BaseCommand.Type.keys()) - {"PING", "PONG"}))
def test_command_without_the_field_of_its_type_is_malformed(type_name: str) -> None:
    number = pb.BaseCommand.Type.Value(type_name)
    data = b"\x08" + varint(number)
    if number >= pb.BaseCommand.SCALABLE_TOPIC_LOOKUP:
        assert parse_command(data).type == number
    else:
        with pytest.raises(MalformedFrame, match="has no field"):
            parse_command(data)


def test_ping_and_pong_need_no_field() -> None:
    assert parse_command(b"\x08\x12").type == pb.BaseCommand.PING
    assert parse_command(b"\x08\x13").type == pb.BaseCommand.PONG


@pytest.mark.parametrize("number", [0, 1, 99, 300, 2**31 - 1])
def test_type_of_a_later_version_is_told_apart_from_garbage(number: int) -> None:
    with pytest.raises(UnknownCommand) as caught:
        parse_command(b"\x08" + varint(number) + b"\xfa\x07\x00")
    assert caught.value.type_number == number


def test_missing_required_field_inside_a_command_is_malformed() -> None:
    flow = pb.BaseCommand(type=pb.BaseCommand.FLOW)
    flow.flow.consumer_id = 1
    with pytest.raises(MalformedFrame, match="lacks a required field"):
        parse_command(flow.SerializePartialToString())


def test_fields_of_a_later_version_survive() -> None:
    data = pb.BaseCommand(type=pb.BaseCommand.PING, ping=pb.CommandPing()).SerializeToString() + b"\xfa\x3e\x01x"
    assert parse_command(data).SerializeToString() == data


@given(st.binary(max_size=80))
def test_garbage_is_malformed_or_a_command_and_nothing_else(data: bytes) -> None:
    for parse in (parse_command, parse_send):
        try:
            parse(data)
        except (MalformedFrame, UnknownCommand):
            continue


@given(st.binary(max_size=40))
def test_garbage_in_a_send_never_passes_the_fast_path_alone(body: bytes) -> None:
    data = b"\x08\x06\x32" + varint(len(body)) + body
    try:
        send = parse_send(data)
    except MalformedFrame:
        return
    assert send.IsInitialized()
    assert parse_command(data).send == send
