"""The v3 codec: frames encoded by hand equal protobuf's and captured ones, and refusals carry what clients read."""

import contextlib

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.wire import bookie_wire_v3 as v3
from pulsar_proto.wire.bookie_wire import AddFlags, BookieRc, ReadFlags
from tests.pulsar_proto.vectors import Item, load, unhex

REQUESTS = [exchange for exchange in load("bookkeeper_exchanges.json") if unhex(exchange["request"])[4:5] == b"\x0a"]
ADDS = [x for x in REQUESTS if x["name"].startswith("v3 ADD_ENTRY")]
READS = [x for x in REQUESTS if x["name"].startswith("v3 READ_ENTRY")]

I64 = st.integers(-(1 << 63), (1 << 63) - 1)
TXN = st.integers(0, (1 << 64) - 1)


@pytest.mark.parametrize("exchange", ADDS, ids=lambda exchange: exchange["name"])
def test_javas_adds_are_made_anew(exchange: Item) -> None:
    request = v3.parse_request(unhex(exchange["request"])[4:])
    add = request.addRequest
    frame = v3.add_request(
        request.header.txnId, add.ledgerId, add.entryId, add.masterKey, add.body, v3.add_flags(request), add.writeFlags
    )
    assert frame == unhex(exchange["request"])


@pytest.mark.parametrize("exchange", READS, ids=lambda exchange: exchange["name"])
def test_javas_reads_are_made_anew(exchange: Item) -> None:
    request = v3.parse_request(unhex(exchange["request"])[4:])
    read, txn_id = request.readRequest, request.header.txnId
    if v3.is_piggyback(read):
        frame = v3.frame(v3.long_poll_request(txn_id, read.ledgerId, read.previousLAC, read.timeOut))
    else:
        flags = ReadFlags.FENCING if v3.is_fencing(read) else ReadFlags.NONE
        flags |= ReadFlags.HIGH_PRIORITY if request.header.priority else ReadFlags.NONE
        frame = v3.read_request(txn_id, read.ledgerId, read.entryId, flags, read.masterKey)
    assert frame == unhex(exchange["request"])


def test_every_return_code_has_its_status_and_back() -> None:
    for rc in BookieRc:
        assert v3.rc_of(v3.status_of(rc)) is rc
    assert v3.rc_of(999) is BookieRc.EIO
    with pytest.raises(KeyError):
        v3.status_of(3)


@given(rc=st.sampled_from(BookieRc), adds=st.lists(st.tuples(TXN, I64, I64), max_size=5))
def test_answers_to_adds_are_protobufs_bytes(rc: BookieRc, adds: list[tuple[int, int, int]]) -> None:
    status = v3.status_of(rc)
    expected = b"".join(
        v3.frame(
            pb.Response(
                header=pb.BKPacketHeader(version=pb.VERSION_THREE, operation=pb.ADD_ENTRY, txnId=txn_id),
                status=status,
                addResponse=pb.AddResponse(status=status, ledgerId=ledger_id, entryId=entry_id),
            )
        )
        for txn_id, ledger_id, entry_id in adds
    )
    assert v3.add_responses(rc, [v3.echo_of(*ids) for ids in adds]) == expected


@given(
    rc=st.sampled_from(BookieRc),
    ids=st.tuples(TXN, I64, I64),
    entry=st.none() | st.binary(max_size=300),
    max_lac=st.none() | I64,
    time_ms=st.none() | I64,
)
def test_answers_to_reads_are_protobufs_bytes(
    rc: BookieRc, ids: tuple[int, int, int], entry: bytes | None, max_lac: int | None, time_ms: int | None
) -> None:
    txn_id, ledger_id, entry_id = ids
    status = v3.status_of(rc)
    read = pb.ReadResponse(
        status=status, ledgerId=ledger_id, entryId=entry_id, body=entry, maxLAC=max_lac, lacUpdateTimestamp=time_ms
    )
    header = pb.BKPacketHeader(version=pb.VERSION_THREE, operation=pb.READ_ENTRY, txnId=txn_id)
    expected = v3.frame(pb.Response(header=header, status=status, readResponse=read))
    assert v3.read_response(rc, txn_id, ledger_id, entry_id, entry, max_lac, time_ms) == expected


@given(
    txn_id=st.integers(0, 1 << 62),
    ids=st.lists(st.integers(-5, 1 << 40), min_size=1, max_size=4),
    entry=st.binary(max_size=300),
    key=st.binary(max_size=30),
    flags=st.sampled_from([0, AddFlags.RECOVERY_ADD, AddFlags.RECOVERY_ADD | AddFlags.HIGH_PRIORITY]),
    write_flags=st.sampled_from([0, v3.DEFERRED_SYNC]),
)
def test_adds_are_protobufs_bytes(
    txn_id: int, ids: list[int], entry: bytes, key: bytes, flags: int, write_flags: int
) -> None:
    frames = b"".join(v3.add_requests(txn_id, 7, ids, key, [entry] * len(ids), flags, write_flags))
    expected = []
    for index, entry_id in enumerate(ids):
        request = v3.new_request(
            pb.ADD_ENTRY, txn_id + index, v3.HIGH_PRIORITY if flags & AddFlags.HIGH_PRIORITY else 0
        )
        add = request.addRequest
        add.ledgerId, add.entryId, add.masterKey, add.body = 7, entry_id, key, entry
        if write_flags:
            add.writeFlags = write_flags
        if flags & AddFlags.RECOVERY_ADD:
            add.flag = pb.AddRequest.RECOVERY_ADD
        expected.append(v3.frame(request))
    assert frames == b"".join(expected)


