"""From bytes of standard input to messages."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.tools.messages.input_line_rules import (
    LineCutter,
    formatted_line,
    keyed_line,
    unescaped,
    whole_line,
)
from magnetar.server.tools.messages.json_line_rules import Outgoing
from magnetar.server.tools.messages.message_fields import MessageFields
from magnetar.server.tools.messages.output_format_rules import parse_format, render

KEYS = st.text(st.characters(codec="utf-8", exclude_characters="|"))


@given(st.lists(st.binary(max_size=8)), st.sampled_from([b"\n", b"\0", b"ab", b"--"]))
def test_lines_are_cut_alike_however_the_bytes_come(chunks: list[bytes], separator: bytes) -> None:
    cutter = LineCutter(separator, 1000)
    lines = [line for chunk in chunks for line in cutter.feed(chunk)] + list(cutter.end())
    expected = b"".join(chunks).split(separator)
    assert lines == (expected if expected[-1] else expected[:-1])


def test_a_line_that_is_too_long_is_named_before_its_end_has_come() -> None:
    cutter = LineCutter(b"\n", 10)
    assert list(cutter.feed(b"0123456789\n")) == [b"0123456789"]
    with pytest.raises(ValueError, match="line 2 has more than 10 bytes"):
        list(cutter.feed(b"0123456789x"))


def test_an_empty_line_is_a_message() -> None:
    cutter = LineCutter(b"\n", 10)
    assert list(cutter.feed(b"\n\na\n")) == [b"", b"", b"a"]


@given(st.binary())
def test_a_whole_line_is_the_value(line: bytes) -> None:
    assert whole_line(line) == Outgoing(line)


@given(KEYS, st.binary())
def test_a_key_ends_at_the_first_separator(key: str, value: bytes) -> None:
    assert keyed_line(b"|")(key.encode() + b"|" + value) == Outgoing(value, key)


def test_a_line_without_separator_has_no_key() -> None:
    assert keyed_line(b":")(b"value") == Outgoing(b"value")


@given(KEYS, st.binary(), st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["1", "2"])))
def test_what_a_format_printed_is_read_by_the_same_format(key: str, value: bytes, properties: dict[str, str]) -> None:
    form = "<%k|%h|%e|%v"
    message = MessageFields("t", -1, "1:0", value, key, properties=properties, event_time_ms=7)
    line = render(parse_format(form), message)
    assert formatted_line(form)(line) == Outgoing(value, key, properties=properties, event_time_ms=7)


def test_formats_of_lines() -> None:
    assert formatted_line("%k %v\\n")(b"a b c") == Outgoing(b"b c", "a")
    assert formatted_line("%v;%h{x}%%")(b"v;1%") == Outgoing(b"v", properties={"x": "1"})
    assert formatted_line("%v")(b"") == Outgoing(b"")


@pytest.mark.parametrize(
    ("form", "complaint"),
    [
        ("%k", "must have %v"),
        ("%v %v", "must have %v, the value, once"),
        ("%k%v", "nothing separates %k from %v"),
        ("%v %t", "'%t' is no field"),
        ("%v %", "single '%'"),
        ("%v\\q", "no escape"),
        ("%k{hex} %v", "'%k' is no field"),
    ],
)
def test_wrong_formats_are_refused(form: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        formatted_line(form)


@pytest.mark.parametrize(
    ("form", "line", "complaint"),
    [
        ("%k %v", b"novalue", "has no b' ' behind %k"),
        ("x%v", b"y", "does not begin with b'x'"),
        ("%k %v", b"\xff v", "key is not UTF-8"),
        ("%e %v", b"soon v", "event time"),
        ("%h %v", b"novalue v", "KEY=VALUE"),
    ],
)
def test_lines_that_do_not_fit_are_refused(form: str, line: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        formatted_line(form)(line)


@given(st.text(), st.binary())
def test_any_format_reads_any_line_or_refuses(form: str, line: bytes) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(formatted_line(form)(line), Outgoing)


def test_separators_have_escapes() -> None:
    assert unescaped("\\t") == b"\t"
    assert unescaped("\\x00\\xff::") == b"\x00\xff::"
    with pytest.raises(ValueError, match="at least one byte"):
        unescaped("")
