"""Decodes a value by the type of its schema. This module does no I/O.

    STRING                      the text itself
    JSON                        JSON
    AVRO                        JSON: unions as their plain values, bytes and fixed as texts whose characters stand
                                for one byte each, logical types as the numbers or texts that they are stored as
    INT8, INT16, INT32, INT64   a whole number, big-endian in the message
    FLOAT, DOUBLE, BOOLEAN      a number; true or false
    all others                  no decoder: bytes

Sources: the classes IntSchema, DoubleSchema and their like of Pulsar's client.
"""

import struct
from typing import Any

from pulsar_proto.values.avro_decoding import Decoder, avro_decoder, for_json, json_value

NUMBERS = {
    "BOOLEAN": ">?",
    "INT8": ">b",
    "INT16": ">h",
    "INT32": ">i",
    "INT64": ">q",
    "FLOAT": ">f",
    "DOUBLE": ">d",
}


def decoder_of(kind: str, definition: str) -> Decoder | None:
    """Returns the decoder for a type of schema by its name and definition, or None when such values are shown as
    bytes. Raises ValueError when the definition cannot be used."""
    if kind in NUMBERS:
        return lambda data: _number(NUMBERS[kind], kind, data)
    if kind == "STRING":
        return bytes.decode
    if kind == "JSON":
        return json_value
    if kind == "AVRO":
        return avro_decoder(definition)
    return None


def _number(form: str, kind: str, data: bytes) -> Any:
    if len(data) != struct.calcsize(form):
        raise ValueError(f"{len(data)} bytes are no {kind}")
    return for_json(struct.unpack(form, data)[0])
