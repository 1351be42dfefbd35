"""Encodes the texts of messages that are published over HTTP as the bytes that Pulsar's clients write and read. This
module does no I/O.

The text that each kind of schema takes, and the bytes that it becomes:

    BYTES, STRING                   the text, in UTF-8 or what the schema's property `__charset` says
    BOOLEAN                         true or false
    INT8, INT16, INT32, INT64       a whole number, big-endian
    FLOAT, DOUBLE                   a number, NaN or Infinity, big-endian
    DATE                            2026-11-22, or Nov 22, 2026: milliseconds from 1970 to the day's beginning in UTC
    TIME, TIMESTAMP                 milliseconds
    INSTANT                         2026-11-22T10:00:00.000000001Z: i64 seconds | i32 nanoseconds
    LOCAL_DATE                      2026-11-22: i64 days since 1970
    LOCAL_TIME                      10:00:00.5: i64 nanoseconds
    LOCAL_DATE_TIME                 2026-11-22T10:00:00: i64 days since 1970 | i64 nanoseconds
    JSON                            JSON, without the white space around its values
    AVRO                            Avro's JSON encoding

Sources: TopicsBase.encodeWithSchema, which publishes an empty message for a text that cannot be encoded; the classes
IntSchema, DateSchema, InstantSchema, LocalDateTimeSchema and their like, 4.0.7.
"""

import codecs
import datetime
import re
import struct
from collections.abc import Callable

from magnetar.server.admin.avro_json_rules import ValueFault, encode_avro, json_of, shown
from magnetar.server.schema.definition_rules import avro_of
from magnetar.server.schema.schema_types import InvalidSchema, Schema, SchemaType

Encoder = Callable[[str], bytes]
"""A function that encodes the text of a message as bytes. It raises ValueFault for a text that the schema does not
take."""

CHARSET = "__charset"
CHARSETS = {
    "UTF-8": "utf-8",
    "US-ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "UTF-16": "utf-16-be",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
}
"""Java's names of its standard character sets, each with Python's name of the set."""
for _each in CHARSETS.values():
    codecs.lookup(_each)  # imports the codec, as the first use would do on the event loop
BYTE_ORDER_MARK = b"\xfe\xff"
"""The bytes with which Java begins a text in UTF-16."""

INTEGERS = {
    SchemaType.INT8: ("b", 8),
    SchemaType.INT16: ("h", 16),
    SchemaType.INT32: ("i", 32),
    SchemaType.INT64: ("q", 64),
    SchemaType.TIME: ("q", 64),
    SchemaType.TIMESTAMP: ("q", 64),
}
"""The format of each kind of whole number, and its bits."""

NUMBER_CHARACTERS_MAX = 400
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
FIRST_DAY = datetime.date(1970, 1, 1).toordinal()
DAY_SECONDS = 86_400
SECOND_NANOS = 1_000_000_000
EXAMPLES = {
    "DATE": "2026-11-22",
    "LOCAL_DATE": "2026-11-22",
    "LOCAL_TIME": "10:00:00.5",
    "LOCAL_DATE_TIME": "2026-11-22T10:00:00",
    "INSTANT": "2026-11-22T10:00:00Z",
}
_LONG = struct.Struct(">q")

_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?|NaN|[+-]?Infinity")
_DAY = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_JAVA_DAY = re.compile(r"([A-Z][a-z]{2}) ([0-9]{1,2}), ([0-9]{4})")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?")
_STRING_OR_SPACE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[ \t\r\n]+')


def encoder_of(schema: Schema) -> Encoder:
    """Returns the encoder of texts for a schema that is not a pair of key and value. Raises InvalidSchema for a schema
    whose values cannot be written as text, or that has no usable definition."""
    kind = schema.type
    if kind in INTEGERS:
        letter, bits = INTEGERS[kind]
        return lambda text: _whole(text, kind, letter, bits)
    if kind in (SchemaType.FLOAT, SchemaType.DOUBLE):
        return lambda text: _floating(text, kind)
    if kind is SchemaType.AVRO:
        avro = avro_of(schema)
        if avro is None:
            raise InvalidSchema("Invalid schema definition data for AVRO schema")
        return lambda text: encode_avro(avro, text)
    if kind in (SchemaType.STRING, SchemaType.NONE):
        return _text_encoder(schema)
    simple = _SIMPLE.get(kind)
    if simple is None:
        raise InvalidSchema(f"Messages of a schema of type {kind.name} cannot be written as text")
    return simple


