"""BookKeeper's wire: real v2 exchanges through our codecs, v3 ones through the generated messages, and peers that
lie."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import bookkeeper_pb2
from pulsar_proto.wire import bookie_wire as wire
from pulsar_proto.wire.bookie_wire import BookieRc, ReadFlags
from tests.pulsar_proto.vectors import Item, load, unhex

EXCHANGES = load("bookkeeper_exchanges.json")
V2 = [exchange for exchange in EXCHANGES if exchange["name"].startswith("v2")]
V3 = [exchange for exchange in EXCHANGES if exchange["name"].startswith("v3")]
PROBES = {item["name"].removeprefix("probe: "): item for item in EXCHANGES if item["name"].startswith("probe: v2")}
KEY = bytes(range(20))


def encode_request(request: wire.Request) -> bytes:
    if isinstance(request, wire.AddRequest):
        return wire.add_request(request.master_key, request.entry, request.flags, request.version)
    if isinstance(request, wire.ReadRequest):
        return wire.read_request(request.ledger_id, request.entry_id, request.flags, request.master_key)
    if isinstance(request, wire.BatchReadRequest):
        return wire.batch_read_request(
            request.ledger_id,
            request.entry_id,
            request.request_id,
            request.max_count,
            request.max_size,
            request.flags,
            request.master_key,
        )
    return wire.auth_request(request.message)


def encode_response(response: wire.Response) -> bytes:
    rc, ledger_id, entry_id, version = response.rc, response.ledger_id, response.entry_id, response.version
    if response.opcode is wire.OpCode.ADD_ENTRY:
        return wire.add_response(rc, ledger_id, entry_id, version)
    if response.opcode is wire.OpCode.READ_ENTRY:
        return wire.read_response(rc, ledger_id, entry_id, b"".join(response.entries), version)
    return wire.batch_read_response(rc, ledger_id, entry_id, response.request_id, response.entries, version)


@pytest.mark.parametrize("exchange", V2, ids=lambda exchange: exchange["name"])
def test_v2_exchange_decodes_and_encodes_to_the_same_bytes(exchange: Item) -> None:
    request = wire.decode_request(unhex(exchange["request"])[4:])
    response = wire.decode_response(unhex(exchange["response"])[4:])
    assert encode_request(request) == unhex(exchange["request"])
    assert encode_response(response) == unhex(exchange["response"])
    assert not isinstance(request, wire.AuthRequest)
    assert (response.ledger_id, response.entry_id) == (request.ledger_id, request.entry_id)
    assert exchange["name"].endswith(f"-> {BookieRc(response.rc).name}")


@pytest.mark.parametrize(
    "name",
    [
        "v2 add, header version 0",
        "v2 fencing read, key cut",
        "v2 READ_LAC opcode 4",
        "v2 GET_BOOKIE_INFO opcode 6",
        "v2 opcode 99",
        "v2 opcode 0",
    ],
)
def test_requests_that_make_a_bookie_close_are_malformed(name: str) -> None:
    assert PROBES[name].get("response") is None
    with pytest.raises(MalformedFrame):
        wire.decode_request(unhex(PROBES[name]["request"])[4:])


def test_version_of_a_request_reaches_the_answer() -> None:
    for name, rc in (("v2 add, header version 1", BookieRc.EOK), ("v2 add, header version 3", BookieRc.EBADVERSION)):
        request = wire.decode_request(unhex(PROBES[name]["request"])[4:])
        assert isinstance(request, wire.AddRequest)
        answer = wire.add_response(rc, request.ledger_id, request.entry_id, request.version)
        assert answer == unhex(PROBES[name]["response"])


def test_key_after_a_read_that_does_not_fence_is_ignored() -> None:
    probe = PROBES["v2 read with a key although not fencing"]
    request = wire.decode_request(unhex(probe["request"])[4:])
    assert isinstance(request, wire.ReadRequest)
    assert request.master_key == b""
    assert wire.decode_response(unhex(probe["response"])[4:]).rc == BookieRc.EOK


@pytest.mark.parametrize("exchange", V3, ids=lambda exchange: exchange["name"])
def test_v3_exchange_parses_and_serialises_to_the_same_bytes(exchange: Item) -> None:
    request = bookkeeper_pb2.Request.FromString(unhex(exchange["request"])[4:])
    response = bookkeeper_pb2.Response.FromString(unhex(exchange["response"])[4:])
    for frame, message in ((exchange["request"], request), (exchange["response"], response)):
        assert message.IsInitialized()
        assert message.SerializeToString() == unhex(frame)[4:]
    assert request.header.txnId == response.header.txnId
    if "->" in exchange["name"]:
        assert exchange["name"].endswith(f"-> {bookkeeper_pb2.StatusCode.Name(response.status)}")


def test_unset_v3_flag_is_not_mistaken_for_a_fence() -> None:
    read = bookkeeper_pb2.ReadRequest(ledgerId=1, entryId=0)
    assert read.flag == bookkeeper_pb2.ReadRequest.FENCE_LEDGER
    assert not read.HasField("flag")


i64 = st.integers(-(2**63), 2**63 - 1)


@given(i64, i64, i64, st.integers(-(2**31), 2**31 - 1), i64, st.sampled_from([0, 1, 4, 5]))
def test_batch_reads_round_trip(
    ledger: int, entry: int, request_id: int, max_count: int, max_size: int, flags: int
) -> None:
    frame = wire.batch_read_request(ledger, entry, request_id, max_count, max_size, flags, KEY)
    key = KEY if flags & ReadFlags.FENCING else b""
    decoded = wire.decode_request(frame[4:])
    assert decoded == wire.BatchReadRequest(2, flags, ledger, entry, key, request_id, max_count, max_size)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4


@given(i64, i64, st.lists(st.binary(max_size=50), max_size=5), i64)
def test_batches_of_entries_round_trip(ledger: int, entry: int, entries: list[bytes], request_id: int) -> None:
    frame = wire.batch_read_response(0, ledger, entry, request_id, entries)
    response = wire.decode_response(frame[4:])
    assert response.entries == tuple(entries)
    assert response.request_id == request_id


def test_auth_message_round_trips() -> None:
    message = bookkeeper_pb2.AuthMessage(authPluginName="AuthDisabledPlugin", payload=b"").SerializeToString()
    assert wire.decode_request(wire.auth_request(message)[4:]) == wire.AuthRequest(2, 0, message)


@pytest.mark.parametrize("packet", [b"", b"\x02\x01\x00", b"\x02\x01\x00\x00" + KEY, b"\x02\x02\x00\x00" + b"x" * 15])
def test_cut_requests_are_malformed(packet: bytes) -> None:
    with pytest.raises(MalformedFrame):
        wire.decode_request(packet)


def test_entry_that_reaches_beyond_its_batch_is_malformed() -> None:
    packet = wire.batch_read_response(0, 1, 2, 3, [b"entry"])[4:]
    for broken in (packet[:-1], packet + b"\x00", packet[:-9] + b"\xff\xff\xff\xff" + packet[-5:], packet[:30]):
        with pytest.raises(MalformedFrame):
            wire.decode_response(broken)


@given(st.binary(max_size=90))
def test_garbage_is_malformed_or_a_packet_and_nothing_else(packet: bytes) -> None:
    for decode in (wire.decode_request, wire.decode_response):
        try:
            decode(packet)
        except MalformedFrame:
            continue
