"""JSON of messages: what Apache's broker was recorded to say is what ours says, and faults name what is wrong."""

import json
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.websocket.json_message_rules import (
    MessageFault,
    NotUtf8Error,
    ProducerMessage,
    RareMembers,
    SocketError,
    ack_text,
    consumer_text,
    entry_id_texts,
    error_text,
    message_id_text,
    parse_message_id,
    parse_producer_message,
    parse_time,
    time_text,
)
from pulsar_proto.pb import pulsar_api_pb2 as pb

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "websocket_exchanges.json").read_text())["sockets"]
PUBLISHED = VECTORS[0]["log"]


def parsed(text: str) -> tuple[ProducerMessage | None, MessageFault | None]:
    try:
        return parse_producer_message(text.encode()), None
    except MessageFault as fault:
        return None, fault


def test_each_text_that_apache_answered_is_answered_so() -> None:
    """Same members and codes; the words of an error are ours."""
    entry_id = 0
    for (_, said), (_, answered) in zip(PUBLISHED[::2], PUBLISHED[1::2], strict=True):
        message, fault = parsed(said)
        if message is not None:
            assert ack_text(message_id_text(20, entry_id).encode(), message.context) == answered.encode()
            entry_id += 1
        else:
            assert fault is not None
            ours, theirs = json.loads(error_text(fault.code, str(fault), fault.context)), json.loads(answered)
            assert ours.pop("errorMsg")
            theirs.pop("errorMsg")
            assert list(ours.items()) == list(theirs.items())


@given(
    st.binary(max_size=50) | st.just("eA=="),
    st.integers(0, 2**62),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(-1, 2**31 - 1),
)
def test_a_plain_message_is_written_as_one_with_members_that_are_rare(
    payload: bytes | str, publish_time_ms: int, redeliveries: int, entry_id: int, partition: int
) -> None:
    message_id = message_id_text(7, entry_id, partition)
    assert entry_id_texts(7, partition)(entry_id) == message_id.encode()
    plain = consumer_text(message_id, payload, {}, publish_time_ms, redeliveries)
    keyed = consumer_text(message_id, payload, {}, publish_time_ms, redeliveries, key="")
    assert plain == keyed.replace(b',"key":""', b"")


def test_each_message_that_apache_delivered_is_written_so() -> None:
    seen = 0
    for exchange in VECTORS:
        for who, text in exchange.get("log", ()):
            if who == "server" and '"publishTime"' in text:
                value = json.loads(text)
                found = parse_message_id(value["messageId"])
                event = value.get("eventTime")
                ours = consumer_text(
                    message_id_text(found.ledgerId, found.entryId),
                    b64decoded(value["payload"]),
                    value["properties"],
                    parse_time(value["publishTime"]),
                    value["redeliveryCount"],
                    parse_time(event) if event else 0,
                    value.get("key"),
                )
                assert ours == text.encode()
                seen += 1
    assert seen == 10


def b64decoded(text: str) -> bytes:
    message = parse_producer_message(json.dumps({"payload": text}).encode())
    return message.payload


def test_a_text_that_is_not_utf_8_is_no_message() -> None:
    for text in (b'{"payload":"\xff"}', b"\xed\xa0\x80"):
        with pytest.raises(NotUtf8Error):
            parse_producer_message(text)