def _text_encoder(schema: Schema) -> Encoder:
    name = schema.properties.get(CHARSET, "UTF-8") if schema.type is SchemaType.STRING else "UTF-8"
    codec = CHARSETS.get(name.upper())
    if codec is None:
        raise InvalidSchema(f"The character set {shown(name)} is none of {', '.join(CHARSETS)}")
    mark = BYTE_ORDER_MARK if name.upper() == "UTF-16" else b""

    def encode(text: str) -> bytes:
        try:
            return mark + text.encode(codec) if text else b""
        except UnicodeEncodeError:
            raise ValueFault(f"{shown(text)} cannot be written in {name}") from None

    return encode


def _whole(text: str, kind: SchemaType, letter: str, bits: int) -> bytes:
    most = (1 << bits - 1) - 1
    number = int(text) if _WHOLE.fullmatch(text) else None
    if number is None or not -most - 1 <= number <= most:
        raise ValueFault(f"{shown(text)} is no {kind.name}: a whole number from {-most - 1} to {most}")
    return struct.pack(">" + letter, number)


def _floating(text: str, kind: SchemaType) -> bytes:
    if len(text) > NUMBER_CHARACTERS_MAX or not _NUMBER.fullmatch(text):
        raise ValueFault(f"{shown(text)} is no {kind.name}: a number, NaN or Infinity")
    number = float(text)
    try:
        if abs(number) == float("inf") and not text.endswith("Infinity"):
            raise OverflowError
        return struct.pack(">f" if kind is SchemaType.FLOAT else ">d", number)
    except OverflowError:
        raise ValueFault(f"{shown(text)} is out of the range of a {kind.name}") from None


def _boolean(text: str) -> bytes:
    if text.lower() not in ("true", "false"):
        raise ValueFault(f"{shown(text)} is no BOOLEAN: true or false")
    return b"\1" if text.lower() == "true" else b"\0"


def _json(text: str) -> bytes:
    """Returns the text without the white space around its values, otherwise unchanged: numbers keep all their
    digits."""
    json_of(text)
    return _STRING_OR_SPACE.sub(lambda found: found[0] if found[0].startswith('"') else "", text).encode()


def _date(text: str) -> bytes:
    java = _JAVA_DAY.fullmatch(text)
    day = text
    if java is not None and java[1] in MONTHS:
        day = f"{java[3]}-{MONTHS.index(java[1]) + 1:02}-{int(java[2]):02}"
    return _LONG.pack(_days(day, text, "DATE") * DAY_SECONDS * 1000)


def _local_date(text: str) -> bytes:
    return _LONG.pack(_days(text, text, "LOCAL_DATE"))


def _local_time(text: str) -> bytes:
    seconds, nanos = _clock(text, text, "LOCAL_TIME")
    return _LONG.pack(seconds * SECOND_NANOS + nanos)


def _local_date_time(text: str) -> bytes:
    day, _, clock = text.partition("T")
    seconds, nanos = _clock(clock, text, "LOCAL_DATE_TIME")
    return _LONG.pack(_days(day, text, "LOCAL_DATE_TIME")) + _LONG.pack(seconds * SECOND_NANOS + nanos)


def _instant(text: str) -> bytes:
    day, _, clock = text.removesuffix("Z").partition("T")
    seconds, nanos = _clock(clock if text.endswith("Z") else "", text, "INSTANT")
    return struct.pack(">qi", _days(day, text, "INSTANT") * DAY_SECONDS + seconds, nanos)


def _days(day: str, text: str, kind: str) -> int:
    """Returns the number of days from 1970 to `day`. Raises ValueFault, whose text quotes the whole of `text`."""
    found = _DAY.fullmatch(day)
    try:
        if found is None:
            raise ValueError
        return datetime.date(*map(int, found.groups())).toordinal() - FIRST_DAY
    except ValueError:
        raise _no_time(text, kind) from None


def _clock(clock: str, text: str, kind: str) -> tuple[int, int]:
    """Returns the whole seconds from midnight to `clock`, and the nanoseconds of its fraction. Raises ValueFault, whose
    text quotes the whole of `text`."""
    found = _TIME.fullmatch(clock)
    try:
        if found is None:
            raise ValueError
        hour, minute, second = (int(part or 0) for part in found.groups()[:3])
        datetime.time(hour, minute, second)
    except ValueError:
        raise _no_time(text, kind) from None
    return hour * 3600 + minute * 60 + second, int((found[4] or "0").ljust(9, "0"))


def _no_time(text: str, kind: str) -> ValueFault:
    return ValueFault(f"{shown(text)} is no {kind}, like {EXAMPLES[kind]}")


_SIMPLE: dict[SchemaType, Encoder] = {
    SchemaType.BOOLEAN: _boolean,
    SchemaType.JSON: _json,
    SchemaType.DATE: _date,
    SchemaType.INSTANT: _instant,
    SchemaType.LOCAL_DATE: _local_date,
    SchemaType.LOCAL_TIME: _local_time,
    SchemaType.LOCAL_DATE_TIME: _local_date_time,
}
