"""Ledger metadata: every captured record in its format, paths, and what a later version may add."""

from dataclasses import replace

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.pb import bookkeeper_pb2
from pulsar_proto.records.entry_digest import DigestType
from pulsar_proto.records.ledger_record import LedgerMetadata, LedgerState, ledger_id_of_path, ledger_path
from tests.pulsar_proto.vectors import load, unhex

HEAD = b"BookieMetadataFormatVersion\t"
RECORDS = [
    (ledger_id, unhex(item["hex"]))
    for item in load("bookkeeper_records.json")
    if (ledger_id := ledger_id_of_path(item["path"])) is not None
]
# The record of BookKeeper's own unit test (TestLedgerMetadataSerDe): 2/2/2, open, two bookies, cToken 7.
SAMPLE = unhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a"
    "4808021002180020ffffffffffffffffff01280132140a0762313a333138310a0762323a33313831"
    "10003803420048025a150a0b6170706c69636174696f6e120670756c7361726007"
)


def of_version(version: bytes) -> list[tuple[int, bytes]]:
    return [record for record in RECORDS if record[1].startswith(HEAD + version)]


def test_captures_hold_all_three_formats() -> None:
    assert all(of_version(version) for version in (b"1", b"2", b"3"))


@pytest.mark.parametrize(("ledger_id", "record"), RECORDS)
def test_captured_record_parses_and_serialises_to_the_same_bytes(ledger_id: int, record: bytes) -> None:
    metadata = LedgerMetadata.parse(ledger_id, record)
    assert metadata.ledger_id == ledger_id
    assert metadata.serialize() == record


def test_sample_of_bookkeepers_tests() -> None:
    metadata = LedgerMetadata.parse(5, SAMPLE)
    assert metadata == LedgerMetadata(
        ledger_id=5,
        ensemble_size=2,
        write_quorum=2,
        ack_quorum=2,
        ensembles=((0, ("b1:3181", "b2:3181")),),
        custom_metadata={"application": b"pulsar"},
        ctoken=7,
    )
    assert metadata.serialize() == SAMPLE


def test_first_version_of_the_format() -> None:
    record = HEAD + b"1\n3\n3\n10\n0\tb1:1\tb2:1\tb3:1\n7\tb1:1\tb4:1\tb3:1\n9\tCLOSED"
    metadata = LedgerMetadata.parse(1, record)
    assert (metadata.ack_quorum, metadata.digest_type, metadata.password) == (3, None, None)
    assert (metadata.state, metadata.last_entry_id, metadata.length) == (LedgerState.CLOSED, 9, 10)
    assert metadata.serialize() == record
    recovering = record.replace(b"9\tCLOSED", b"-102\tCLOSED")
    assert LedgerMetadata.parse(1, recovering).state is LedgerState.IN_RECOVERY
    assert LedgerMetadata.parse(1, recovering).serialize() == recovering
    still_open = record.removesuffix(b"\n9\tCLOSED")
    assert LedgerMetadata.parse(1, still_open).state is LedgerState.OPEN
    assert LedgerMetadata.parse(1, still_open).serialize() == still_open
    with pytest.raises(MalformedRecord, match="no room"):
        replace(metadata, digest_type=DigestType.CRC32).serialize()


def test_close_writes_entry_length_and_token_zero() -> None:
    closed = LedgerMetadata.parse(5, SAMPLE).closed(last_entry_id=41, length=1000)
    again = LedgerMetadata.parse(5, closed.serialize())
    assert again == closed
    assert (again.state, again.last_entry_id, again.length, again.ctoken) == (LedgerState.CLOSED, 41, 1000, 0)
    assert again.is_closed


def test_unknown_fields_and_digest_types_survive_a_rewrite() -> None:
    message = bookkeeper_pb2.LedgerMetadataFormat.FromString(SAMPLE.split(b"\n", 1)[1][1:])
    message.ClearField("digestType")
    body = message.SerializeToString() + b"\x38\x09" + b"\xa2\x06\x03abc"
    metadata = LedgerMetadata.parse(5, HEAD + b"3\n" + bytes((len(body),)) + body)
    assert metadata.digest_type is None
    rewritten = metadata.closed(1, 2).serialize()
    assert rewritten.endswith(b"\x38\x09\xa2\x06\x03abc")
    again = LedgerMetadata.parse(5, rewritten)
    assert again == metadata.closed(1, 2)