def test_all_members_of_a_message_are_read() -> None:
    message = parse_producer_message(
        json.dumps(
            {
                "payload": b64encode(b"\x00\xff").decode(),
                "context": 7,
                "properties": {"a": "1", "b": 2, "c": True, "d": 1.5},
                "key": "k",
                "replicationClusters": ["r1", "r2"],
                "eventTime": "2026-11-22T11:00:00.5+01:00",
                "deliverAt": "17",
                "deliverAfterMs": 18,
                "encryptionParam": "AQI=",
                "compressionType": "LZ4",
                "uncompressedMessageSize": 99,
            }
        ).encode()
    )
    assert message == ProducerMessage(
        b"\x00\xff",
        "7",
        {"a": "1", "b": "2", "c": "true", "d": "1.5"},
        "k",
        RareMembers(["r1", "r2"], 1795341600500, 17, 18, b"\x01\x02", "LZ4", 99),
    )


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        ("[]", 3, "no object"),
        ("1", 3, "no object"),
        ("", 3, "no JSON"),
        ("{" * 5000, 3, "no JSON"),
        ('{"payload": "\\ud800"}', 3, "no JSON"),
        ({"context": "c"}, 7, "no payload"),
        ({"payload": None}, 7, "no payload"),
        ({"payload": ["eA=="]}, 3, "payload is no text"),
        ({"payload": "a"}, 7, "Invalid Base64 message-payload"),
        ({"payload": "eA=\n="}, 7, "Illegal base64 character a"),
        ({"payload": "eA==eA=="}, 7, "Invalid Base64"),
        ({"payload": "", "properties": []}, 3, "properties is no object"),
        ({"payload": "", "properties": {"a": None}}, 3, "properties holds a null"),
        ({"payload": "", "properties": {"a": {}}}, 3, "a property is no text"),
        ({"payload": "", "replicationClusters": "r1"}, 3, "replicationClusters is no list"),
        ({"payload": "", "deliverAt": 1e300}, 3, "deliverAt is no whole number"),
        ({"payload": "", "deliverAt": 2**63}, 3, "deliverAt is no whole number"),
        ({"payload": "", "deliverAfterMs": "soon"}, 3, "deliverAfterMs is no whole number"),
        ({"payload": "", "eventTime": "2026-11-22T10:00:00"}, 7, "could not be parsed"),
        ({"payload": "", "eventTime": "2026-13-22T10:00:00Z"}, 7, "could not be parsed"),
        ({"payload": "", "eventTime": "1969-12-31T23:59:59Z"}, 7, "before 1970"),
        ({"payload": "", "encryptionParam": "*"}, 7, "Invalid Base64 encryptionParam"),
    ],
)
def test_what_is_wrong_with_a_message_is_named(value: Any, code: int, text: str) -> None:
    _, fault = parsed(value if isinstance(value, str) else json.dumps(value))
    assert fault is not None
    assert (fault.code, text in str(fault)) == (code, True), str(fault)
    if isinstance(value, dict) and "context" in value:
        assert fault.context == "c"


def test_padding_may_be_missing_and_a_payload_may_be_empty() -> None:
    assert [b64decoded(text) for text in ("eA", "eA==", "eHk", "", "/+8=")] == [b"x", b"x", b"xy", b"", b"\xff\xef"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ("payload", "context", "properties", "key", "deliverAt", "eventTime", "replicationClusters", "encryptionParam")
)


@given(st.dictionaries(NAMES, JSON) | JSON | st.text())
def test_a_message_is_read_or_refused_and_the_answer_is_json(value: Any) -> None:
    message, fault = parsed(value if isinstance(value, str) else json.dumps(value))
    if fault is not None:
        assert json.loads(error_text(fault.code, str(fault), fault.context))["result"] == f"send-error:{fault.code}"
    else:
        assert message is not None
        assert json.loads(ack_text(b"x", message.context)).get("context") == message.context


@given(
    st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.integers(-1, 99), st.integers(-1, 99), st.integers(0, 9)
)
def test_message_ids_go_both_ways(ledger: int, entry: int, partition: int, index: int, size: int) -> None:
    found = parse_message_id(message_id_text(ledger, entry, partition, index, size))
    expected = pb.MessageIdData(ledgerId=ledger, entryId=entry, batch_size=size)
    if partition >= 0:
        expected.partition = partition
    if index >= 0:
        expected.batch_index = index
    assert found == expected


def test_a_message_id_of_a_duplicate_has_an_unknown_place() -> None:
    found = parse_message_id(message_id_text(-1, -1))
    assert (found.ledgerId, found.entryId) == (2**64 - 1, 2**64 - 1)


@pytest.mark.parametrize("text", ["", "rubbish", "CBQ=", "*", "CBQQADAA=", "é"])
def test_a_text_that_is_no_message_id_is_refused(text: str) -> None:
    with pytest.raises(MessageFault):
        parse_message_id(text)


@given(st.integers(1, 253_402_300_799_999))
def test_times_go_both_ways(time_ms: int) -> None:
    text = time_text(time_ms)
    assert parse_time(text) == time_ms
    assert datetime.fromisoformat(text.replace("Z", "+00:00")) == datetime.fromtimestamp(time_ms // 1000, UTC).replace(
        microsecond=time_ms % 1000 * 1000
    )


def test_times_that_no_calendar_here_holds_are_written_too() -> None:
    assert time_text(2**63 - 1) == "+292278994-08-17T07:12:55.807Z"
    assert time_text(500) == "1970-01-01T00:00:00.5Z"
    assert time_text(2**64 - 1).endswith("Z")


def test_codes_are_apaches() -> None:
    assert [code.value for code in SocketError] == [1, 2, 3, 4, 5, 6, 7, 8]
