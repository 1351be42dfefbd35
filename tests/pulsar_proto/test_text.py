"""Strings that others wrote are checked where they enter: none gets further that is not UTF-8."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.pb import (
    bookkeeper_pb2,
    managed_ledger_pb2,
    pending_ack_pb2,
    pulsar_api_pb2,
    transaction_log_pb2,
    underreplication_pb2,
)
from pulsar_proto.records.ledger_record import LedgerMetadata
from pulsar_proto.records.managed_record import (
    parse_managed_cursor_info,
    parse_managed_ledger_info,
    parse_position_info,
)
from pulsar_proto.records.payload import (
    MessageChunk,
    Special,
    body,
    build_payload,
    count_and_special,
    parse_metadata,
    sticky_key_of,
)
from pulsar_proto.records.underreplication_record import voter
from pulsar_proto.text import NotText, check_text, raw, shown
from pulsar_proto.varint import varint
from tests.pulsar_proto.text_paths import Path, all_messages, least, text_paths, with_text

MODULES: tuple[Any, ...] = (
    pulsar_api_pb2,
    managed_ledger_pb2,
    bookkeeper_pb2,
    pending_ack_pb2,
    transaction_log_pb2,
    underreplication_pb2,
)
MESSAGES = {each.full_name: each for module in MODULES for each in all_messages(module)}
PATHS = [(name, path) for name, message in MESSAGES.items() for path in text_paths(message, frozenset({message}))]
NOT_UTF8 = [b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"a\x80", b"\xf4\x90\x80\x80"]

METADATA = pulsar_api_pb2.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1)


@pytest.mark.parametrize(("name", "path"), PATHS, ids=lambda each: each if isinstance(each, str) else ".".join(each))
def test_every_string_of_every_message_is_checked(name: str, path: Path) -> None:
    message: Any = MESSAGES[name]
    check_text(message._concrete_class.FromString(with_text(least(message), path, "é\0".encode())))
    for text in NOT_UTF8:
        with pytest.raises(NotText, match="is not UTF-8"):
            check_text(message._concrete_class.FromString(with_text(least(message), path, text)))


def payload_with(path: Path, text: bytes, **values: Any) -> bytes:
    metadata = pulsar_api_pb2.MessageMetadata()
    metadata.MergeFrom(METADATA)
    metadata.MergeFrom(pulsar_api_pb2.MessageMetadata(**values))
    encoded = with_text(metadata, path, text)
    return build_payload(pulsar_api_pb2.MessageMetadata.FromString(encoded), b"hello")


@given(st.sampled_from(list(text_paths(pulsar_api_pb2.MessageMetadata.DESCRIPTOR))), st.binary(max_size=9))
def test_a_messages_strings_are_kept_as_they_came(path: Path, text: bytes) -> None:
    payload = payload_with(path, text)
    found: Any = parse_metadata(payload)
    for name in path:
        found = getattr(found, name)
        found = found[-1] if hasattr(found, "append") or hasattr(found, "add") else found
    assert raw(found) == text
    assert shown(found) == text.decode(errors="replace")
    assert body(payload) == b"hello"


@given(st.binary(max_size=9), st.booleans())
def test_a_sticky_key_is_the_keys_raw_bytes(key: bytes, is_base64: bool) -> None:
    assert sticky_key_of(payload_with(("partition_key",), key)) == key
    as_base64 = sticky_key_of(payload_with(("partition_key",), b"\xff" + key, partition_key_b64_encoded=is_base64))
    assert as_base64 == b"\xff" + key
    assert sticky_key_of(payload_with(("producer_name",), key)) == key + b"-7"


@given(st.binary(min_size=1, max_size=9))
def test_a_chunks_uuid_is_its_raw_bytes(uuid: bytes) -> None:
    built = payload_with(("uuid",), uuid, num_chunks_from_msg=2, chunk_id=1)
    assert count_and_special(built)[1] == Special(0, False, MessageChunk(uuid, True))


def ledger_metadata(path: Path, text: bytes) -> object:
    segment = bookkeeper_pb2.LedgerMetadataFormat.Segment(ensembleMember=["a:1"], firstEntryId=0)
    whole = bookkeeper_pb2.LedgerMetadataFormat(
        quorumSize=1,
        ensembleSize=1,
        ackQuorumSize=1,
        length=0,
        lastEntryId=-1,
        state=bookkeeper_pb2.LedgerMetadataFormat.OPEN,
        segment=[segment],
    )
    data = with_text(whole, path, text)
    return LedgerMetadata.parse(1, b"BookieMetadataFormatVersion\t3\n" + varint(len(data)) + data)


def ledger_metadata_as_text(path: Path, text: bytes) -> object:
    member = "".join(f"\\{byte:03o}" for byte in text)
    form = (
        f'quorumSize: 1\nensembleSize: 1\nlength: 0\nstate: OPEN\nsegment {{ ensembleMember: "{member}" '
        "firstEntryId: 0 }\n"
    )
    return LedgerMetadata.parse(1, b"BookieMetadataFormatVersion\t2\n" + form.encode())


def record(parse: Callable[[bytes], object], message: Any) -> Callable[[Path, bytes], object]:
    return lambda path, text: parse(with_text(least(message.DESCRIPTOR), path, text))


RECORDS: list[tuple[Callable[[Path, bytes], object], Any]] = [
    (record(parse_managed_ledger_info, managed_ledger_pb2.ManagedLedgerInfo), managed_ledger_pb2.ManagedLedgerInfo),
    (record(parse_managed_cursor_info, managed_ledger_pb2.ManagedCursorInfo), managed_ledger_pb2.ManagedCursorInfo),
    (record(parse_position_info, managed_ledger_pb2.PositionInfo), managed_ledger_pb2.PositionInfo),
    (ledger_metadata, bookkeeper_pb2.LedgerMetadataFormat),
]


@pytest.mark.parametrize(
    ("parse", "path"),
    [(parse, path) for parse, message in RECORDS for path in text_paths(message.DESCRIPTOR)],
    ids=lambda each: ".".join(each) if isinstance(each, tuple) else "",
)
def test_a_record_with_a_string_that_is_not_utf8_is_malformed(
    parse: Callable[[Path, bytes], object], path: Path
) -> None:
    for text in NOT_UTF8:
        with pytest.raises(MalformedRecord):
            parse(path, text)


def test_so_is_one_in_protobufs_text_format() -> None:
    with pytest.raises(MalformedRecord):
        ledger_metadata_as_text((), b"\xff\xfe")
    with pytest.raises(MalformedRecord):
        voter(b'bookieId: "\\377\\376"')
