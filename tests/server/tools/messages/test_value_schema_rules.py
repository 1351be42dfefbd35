"""Values by their schema."""

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.tools.messages.value_schema_rules import encoder_of, parse_definition
from pulsar_proto.values.value_decoding import decoder_of

RECORD: dict[str, Any] = {
    "type": "record",
    "name": "Person",
    "namespace": "test",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "age", "type": ["null", "int"], "default": None},
        {"name": "picture", "type": ["null", "bytes"], "default": None},
        {"name": "height", "type": "double"},
        {"name": "born", "type": {"type": "int", "logicalType": "date"}},
        {"name": "tags", "type": {"type": "map", "values": "string"}},
        {"name": "friends", "type": {"type": "array", "items": "Person"}},
    ],
}
LEAF: dict[str, Any] = {
    "name": "leaf",
    "age": None,
    "picture": None,
    "height": "NaN",
    "born": -1,
    "tags": {},
    "friends": [],
}
TEXT = st.text(st.characters(codec="utf-8"))
PEOPLE = st.fixed_dictionaries(
    {
        "name": TEXT,
        "age": st.none() | st.integers(-(2**31), 2**31 - 1),
        "picture": st.none() | st.text(st.characters(max_codepoint=255)),
        "height": st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(["Infinity", "-Infinity"]),
        "born": st.integers(0, 100_000),
        "tags": st.dictionaries(TEXT, TEXT, max_size=2),
        "friends": st.lists(st.just(LEAF), max_size=2),
    }
)


@given(PEOPLE)
def test_a_record_comes_back_as_the_json_that_it_was(person: dict[str, Any]) -> None:
    data = encoder_of("AVRO", RECORD)(json.dumps(person).encode())
    decode = decoder_of("AVRO", json.dumps(RECORD))
    assert decode is not None
    assert decode(data) == person


def test_the_bytes_are_avros() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "bytes"]}]}
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), {"a": b"\x00\xff"})
    assert encoder_of("AVRO", schema)('{"a": "\\u0000ÿ"}'.encode()) == out.getvalue()


def test_a_field_with_a_default_may_be_missing() -> None:
    line = b'{"name": "x", "height": 1, "born": 0, "tags": {}, "friends": []}'
    decode = decoder_of("AVRO", json.dumps(RECORD))
    assert decode is not None
    assert decode(encoder_of("AVRO", RECORD)(line))["age"] is None


@pytest.mark.parametrize(
    ("kind", "data", "value"),
    [
        ("STRING", "ä".encode(), "ä"),
        ("JSON", b'{"a": 1}', {"a": 1}),
        ("INT8", b"\xff", -1),
        ("INT16", b"\x01\x02", 258),
        ("INT32", b"\0\0\0\1", 1),
        ("INT64", b"\xff" * 7 + b"\xfe", -2),
        ("BOOLEAN", b"\1", True),
        ("FLOAT", b"\x3f\0\0\0", 0.5),
        ("DOUBLE", b"\0" * 8, 0.0),
        ("DOUBLE", b"\xff\xf0" + b"\0" * 6, "-Infinity"),
    ],
)
def test_simple_values(kind: str, data: bytes, value: Any) -> None:
    decode = decoder_of(kind, "")
    assert decode is not None
    assert decode(data) == value


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("STRING", b"\xff"),
        ("JSON", b"{"),
        ("JSON", b"NaN"),
        ("JSON", b"1e999"),
        ("AVRO", b"5"),
        ("AVRO", b'{"name": 5}'),
        ("AVRO", b'{"name": "x", "height": 1, "born": 0, "tags": {}, "friends": [], "picture": "\xc4\x80"}'),
    ],
)
def test_lines_that_are_no_value_are_refused(kind: str, line: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        encoder_of(kind, RECORD)(line)


@pytest.mark.parametrize(
    ("value", "kind"),
    [("x", "a string"), (1.5, "a number"), (True, "true or false"), ({}, "an object"), ([], "a list")],
)
def test_a_value_that_fits_no_branch_of_a_union_is_called_by_its_kind_in_json(value: object, kind: str) -> None:
    union = {"type": "record", "name": "R", "fields": [{"name": "n", "type": ["null", "int"]}]}
    with pytest.raises(ValueError, match=rf"does not fit .* \({kind}\) is none of \['null', 'int'\] on field n"):
        encoder_of("AVRO", union)(json.dumps({"n": value}).encode())


@given(st.binary())
def test_any_bytes_are_a_value_or_refused(data: bytes) -> None:
    for kind in ("AVRO", "JSON", "STRING", "INT8", "INT64", "FLOAT", "DOUBLE", "BOOLEAN"):
        decode = decoder_of(kind, json.dumps(RECORD))
        assert decode is not None
        try:
            value = decode(data)
        except (ValueError, RecursionError):
            continue
        json.dumps(value, allow_nan=False)


@pytest.mark.parametrize("kind", ["STRING", "JSON", "BYTES"])
def test_what_needs_no_encoding_stays_as_it_is(kind: str) -> None:
    assert encoder_of(kind, {})('{"a":  "ä"}'.encode()) == '{"a":  "ä"}'.encode()


@pytest.mark.parametrize("kind", ["BYTES", "PROTOBUF", "PROTOBUF_NATIVE", "KEY_VALUE"])
def test_other_types_are_shown_as_bytes(kind: str) -> None:
    assert decoder_of(kind, "") is None


def test_schema_files() -> None:
    assert parse_definition(json.dumps(RECORD)) == ("", RECORD)
    uploaded = {"type": "JSON", "schema": json.dumps(RECORD), "properties": {}}
    assert parse_definition(json.dumps(uploaded)) == ("JSON", RECORD)
    assert parse_definition('{"type": "string", "schema": ""}') == ("STRING", {})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON"),
        ("[]", "no JSON object"),
        ('{"a": 1}', '"type"'),
        ('{"type": "record"}', "no Avro schema"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "nope"}]}', "no Avro schema"),
        ('{"type": "PROTOBUF", "schema": ""}', "cannot be written"),
    ],
)
def test_files_that_are_no_schema_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_definition(text)
