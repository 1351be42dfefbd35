"""Finds every string field of protobuf messages, and encodes messages in which one of them holds any bytes, which
protobuf's own encoder refuses."""

from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from pulsar_proto.varint import varint

Path = tuple[str, ...]
"""Names of fields, from the outermost message to the string."""


def text_paths(descriptor: Descriptor, above: frozenset[Descriptor] = frozenset()) -> Iterator[Path]:
    """The paths to all strings in a message and in those within it."""
    for field in descriptor.fields:
        inner: Descriptor | None = field.message_type
        if inner is None:
            if field.type == FieldDescriptor.TYPE_STRING:
                yield (field.name,)
        elif inner not in above:
            for rest in text_paths(inner, above | {inner}):
                yield (field.name, *rest)


def all_messages(module: Any) -> Iterator[Descriptor]:
    """Returns the messages of a generated module, nested ones too."""
    waiting: list[Descriptor] = list(module.DESCRIPTOR.message_types_by_name.values())
    while waiting:
        found = waiting.pop()
        yield found
        waiting += found.nested_types


def with_text(message: Message, path: Sequence[str], text: bytes) -> bytes:
    """Returns the message with `text` in the field at `path`, whatever the bytes are. A repeated field gets one element
    more."""
    return message.SerializePartialToString() + _field(message.DESCRIPTOR, path, text)


def _field(descriptor: Any, path: Sequence[str], text: bytes) -> bytes:
    name, *rest = path
    field = descriptor.fields_by_name[name]
    inner: Any = field.message_type
    value = text
    if inner is not None:
        # What is in the message already is merged with it, so that only an element of a repeated field must be whole.
        begun = least(inner, rest[0]) if field.is_repeated else inner._concrete_class()
        value = with_text(begun, rest, text)
    return varint(field.number << 3 | 2) + varint(len(value)) + value


def least(descriptor: Any, without: str = "") -> Message:
    """Returns a message with all its required fields but the one that is named."""
    made: Message = descriptor._concrete_class()
    for field in descriptor.fields:
        if not field.is_required or field.name == without:
            continue
        inner: Descriptor | None = field.message_type
        if inner is not None:
            getattr(made, field.name).MergeFrom(least(inner))
        elif field.enum_type is not None:
            setattr(made, field.name, field.enum_type.values[0].number)
        elif field.type == FieldDescriptor.TYPE_STRING:
            setattr(made, field.name, "x")
        elif field.type == FieldDescriptor.TYPE_BYTES:
            setattr(made, field.name, b"x")
        else:
            setattr(made, field.name, 1)
    return made
