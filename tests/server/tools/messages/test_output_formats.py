"""The format strings of `consume` and `read`, and a message as a line of JSON."""

import base64
import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.tools.messages.json_line_rules import Outgoing, json_line, parse_json_line
from magnetar.server.tools.messages.message_fields import MessageFields
from magnetar.server.tools.messages.output_format_rules import parse_format, render, without_control

MESSAGE = MessageFields(
    topic="persistent://public/default/t-partition-2",
    partition=2,
    id="3:4:2:0",
    value=b"\x00\xffvalue",
    key="käy",
    ordering_key="o",
    properties={"a": "1", "b": "x,y"},
    publish_time_ms=1_763_966_400_123,
    event_time_ms=5,
    redelivery_count=7,
    producer="p",
    schema_version=1,
)
BARE = MessageFields("persistent://public/default/t", -1, "3:4:-1", None)
UNICODE = st.text(st.characters(codec="utf-8"))
MESSAGES = st.builds(
    MessageFields,
    topic=UNICODE,
    partition=st.integers(-1, 100),
    id=UNICODE,
    value=st.none() | st.binary() | UNICODE.map(str.encode),
    key=UNICODE,
    ordering_key=UNICODE,
    properties=st.dictionaries(UNICODE, UNICODE, max_size=3),
    publish_time_ms=st.integers(0, 2**64 - 1),
    event_time_ms=st.integers(0, 2**64 - 1),
    redelivery_count=st.integers(0, 2**31),
    producer=UNICODE,
    schema_version=st.integers(-1, 100),
)


def shown(form: str, message: MessageFields = MESSAGE) -> bytes:
    return render(parse_format(form), message)


@pytest.mark.parametrize(
    ("form", "output"),
    [
        ("%v\\n", b"\x00\xffvalue\n"),
        ("%t %p %i", b"persistent://public/default/t-partition-2 2 3:4:2:0"),
        ("%k|%o|%r|%P|%S", "käy|o|7|p|1".encode()),
        ("%h", b"a=1,b=x,y"),
        ("%h{b}%h{none}", b"x,y"),
        ("%T %e", b"1763966400123 5"),
        ("%T{iso} %e{iso}", b"2025-11-24T06:40:00.123Z 1970-01-01T00:00:00.005Z"),
        ("%v{base64}", base64.b64encode(b"\x00\xffvalue")),
        ("%v{hex} %v{len}", b"00ff76616c7565 7"),
        ("%k{json}", '"käy"'.encode()),
        ("100%%\\t\\r\\0\\\\\\x41", b"100%\t\r\0\\A"),
        ("ä%k", "äkäy".encode()),
        ("", b""),
    ],
)
def test_formats(form: str, output: bytes) -> None:
    assert shown(form) == output


def test_what_a_message_does_not_have_is_empty() -> None:
    assert shown("[%k%v%o%h%h{a}%T%e%T{iso}%S]", BARE) == b"[]"


def test_a_decoded_value_is_printed_as_json_and_a_text_as_it_is() -> None:
    record = MessageFields("t", -1, "1:0", b"\x02", schema_version=0, decoded={"a": 1, "ä": None})
    assert shown("%v", record) == '{"a":1,"ä":null}'.encode()
    text = MessageFields("t", -1, "1:0", b'{"a":  1.0}', decoded={"a": 1.0}, is_text=True)
    assert shown("%v", text) == b'{"a":  1.0}'
    assert json.loads(json_line(record))["value"] == {"a": 1, "ä": None}


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        ("%z", "'%z' is no field"),
        ("%", "single '%'"),
        ("%v%", "single '%'"),
        ("%v{rot13}", "%v{rot13}"),
        ("%T{hex}", "milliseconds"),
        ("%t{hex}", "has no forms"),
        ("\\q", r"'\\q' is no escape"),
        ("\\", "is no escape"),
        ("\\x4", "is no escape"),
    ],
)
def test_wrong_formats_are_refused_with_a_sentence(form: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_format(form)


@given(st.text(), MESSAGES)
def test_any_format_prints_or_is_refused(form: str, message: MessageFields) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(render(parse_format(form), message), bytes)


@given(UNICODE)
def test_text_without_fields_is_printed_as_it_is(text: str) -> None:
    assert shown(text.replace("\\", "\\\\").replace("%", "%%")) == text.encode()


@given(st.binary())
def test_a_terminal_gets_no_control_characters(data: bytes) -> None:
    assert not set(without_control(data)) & (set(range(32)) - {9, 10} | {127})


@given(MESSAGES)
def test_what_json_printed_is_published_as_the_same_message(message: MessageFields) -> None:
    line = json_line(message)
    assert line.count(b"\n") == 1
    again = parse_json_line(line)
    expected = Outgoing(
        message.value, message.key, message.ordering_key, dict(message.properties), message.event_time_ms
    )
    assert again == expected


def test_json_says_when_a_value_is_in_base64() -> None:
    assert json.loads(json_line(MESSAGE))["valueEncoding"] == "base64"
    assert "valueEncoding" not in json.loads(json_line(MessageFields("t", -1, "1:0", b"text")))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"", "not JSON"),
        (b"[]", "no object"),
        (b"{}", 'member "value"'),
        (b'{"value": "=", "valueEncoding": "base64"}', "not base64"),
        (b'{"value": 5, "valueEncoding": "base64"}', "not base64"),
        (b'{"value": "", "valueEncoding": "hex"}', "only be"),
        (b'{"value": "\\ud800"}', "not Unicode"),
        (b'{"value": "", "key": 5}', '"key" is no text'),
        (b'{"value": "", "properties": {"a": 1}}', '"properties"'),
        (b'{"value": "", "eventTime": -1}', '"eventTime"'),
        (b'{"value": "", "eventTime": true}', '"eventTime"'),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_lines_that_are_no_message_are_refused(line: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_json_line(line)


@given(st.binary())
def test_any_line_is_a_message_or_refused(line: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(parse_json_line(line), Outgoing)
