"""Checks the strings of protobuf messages that others wrote, where these messages enter.

The parser does not check that the strings of a proto2 message are UTF-8: it returns a field that is not UTF-8 as
`bytes`, in spite of the field's type. `check_text` refuses commands and records with such a value, so later code never
meets such a value. A message's metadata is stored and sent on as its producer wrote it; code that looks at a string of
the metadata takes it by `raw`, `raw_field` or `shown`.
"""

from collections.abc import Callable, Iterable
from functools import cache
from itertools import chain
from typing import Any, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message


class NotText(DecodeError):
    """A string is not UTF-8; the error's text names the field."""


def raw(value: str | bytes) -> bytes:
    """Returns a string's bytes as they came."""
    return value if isinstance(value, bytes) else value.encode()


def raw_field(message: Message, name: str) -> bytes:
    """Returns the bytes of a message's string field as they came. Compiled modules take a string so: the compiler
    believes the field's type, and raises TypeError where it meets bytes."""
    return raw(getattr(message, name))


def shown(value: str | bytes) -> str:
    """Returns a string for people and JSON. Bytes that are not UTF-8 become U+FFFD, as Java decodes them."""
    return value if isinstance(value, str) else value.decode(errors="replace")


def check_text(message: Message) -> None:
    """Checks all strings of a message. Raises NotText if a string anywhere in the message is not UTF-8."""
    for name, elements in _fields_with_text(message.DESCRIPTOR):
        value = getattr(message, name)
        if not value:
            continue
        for each in elements(value):
            if isinstance(each, Message):
                check_text(each)
            elif isinstance(each, bytes):
                raise NotText(f"{name} is not UTF-8")


def _one(value: Any) -> Iterable[Any]:
    return (value,)


def _each(values: Any) -> Iterable[Any]:
    return cast(Iterable[Any], values)


def _keys_and_values(mapping: Any) -> Iterable[Any]:
    """Yields all keys before any value: the value of a key that is not UTF-8 cannot be asked for, so the check has to
    fail at the key."""
    return chain(mapping.keys(), mapping.values())


@cache
def _fields_with_text(descriptor: Descriptor) -> tuple[tuple[str, Callable[[Any], Iterable[Any]]], ...]:
    """Returns the fields that are strings, or messages with strings somewhere in them, by name.

    Each field comes with a function that yields the elements of the field's value: the value itself, all elements of a
    list, or the keys and values of a map.
    """
    return tuple((field.name, _elements(field)) for field in descriptor.fields if _has_text(field, frozenset()))


def _elements(field: FieldDescriptor) -> Callable[[Any], Iterable[Any]]:
    if not field.is_repeated:
        return _one
    inner: Descriptor | None = field.message_type
    return _keys_and_values if inner is not None and inner.GetOptions().map_entry else _each


def _has_text(field: FieldDescriptor, above: frozenset[Descriptor]) -> bool:
    inner: Descriptor | None = field.message_type
    if inner is None:
        return bool(field.type == FieldDescriptor.TYPE_STRING)
    return inner not in above and any(_has_text(each, above | {inner}) for each in inner.fields)