def test_nearly_all_of_javas_adds_are_usual_ones() -> None:
    for exchange in ADDS:
        frame = unhex(exchange["request"])
        request = v3.parse_request(frame[4:])
        add = request.addRequest
        usual = v3.usual_add(b"before" + frame + b"behind", 10, len(frame) + 6)
        if add.HasField("flag") or add.HasField("writeFlags") or request.header.priority:
            assert usual is None
            continue
        assert usual is not None
        echo, key, body_start = usual
        assert echo == v3.echo_of(request.header.txnId, add.ledgerId, add.entryId)
        assert (key, frame[body_start - 6 :]) == (add.masterKey, add.body)


@given(
    body=st.binary(max_size=300),
    ids=st.tuples(TXN, I64, I64),
    data=st.data(),
)
def test_a_damaged_usual_add_is_never_read_otherwise_than_protobuf_reads_it(
    body: bytes, ids: tuple[int, int, int], data: st.DataObject
) -> None:
    packet = bytearray(v3.add_request(*ids, bytes(range(20)), body)[4:])
    for at in data.draw(st.lists(st.integers(0, len(packet) - 1), max_size=3)):
        packet[at] = data.draw(st.integers(0, 255))
    usual = v3.usual_add(bytes(packet), 0, len(packet))
    if usual is None:
        return
    echo, key, body_start = usual
    request = v3.parse_request(bytes(packet))
    add = request.addRequest
    assert (key, bytes(packet[body_start:])) == (add.masterKey, add.body)
    expected = pb.Response(
        header=pb.BKPacketHeader(version=pb.VERSION_THREE, operation=pb.ADD_ENTRY, txnId=request.header.txnId),
        status=pb.EOK,
        addResponse=pb.AddResponse(status=pb.EOK, ledgerId=add.ledgerId, entryId=add.entryId),
    )
    assert v3.parse_response(v3.add_responses(0, [echo])[4:]) == expected
    assert v3.add_flags(request) == AddFlags.NONE
    assert not add.writeFlags


@given(ids=st.tuples(TXN, I64, I64), rc=st.sampled_from([BookieRc.EOK, BookieRc.EFENCED]), data=st.data())
def test_only_an_answer_that_protobuf_reads_as_stored_counts_as_stored(
    ids: tuple[int, int, int], rc: BookieRc, data: st.DataObject
) -> None:
    packet = bytearray(v3.add_responses(rc, [v3.echo_of(*ids)])[4:])
    assert v3.stored_txn(b"x" + bytes(packet) + b"x", 1, 1 + len(packet)) == (ids[0] if rc == BookieRc.EOK else None)
    for at in data.draw(st.lists(st.integers(0, len(packet) - 1), max_size=2)):
        packet[at] = data.draw(st.integers(0, 255))
    txn_id = v3.stored_txn(bytes(packet), 0, len(packet))
    response = pb.Response()
    if txn_id is not None:
        with contextlib.suppress(DecodeError):  # damage inside the sub-message, which says nothing more
            response.ParseFromString(bytes(packet))
            assert (response.status, response.header.txnId) == (pb.EOK, txn_id & (1 << 64) - 1)


def test_an_unset_flag_is_no_fence_and_no_recovery() -> None:
    """An unset enum of proto2 reads as its first value, which is FENCE_LEDGER or RECOVERY_ADD here."""
    request = v3.parse_request(unhex(ADDS[0]["request"])[4:])
    assert request.addRequest.flag == pb.AddRequest.RECOVERY_ADD
    assert v3.add_flags(request) == AddFlags.NONE
    read = pb.ReadRequest(ledgerId=1, entryId=1)
    assert read.flag == pb.ReadRequest.FENCE_LEDGER
    assert not v3.is_fencing(read)
    assert not v3.is_piggyback(read)


@pytest.mark.parametrize("operation", pb.OperationType.values())
def test_refusals_can_be_parsed_and_name_operation_transaction_and_status(
    operation: pb.OperationType.ValueType,
) -> None:
    frame = v3.refusal(v3.new_request(operation, 77), BookieRc.EREADONLY)
    response = v3.parse_response(frame[4:])
    assert (response.header.operation, response.header.txnId, response.status) == (operation, 77, pb.EREADONLY)
    subs = [value for field, value in response.ListFields() if field.number >= 100]
    assert all(sub.status == pb.EREADONLY for sub in subs)


@given(st.binary(max_size=60))
def test_damage_is_malformed_and_nothing_else(packet: bytes) -> None:
    for parse in (v3.parse_request, v3.parse_response):
        with contextlib.suppress(MalformedFrame):
            parse(packet)


def test_an_error_in_the_sub_message_alone_is_an_error() -> None:
    """Java's client looks at the inner status when the outer one is EOK."""
    good = v3.parse_response(v3.add_responses(0, [v3.echo_of(1, 2, 3)])[4:])
    assert v3.status_in(good) == pb.EOK
    good.addResponse.status = pb.EFENCED
    packet = good.SerializeToString()
    assert v3.status_in(good) == pb.EFENCED
    assert v3.stored_txn(packet, 0, len(packet)) is None
    assert v3.status_in(v3.response_to(v3.new_request(pb.START_TLS, 1), BookieRc.EBADREQ)) == pb.EBADREQ


def test_missing_required_fields_are_malformed() -> None:
    with pytest.raises(MalformedFrame, match="lacks a required field"):
        v3.parse_request(b"\x0a\x04\x08\x03\x10\x02")
    with pytest.raises(MalformedFrame, match="lacks a required field"):
        v3.parse_request(b"\x0a\x06\x08\x03\x10\x63\x18\x01")
    with pytest.raises(MalformedFrame, match="lacks a required field"):
        v3.parse_response(b"\x10\x00")
