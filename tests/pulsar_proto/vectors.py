"""The captured bytes of tests/vectors, and the comparison of a protobuf message with its captured description."""

import json
from pathlib import Path
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

FOLDER = Path(__file__).resolve().parent.parent / "vectors"

Item = dict[str, Any]


def load(name: str) -> list[Item]:
    items: list[Item] = json.loads((FOLDER / name).read_text())["items"]
    return items


def described(expected: Any) -> Any:
    """Returns a description in which all bytes that are UTF-8 are text: captures differ in what they show as text."""
    if isinstance(expected, list):
        return [described(each) for each in expected]
    if not isinstance(expected, dict):
        return expected
    if list(expected) == ["hex"]:
        return _text_or_hex(bytes.fromhex(expected["hex"]))
    return {key: described(value) for key, value in expected.items()}


def unhex(text: str) -> bytes:
    return bytes.fromhex(text)


def as_described(message: Message) -> Item:
    """Returns the fields that are on the wire in the form of `described`: enums by name, bytes as text or {hex}."""
    fields: Item = {}
    for field, value in message.ListFields():
        values = [_described(field, each) for each in value] if field.is_repeated else _described(field, value)
        fields[field.name] = values
    return fields


def _described(field: FieldDescriptor, value: Any) -> Any:
    if isinstance(value, Message):
        return as_described(value)
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    return _text_or_hex(value) if isinstance(value, bytes) else value


def _text_or_hex(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"hex": value.hex()}