@pytest.mark.parametrize(
    "changes",
    [
        {"ack_quorum": 0},
        {"ack_quorum": 3},
        {"write_quorum": 3},
        {"ensembles": ()},
        {"ensembles": ((0, ("a",)),)},
        {"ensembles": ((0, ("a", "b")), (0, ("a", "b")))},
        {"ensembles": ((5, ("a", "b")), (4, ("a", "b")))},
        {"ensembles": ((-1, ("a", "b")),)},
    ],
)
def test_impossible_metadata_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(MalformedRecord):
        replace(LedgerMetadata.parse(5, SAMPLE), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"something else\n", id="no magic"),
        pytest.param(HEAD + b"3", id="no body"),
        pytest.param(HEAD + b"4\n\x00", id="later version"),
        pytest.param(HEAD + b"3\n", id="v3 without length"),
        pytest.param(HEAD + b"3\n\xff\xff\xff\xff\xff\x01", id="v3 endless length"),
        pytest.param(SAMPLE[:-1], id="v3 cut"),
        pytest.param(HEAD + b"3\n\x00", id="v3 empty"),
        pytest.param(HEAD + b"3\n\x02\x08\xff", id="v3 cut varint"),
        pytest.param(HEAD + b"2\nquorumSize: x", id="v2 no number"),
        pytest.param(HEAD + b"2\nquorumSize: 1\n", id="v2 incomplete"),
        pytest.param(HEAD + b"2\n\xff\xfe", id="v2 no text"),
        pytest.param(HEAD + b"1\n3\n", id="v1 cut"),
        pytest.param(HEAD + b"1\n1\n1\n0\nx\ta:1", id="v1 no entry id"),
        pytest.param(HEAD + b"1\n1\n1\n0\n\xff", id="v1 no text"),
    ],
)
def test_broken_records_are_refused_with_the_ledgers_id(record: bytes) -> None:
    with pytest.raises(MalformedRecord, match="ledger 77"):
        LedgerMetadata.parse(77, record)


@given(st.binary(max_size=80))
def test_garbage_is_refused_and_nothing_else(body: bytes) -> None:
    for version in (b"1", b"2", b"3"):
        try:
            LedgerMetadata.parse(1, HEAD + version + b"\n" + body)
        except MalformedRecord:
            continue


bookies = st.text("abc:.1", min_size=1, max_size=6)


@given(
    st.integers(1, 5).flatmap(
        lambda size: st.tuples(
            st.just(size), st.lists(st.tuples(*[bookies] * size), min_size=1, max_size=4), st.integers(1, size)
        )
    ),
    st.sampled_from(LedgerState),
    st.sampled_from(DigestType),
    st.binary(max_size=9),
    st.dictionaries(st.text(max_size=5), st.binary(max_size=9)),
    st.none() | st.integers(0, 2**63 - 1),
    st.sampled_from([2, 3]),
)
def test_metadata_round_trips(
    shape: tuple[int, list[tuple[str, ...]], int],
    state: LedgerState,
    digest_type: DigestType,
    password: bytes,
    custom: dict[str, bytes],
    ctime: int | None,
    version: int,
) -> None:
    size, ensembles, quorum = shape
    metadata = LedgerMetadata(
        ledger_id=1,
        ensemble_size=size,
        write_quorum=quorum,
        ack_quorum=quorum,
        ensembles=tuple((number * 10, members) for number, members in enumerate(ensembles)),
        state=state,
        digest_type=digest_type,
        password=password,
        custom_metadata=custom,
        ctime=ctime,
        ctoken=None if version == 2 else 0,
        format_version=version,
    )
    assert LedgerMetadata.parse(1, metadata.serialize()) == metadata


@pytest.mark.parametrize(
    ("ledger_id", "path"),
    [
        (0, "/ledgers/00/0000/L0000"),
        (12345, "/ledgers/00/0001/L2345"),
        (2147483646, "/ledgers/21/4748/L3646"),
        (2147483647, "/ledgers/000/0000/0021/4748/L3647"),
        (4294967303, "/ledgers/000/0000/0042/9496/L7303"),
        (2**63 - 1, "/ledgers/922/3372/0368/5477/L5807"),
    ],
)
def test_paths_are_those_of_the_hierarchical_manager(ledger_id: int, path: str) -> None:
    assert ledger_path(ledger_id) == path
    assert ledger_id_of_path(path) == ledger_id
    assert ledger_path(ledger_id, "/other") == path.replace("/ledgers", "/other")


@pytest.mark.parametrize(
    "path",
    [
        "/ledgers",
        "/ledgers/LAYOUT",
        "/ledgers/00",
        "/ledgers/00/0001",
        "/ledgers/00/0001/2345",
        "/ledgers/idgen/ID-1",
        "/ledgers/000/0000/0000/0001/L2345",
        "/ledgers/00/0001/L23",
        "/other/00/0001/L2345",
        "/ledgers/0/00001/L2345",
    ],
)
def test_other_nodes_are_no_ledgers(path: str) -> None:
    assert ledger_id_of_path(path) is None


def test_negative_ledger_id_has_no_path() -> None:
    with pytest.raises(ValueError, match="-1"):
        ledger_path(-1)


def test_registration_and_cookie_records_keep_their_bytes() -> None:
    seen = set()
    for item in load("bookkeeper_records.json"):
        record = unhex(item["hex"])
        if "/available/" in item["path"]:
            info = bookkeeper_pb2.BookieServiceInfoFormat.FromString(record)
            assert info.endpoints[0].protocol == "bookie-rpc"
            assert info.SerializeToString() == record
            seen.add("registration")
        elif "/cookies/" in item["path"]:
            version, _, text = record.partition(b"\n")
            cookie = text_format.Parse(text, bookkeeper_pb2.CookieFormat())
            assert version == b"5"
            assert text_format.MessageToString(cookie).encode() == text
            seen.add("cookie")
    assert seen == {"registration", "cookie"}
