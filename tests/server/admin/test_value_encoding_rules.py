"""How texts become the bytes of messages: compared with fastavro for Avro, and with the expected error texts for
faults."""

import io
import json
import math
import struct
from contextlib import suppress
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.server.admin.avro_json_rules import ValueFault, encode_avro
from magnetar.server.admin.value_encoding_rules import encoder_of
from magnetar.server.schema.avro_schema import parse_avro
from magnetar.server.schema.schema_types import InvalidSchema, Schema, SchemaType
from tests.rounds import rounds

FIELDS = [
    ("flag", "boolean", st.booleans()),
    ("small", "int", st.integers(-(2**31), 2**31 - 1)),
    ("large", "long", st.integers(-(2**63), 2**63 - 1)),
    ("ratio", "double", st.floats(allow_nan=False)),
    ("text", "string", st.text()),
    ("raw", "bytes", st.binary()),
    ("color", {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}, st.sampled_from(["RED", "BLUE"])),
    ("code", {"type": "fixed", "name": "Code", "size": 3}, st.binary(min_size=3, max_size=3)),
    ("list", {"type": "array", "items": "long"}, st.lists(st.integers(-5, 5))),
    ("map", {"type": "map", "values": "string"}, st.dictionaries(st.text(), st.text())),
    ("maybe", ["null", "string", "long"], st.none() | st.text() | st.integers(-(2**63), 2**63 - 1)),
]
RECORD = {
    "type": "record",
    "name": "All",
    "namespace": "n",
    "fields": [{"name": name, "type": kind} for name, kind, _ in FIELDS],
}
NESTED = {
    "type": "record",
    "name": "Node",
    "namespace": "n",
    "fields": [{"name": "value", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
}


def as_json(name: str, value: Any) -> Any:
    """Returns a value of the record in Avro's JSON encoding."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if name == "maybe" and value is not None:
        return {"string" if isinstance(value, str) else "long": value}
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


@settings(max_examples=rounds(150), deadline=None)
@given(st.fixed_dictionaries({name: values for name, _, values in FIELDS}))
def test_avro_is_encoded_as_fastavro_encodes_it(value: dict[str, Any]) -> None:
    wanted = io.BytesIO()
    fastavro.schemaless_writer(wanted, RECORD, value)
    text = json.dumps({name: as_json(name, each) for name, each in reversed(value.items())})
    assert encode_avro(parse_avro(json.dumps(RECORD)), text) == wanted.getvalue()


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("int", "2147483648", "the value must be a whole number of 32 bits, not 2147483648"),
        ("int", "1.5", "must be a whole number"),
        ("int", "true", "must be a whole number"),
        ("float", "1e39", "in the range of a float"),
        ("double", "1" + "0" * 400, "in the range of a double"),
        ("double", '"x"', "must be a number"),
        ("boolean", "1", "must be true or false"),
        ("null", "0", "must be null"),
        ("string", "7", "must be a string"),
        ("string", '"\\ud800"', "whole characters"),
        ("bytes", '"\\u0100"', "one byte each"),
        (["null", "string"], '"x"', "null or an object like"),
        (["null", "string"], '{"int":1}', '"int" is no branch of the union of null, string'),
        (["string"], "null", '"null" is no branch'),
        (RECORD["fields"][6]["type"], '"GREEN"', "a symbol of Color"),  # type: ignore[index]
        (RECORD["fields"][7]["type"], '"ab"', "3 bytes of Code"),  # type: ignore[index]
        ({"type": "array", "items": "int"}, '[1,"x"]', '[1] must be a whole number of 32 bits, not "x"'),
        ({"type": "map", "values": "int"}, '{"a":null}', '["a"] must be'),
        ({"type": "map", "values": "int"}, "[]", "an object, for a map"),
        (NESTED, '{"value":1}', "the field next of the record n.Node is missing"),
        (NESTED, '{"value":1,"next":null,"x":2}', 'has no field "x"'),
        (NESTED, '{"value":1,"next":{"n.Node":{"value":"x","next":null}}}', "next.value must be"),
        (NESTED, '{"value":1,"next":{"n.Node":' * 200 + "null" + "}}" * 200, "nested deeper than"),
        (NESTED, "[" * 100_000, "is not JSON"),
        ("int", "NaN", "is not JSON"),
        ("int", "", "is not JSON"),
    ],
)
def test_an_avro_value_that_is_none_is_named_with_its_place(kind: Any, text: str, said: str) -> None:
    with pytest.raises(ValueFault) as fault:
        encode_avro(parse_avro(json.dumps(kind)), text)
    assert said in str(fault.value)
    assert len(str(fault.value)) < 300


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        ("BOOLEAN", "TRUE", b"\1"),
        ("INT8", "-128", b"\x80"),
        ("INT16", "+5", b"\0\5"),
        ("INT32", "2147483647", b"\x7f\xff\xff\xff"),
        ("INT64", "-1", b"\xff" * 8),
        ("FLOAT", "1e-3", struct.pack(">f", 1e-3)),
        ("DOUBLE", "-Infinity", struct.pack(">d", -math.inf)),
        ("DOUBLE", ".5", struct.pack(">d", 0.5)),
        ("DATE", "1970-01-02", struct.pack(">q", 86_400_000)),
        ("DATE", "Jan 2, 1970", struct.pack(">q", 86_400_000)),
        ("LOCAL_DATE", "1969-12-31", struct.pack(">q", -1)),
        ("LOCAL_TIME", "00:01", struct.pack(">q", 60 * 10**9)),
        ("LOCAL_DATE_TIME", "1970-01-02T00:00:01.5", struct.pack(">qq", 1, 1_500_000_000)),
        ("INSTANT", "1969-12-31T23:59:59.999999999Z", struct.pack(">qi", -1, 999_999_999)),
        ("BYTES", "ü", b"\xc3\xbc"),
        ("JSON", ' { "a b" : [ 1.10 , "\\" x" ] } ', b'{"a b":[1.10,"\\" x"]}'),
        ("JSON", '"\\\\ "', b'"\\\\ "'),
    ],
)
def test_what_a_text_becomes(kind: str, text: str, wanted: bytes) -> None:
    schema = Schema(SchemaType.NONE if kind == "BYTES" else SchemaType[kind])
    assert encoder_of(schema)(text) == wanted


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("BOOLEAN", "1"),
        ("INT8", "128"),
        ("INT8", "٣"),
        ("INT32", " 1"),
        ("INT64", "9" * 5_000),
        ("FLOAT", "1e39"),
        ("DOUBLE", "1e400"),
        ("DOUBLE", "0x1"),
        ("DOUBLE", "1" * 500),
        ("DOUBLE", "nan"),
        ("DATE", "2026-02-30"),
        ("DATE", "Nov 31, 2026"),
        ("DATE", "Foo 1, 2026"),
        ("TIME", "10:00"),
        ("LOCAL_TIME", "24:00"),
        ("LOCAL_DATE_TIME", "2026-11-22"),
        ("INSTANT", "2026-11-22T10:00:00"),
        ("INSTANT", "2026-11-22T10:00:00+01:00Z"),
        ("JSON", "{"),
        ("JSON", "[NaN]"),
        ("JSON", "1 2"),
    ],
)
def test_a_text_that_its_kind_does_not_take_is_shown(kind: str, text: str) -> None:
    with pytest.raises(ValueFault) as fault:
        encoder_of(Schema(SchemaType[kind]))(text)
    assert json.dumps(text)[1:10] in str(fault.value)
    assert len(str(fault.value)) < 200


@pytest.mark.parametrize(("name", "wanted"), [("ISO-8859-1", b"\xfc"), ("utf-16", b"\xfe\xff\0\xfc")])
def test_strings_have_the_character_set_of_their_schema(name: str, wanted: bytes) -> None:
    encode = encoder_of(Schema(SchemaType.STRING, b"", {"__charset": name}))
    assert (encode("ü"), encode("")) == (wanted, b"")
    if name == "ISO-8859-1":
        with pytest.raises(ValueFault, match="cannot be written in ISO-8859-1"):
            encode("🐘")


@pytest.mark.parametrize("kind", ["PROTOBUF", "PROTOBUF_NATIVE", "EXTERNAL", "AUTO_CONSUME"])
def test_kinds_without_a_text_are_refused(kind: str) -> None:
    with pytest.raises(InvalidSchema, match=f"of type {kind} cannot be written as text"):
        encoder_of(Schema(SchemaType[kind]))


@settings(max_examples=rounds(300), deadline=None)
@given(st.sampled_from([each for each in SchemaType if each not in (SchemaType.KEY_VALUE,)]), st.text())
def test_any_text_is_encoded_or_refused(kind: SchemaType, text: str) -> None:
    schema = Schema(kind, json.dumps(RECORD).encode() if kind is SchemaType.AVRO else b"")
    with suppress(ValueFault, InvalidSchema):
        assert isinstance(encoder_of(schema)(text), bytes)
