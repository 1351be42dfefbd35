"""Entries and their digests: BookKeeper's own vectors and captures, and damage of every kind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.pb import bookkeeper_pb2
from pulsar_proto.records.entry_digest import (
    DigestError,
    DigestType,
    EntryCodec,
    entry_ids,
    entry_lac,
    entry_length,
    master_key,
)
from pulsar_proto.wire import bookie_wire
from tests.pulsar_proto.vectors import load, unhex

TYPES = {"CRC32": DigestType.CRC32, "CRC32C": DigestType.CRC32C, "MAC": DigestType.HMAC, "DUMMY": DigestType.DUMMY}
# Ledger 1, entry 0, LAC -1, length 5, payload "hello": computed by BookKeeper 4.17.
HEADER = "0000000000000001" + "0000000000000000" + "ffffffffffffffff" + "0000000000000005"


@pytest.mark.parametrize(
    ("digest_type", "password", "digest"),
    [
        (DigestType.CRC32, b"", "0000000030a56872"),
        (DigestType.CRC32C, b"", "e3a5f74d"),
        (DigestType.HMAC, b"", "00107b7f219e26462e04e16e6e7a7f41e046e090"),
        (DigestType.HMAC, b"foo", "0d5356770ae579947e431d12ca88db6dda5bba73"),
        (DigestType.DUMMY, b"", ""),
    ],
)
def test_entry_equals_bookkeepers(digest_type: DigestType, password: bytes, digest: str) -> None:
    codec = EntryCodec(1, digest_type, password)
    (entry,) = codec.pack_run(0, -1, 0, [b"hello"])
    assert entry == unhex(HEADER + digest) + b"hello"
    assert entry[codec.payload_offset :] == b"hello"
    codec.verify(entry, 0)
    assert (entry_ids(entry), entry_lac(entry), entry_length(entry)) == ((1, 0), -1, 5)


def test_master_key_equals_bookkeepers() -> None:
    assert master_key(b"") == unhex("850bf1071c5e3d8c24235676f8816ae0cbe2f14f")
    assert master_key(b"foo") == unhex("3a0e704a758fbcf665879e1820fbd20472774f25")


def test_lac_packet_equals_bookkeepers() -> None:
    codec = EntryCodec(1, DigestType.CRC32C)
    assert codec.pack_lac(9) == unhex("00000000000000010000000000000009cefc976e")
    assert codec.verify_lac(codec.pack_lac(9)) == 9


def test_captured_v2_adds_carry_digests_and_keys_as_ours() -> None:
    checked = 0
    for exchange in load("bookkeeper_exchanges.json"):
        if "digest" not in exchange or not exchange["name"].startswith("v2 ADD"):
            continue
        request = bookie_wire.decode_request(unhex(exchange["request"])[4:])
        assert isinstance(request, bookie_wire.AddRequest)
        password = exchange["password"].encode()
        codec = EntryCodec(request.ledger_id, TYPES[exchange["digest"]], password)
        codec.verify(request.entry, request.entry_id)
        payload = request.entry[codec.payload_offset :]
        length_before = entry_length(request.entry) - len(payload)
        assert codec.pack_run(request.entry_id, entry_lac(request.entry), length_before, [payload]) == [request.entry]
        assert request.master_key == master_key(password)
        checked += 1
    assert checked > 10


def test_captured_lac_packets_verify() -> None:
    checked = 0
    for exchange in load("bookkeeper_exchanges.json"):
        if "WRITE_LAC" not in exchange["name"] or "digest" not in exchange:
            continue
        request = bookkeeper_pb2.Request.FromString(unhex(exchange["request"])[4:]).writeLacRequest
        codec = EntryCodec(request.ledgerId, TYPES[exchange["digest"]], exchange["password"].encode())
        assert codec.verify_lac(request.body) == request.lac
        assert codec.pack_lac(request.lac) == request.body
        checked += 1
    assert checked


@given(
    st.sampled_from(DigestType),
    st.integers(0, 2**62),
    st.integers(0, 2**40),
    st.integers(-1, 2**40),
    st.integers(0, 2**40),
    st.lists(st.binary(max_size=80), max_size=6),
    st.binary(max_size=5),
)
def test_runs_verify_and_carry_their_fields(
    digest_type: DigestType,
    ledger_id: int,
    first: int,
    lac: int,
    length_before: int,
    payloads: list[bytes],
    password: bytes,
) -> None:
    codec = EntryCodec(ledger_id, digest_type, password)
    entries = codec.pack_run(first, lac, length_before, payloads)
    codec.verify_run(first, entries)
    length = length_before
    for number, (entry, payload) in enumerate(zip(entries, payloads, strict=True)):
        length += len(payload)
        assert entry_ids(entry) == (ledger_id, first + number)
        assert entry_lac(entry) == lac
        assert entry_length(entry) == length
        assert entry[codec.payload_offset :] == payload
        assert codec.pack_run(first + number, lac, length - len(payload), [payload]) == [entry]


@pytest.mark.parametrize("digest_type", [DigestType.CRC32, DigestType.CRC32C, DigestType.HMAC])
def test_damage_of_any_byte_is_found(digest_type: DigestType) -> None:
    codec = EntryCodec(7, digest_type, b"pw")
    (entry,) = codec.pack_run(3, 2, 100, [b"payload"])
    for at in range(len(entry)):
        damaged = bytearray(entry)
        damaged[at] ^= 0x40
        with pytest.raises(DigestError):
            codec.verify(bytes(damaged), 3)


def test_entry_of_another_place_or_cut_is_refused() -> None:
    codec = EntryCodec(7, DigestType.CRC32C)
    entries = codec.pack_run(3, 2, 100, [b"three", b"four"])
    with pytest.raises(DigestError, match="ledger 7 entry 4: found 7 entry 3"):
        codec.verify(entries[0], 4)
    with pytest.raises(DigestError, match="found 7 entry 3"):
        EntryCodec(8, DigestType.CRC32C).verify(entries[0], 3)
    with pytest.raises(DigestError, match="digest"):
        codec.verify(entries[0][:-1], 3)
    with pytest.raises(DigestError, match="only 20 bytes"):
        codec.verify(entries[0][:20], 3)
    with pytest.raises(DigestError) as caught:
        codec.verify_run(3, [entries[0], entries[1] + b"x"])
    assert (caught.value.ledger_id, caught.value.entry_id) == (7, 4)


def test_other_password_does_not_verify_a_mac() -> None:
    (entry,) = EntryCodec(7, DigestType.HMAC, b"right").pack_run(0, -1, 0, [b"x"])
    with pytest.raises(DigestError):
        EntryCodec(7, DigestType.HMAC, b"wrong").verify(entry, 0)


def test_damaged_lac_packet_is_refused() -> None:
    codec = EntryCodec(1, DigestType.CRC32C)
    packet = codec.pack_lac(9)
    for broken in (b"", packet[:10], packet[:-1], packet + b"x", b"\x01" + packet[1:]):
        with pytest.raises(DigestError):
            codec.verify_lac(broken)
    with pytest.raises(DigestError, match="of ledger 2"):
        codec.verify_lac(EntryCodec(2, DigestType.CRC32C).pack_lac(9))
