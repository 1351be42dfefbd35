"""Avro values from strangers: neither a deep value nor a cheap endless array harms the process that decodes it."""

import json
from typing import Any

import pytest

from pulsar_proto.values.avro_decoding import avro_decoder

LIST = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
ROUNDABOUT = {
    "type": "record",
    "name": "A",
    "fields": [
        {
            "name": "b",
            "type": {
                "type": "record",
                "name": "B",
                "fields": [{"name": "as", "type": {"type": "map", "values": ["null", "A"]}}],
            },
        }
    ],
}
EMPTY_RECORD = {"type": "record", "name": "Nothing", "fields": [{"name": "a", "type": "null"}]}
ENDLESS = [
    {"type": "array", "items": "null"},
    {"type": "array", "items": EMPTY_RECORD},
    {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}},
    {"type": "map", "values": {"type": "array", "items": {"type": "null"}}},
    {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": EMPTY_RECORD}, {"name": "b", "type": {"type": "array", "items": "Nothing"}}],
    },
]


@pytest.mark.parametrize("depth", [20_000, 1_000_000])
def test_a_value_of_any_depth_is_refused_and_the_process_lives(depth: int) -> None:
    decode = avro_decoder(json.dumps(LIST))
    with pytest.raises(ValueError, match="no value of the Avro schema"):
        decode(b"\x02" * depth + b"\x00")


def test_a_schema_that_holds_itself_through_others_is_read_with_care_too() -> None:
    decode = avro_decoder(json.dumps(ROUNDABOUT))
    with pytest.raises(ValueError, match="no value of the Avro schema"):
        decode(b"\x02\x02k\x02" * 50_000)


def test_a_value_within_itself_is_decoded() -> None:
    assert avro_decoder(json.dumps(LIST))(b"\x02\x02\x00") == {"next": {"next": {"next": None}}}


@pytest.mark.parametrize("schema", ENDLESS)
def test_arrays_whose_items_take_no_bytes_have_no_decoder(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="items take no bytes"):
        avro_decoder(json.dumps(schema))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": ["null", "int"]},
        {"type": "array", "items": LIST},
        {"type": "array", "items": "string"},
    ],
)
def test_other_arrays_are_decoded(schema: dict[str, Any]) -> None:
    assert avro_decoder(json.dumps(schema))(b"\x00") == []
