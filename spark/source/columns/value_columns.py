"""A topic's schema as value columns: which columns there are, and how the bytes of many messages fill them.

A record has a column for each field; a value of any other kind has one column `value`, as in the published connector.
KEY_VALUE, which the connector does not support, has the columns `key` and `value`. A value that does not fit the schema
is a bad value; as in Spark's JSON source, the option `mode` says how bad values are treated.
"""

import io
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

import fastavro
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, DataType, StructField, StructType

from magnetar.spark.source.client.pulsar_client import PASSING_ERRORS
from magnetar.spark.source.columns.arrow_types import arrow_type
from magnetar.spark.source.columns.avro_types import ConvertedField, UnsupportedSchema, record_field, with_nulls
from magnetar.spark.source.columns.primitives import NO_SCHEMA, PRIMITIVES
from magnetar.spark.source.columns.protobuf_types import ProtobufCodec
from magnetar.spark.source.decoding.row_columns import RowColumns
from pulsar_proto.errors import AuthenticationFault, AuthorizationFault, MetadataFault, PersistenceFault, PulsarError
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.values.avro_decoding import reader_of

VersionLookup = Callable[[bytes], pb.Schema | None]
"""A function that returns the schema of a version, or None when the topic has no such schema. The function raises
PulsarError."""


Versions = Sequence[bytes] | None


LOOKUP_FAILURES = (*PASSING_ERRORS, AuthenticationFault, AuthorizationFault, MetadataFault, PersistenceFault)
"""Errors on looking up a schema version that say nothing about the version, and so end the query. Any other refusal
makes the version's values bad, because anybody can send messages with a version that does not exist."""


class BadValueMode(StrEnum):
    """The treatment of bad values."""

    PERMISSIVE = "PERMISSIVE"
    """A bad value becomes nulls, and its bytes are in the corrupt column if there is one."""
    FAILFAST = "FAILFAST"
    """A bad value fails the query."""


class BadValue(Exception):
    """A message's value does not fit its topic's schema."""


@dataclass(frozen=True, slots=True)
class BadValues:
    """The treatment of bad values in a query. `corrupt_column` is the name of a binary column for the bytes of bad
    values, or empty."""

    mode: BadValueMode = BadValueMode.PERMISSIVE
    corrupt_column: str = ""


class ValueCodec(Protocol):
    """Decodes the bytes of one column. `versions` has the schema version of each value, or is None when no value has a
    version."""

    type: DataType

    def decode(self, values: pa.BinaryArray, versions: Versions) -> tuple[pa.Array, list[int]]:
        """Returns the column, and the numbers of the rows whose value is bad."""


class PrimitiveCodec:
    """Decodes values of one primitive schema type."""

    def __init__(self, kind: int) -> None:
        self.type, self._decode = PRIMITIVES[kind]

    def decode(self, values: pa.BinaryArray, versions: Versions) -> tuple[pa.Array, list[int]]:
        return self._decode(values)


class RecordCodec:
    """Decodes records of JSON or AVRO schemas."""

    def __init__(self, schema: pb.Schema, lookup: VersionLookup, only: Collection[str] | None = None) -> None:
        """With `only`, decodes no other fields than these, as far as the definition lets them be left out. Raises
        UnsupportedSchema."""
        self._is_json = schema.type == pb.Schema.Json
        whole = record_field(schema.schema_data)
        if not isinstance(whole.type, StructType):
            raise UnsupportedSchema(f"a schema of {whole.type.simpleString()} at its root")
        definition, field = schema.schema_data, whole
        if only is not None:
            definition, field = _with_fields(schema.schema_data, only) or (definition, whole)
        self.type: DataType = with_nulls(field.type) if self._is_json else field.type
        self._arrow = arrow_type(self.type)
        self._convert = field.from_json if self._is_json else field.from_avro
        self._newest = None if self._is_json else fastavro.parse_schema(orjson.loads(schema.schema_data))
        self._wanted = None if self._is_json else fastavro.parse_schema(orjson.loads(definition))
        self._lookup = lookup
        self._readers: dict[bytes, tuple[Callable[..., Any], Any]] = {}
        self._definitions: dict[bytes, bytes] = {}
        """The Avro definition of each schema version that was looked up. An empty definition means that there is no
        such version or that the broker refused to tell it, so that the version's values are bad."""

    def decode(self, values: pa.BinaryArray, versions: Versions) -> tuple[pa.Array, list[int]]:
        bad: list[int] = []
        records: list[dict[str, Any] | None] = []
        if versions and not self._is_json:
            for version in set(versions):
                self._find_writer(version)
        for row, value in enumerate(values.to_pylist()):
            record = None
            if value is not None:
                try:
                    record = self._record(value, versions[row] if versions else b"")
                except Exception:  # decoders raise many errors for bytes that are not of their schema
                    bad.append(row)
            records.append(record)
        try:
            return pa.array(records, self._arrow), bad
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return self._one_by_one(records, bad)

    def _record(self, value: bytes, version: bytes) -> dict[str, Any]:
        if self._is_json:
            record = orjson.loads(value)
        else:
            read, writer = self._reader(version)
            record = read(io.BytesIO(value), writer, self._wanted)
        if not isinstance(record, dict):
            raise ValueError("not a record")
        return record if self._convert is None else self._convert(record)

    def _find_writer(self, version: bytes) -> None:
        """Looks up the definition of a version, once. Raises an error of LOOKUP_FAILURES, because a broker that does
        not answer must not make values bad."""
        if version and version not in self._definitions:
            try:
                schema = self._lookup(version)
            except PulsarError as error:
                if isinstance(error, LOOKUP_FAILURES):
                    raise
                self._definitions[version] = b""
            else:
                self._definitions[version] = b"" if schema is None else schema.schema_data

    def _reader(self, version: bytes) -> tuple[Callable[..., Any], Any]:
        """Returns the reader of values of a version, and the version's schema. Raises ValueError when no reader
        survives such values."""
        if version not in self._readers:
            definition = self._definitions.get(version)
            writer = self._newest if definition is None else fastavro.parse_schema(orjson.loads(definition))
            self._readers[version] = (reader_of(writer), writer)
        return self._readers[version]

    def _one_by_one(self, records: list[dict[str, Any] | None], bad: list[int]) -> tuple[pa.Array, list[int]]:
        for row, record in enumerate(records):
            if record is not None:
                try:
                    pa.array([record], self._arrow)
                except (pa.ArrowException, TypeError, ValueError, OverflowError):
                    records[row] = None
                    bad.append(row)
        return pa.array(records, self._arrow), sorted(bad)


class ValueColumns:
    """The value columns of one topic. `fields` are all of them."""

    def __init__(
        self,
        schema: pb.Schema | None,
        lookup: VersionLookup,
        bad: BadValues | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        """Prepares the columns of `schema`. With `only`, fields of JSON and AVRO records with other names are not
        decoded, unless the query has to find every bad value. Raises UnsupportedSchema when a part of the schema has no
        Spark type."""
        self._bad = bad or BadValues()
        finds_all = self._bad.mode is BadValueMode.FAILFAST or (only is not None and self._bad.corrupt_column in only)
        kind = NO_SCHEMA if schema is None else schema.type
        self._pair: tuple[ValueCodec, ValueCodec, bool] | None = None
        if schema is not None and kind == pb.Schema.KeyValue:
            self._pair = _key_value(schema, lookup)
            key, value, _ = self._pair
            self.fields = [StructField("key", key.type, True), StructField("value", value.type, True)]
        else:
            whole = _codec(schema, lookup)
            self.fields = _fields_of(whole.type)
            is_part = only is not None and not finds_all and not {field.name for field in self.fields} <= set(only)
            self._codec = whole
            if is_part and schema is not None and isinstance(whole, RecordCodec):
                self._codec = RecordCodec(schema, lookup, only)
        if self._bad.corrupt_column:
            self.fields.append(StructField(self._bad.corrupt_column, BinaryType(), True))

    @property
    def parts(self) -> set[str]:
        """Returns the attributes of RowColumns that `columns` needs."""
        return {"values", "versions"} | ({"keys"} if self._pair is not None else set())

    def columns(self, rows: RowColumns) -> Mapping[str, pa.Array]:
        """Returns the columns by their names. Raises BadValue in mode FAILFAST."""
        versions: Versions = None
        if rows.versions is not None:
            versions = rows.versions.to_pylist()
        if self._pair is not None:
            columns, bad = self._key_value_columns(rows, versions)
        else:
            column, bad = self._codec.decode(rows.values, versions)
            if isinstance(self._codec.type, StructType):
                columns = dict(zip(self._codec.type.fieldNames(), column.flatten(), strict=True))
            else:
                columns = {"value": column}
        if bad and self._bad.mode is BadValueMode.FAILFAST:
            value = rows.values[bad[0]].as_py() or b""
            raise BadValue(f"{len(bad)} values do not fit the topic's schema, the first begins {value[:60]!r}")
        if self._bad.corrupt_column:
            is_bad = np.zeros(len(rows), np.bool_)
            is_bad[bad] = True
            columns[self._bad.corrupt_column] = pc.if_else(pa.array(is_bad), rows.values, pa.scalar(None, pa.binary()))
        return columns

    def _key_value_columns(self, rows: RowColumns, versions: Versions) -> tuple[dict[str, pa.Array], list[int]]:
        assert self._pair is not None
        key_codec, value_codec, inline = self._pair
        bad: list[int] = []
        key_bytes, value_bytes = rows.keys, rows.values
        if inline:
            pairs: list[tuple[bytes | None, bytes | None]] = []
            for row, value in enumerate(rows.values.to_pylist()):
                try:
                    pairs.append((None, None) if value is None else split_pair(value))
                except ValueError:
                    pairs.append((None, None))
                    bad.append(row)
            key_bytes, value_bytes = (pa.array(part, pa.binary()) for part in zip(*pairs, strict=True))
        key_column, bad_keys = key_codec.decode(key_bytes, versions)
        value_column, bad_values = value_codec.decode(value_bytes, versions)
        return {"key": key_column, "value": value_column}, sorted({*bad, *bad_keys, *bad_values})


def _with_fields(definition: bytes, names: Collection[str]) -> tuple[bytes, ConvertedField] | None:
    """Returns a record's definition with only the fields of these names, and its Spark type. Returns None when there
    is no such definition, because a field that would be left out defines a type that another one uses."""
    tree = orjson.loads(definition)
    tree["fields"] = [field for field in tree["fields"] if field["name"] in names]
    cut = orjson.dumps(tree)
    try:
        fastavro.parse_schema(orjson.loads(cut))
        return cut, record_field(cut)
    except (UnsupportedSchema, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType):
        return None


def _fields_of(kind: DataType) -> list[StructField]:
    """Returns the columns of a type. Each column may be null, because it is null for bad values and tombstones."""
    if isinstance(kind, StructType):
        return [StructField(field.name, field.dataType, True) for field in kind.fields]
    return [StructField("value", kind, True)]


def _codec(schema: pb.Schema | None, lookup: VersionLookup) -> ValueCodec:
    kind = NO_SCHEMA if schema is None else schema.type
    if schema is not None and kind in (pb.Schema.Json, pb.Schema.Avro):
        return RecordCodec(schema, lookup)
    if schema is not None and kind == pb.Schema.ProtobufNative:
        return ProtobufCodec(schema)
    # PROTOBUF, unlike PROTOBUF_NATIVE, does not tell the numbers of nested fields, so its values stay bytes.
    return PrimitiveCodec(kind if kind in PRIMITIVES else NO_SCHEMA)


def _key_value(schema: pb.Schema, lookup: VersionLookup) -> tuple[ValueCodec, ValueCodec, bool]:
    """Returns the codecs of key and value, and whether both are in the message's value (INLINE) or the key is the
    message's own key (SEPARATED). The schema's data hold the two definitions, each behind its length; the schema's
    properties name the types of key and value (Java's KeyValueSchemaInfo)."""
    properties = {pair.key: pair.value for pair in schema.properties}
    key_data, value_data = split_pair(schema.schema_data)
    codecs = []
    for part, data in (("key", key_data), ("value", value_data)):
        name = properties.get(f"{part}.schema.type", "BYTES")
        each = pb.Schema(name=part, schema_data=data or b"", type=schema_type(name))
        codecs.append(_codec(each, lambda version, part=part: _part_of(lookup(version), part)))  # type: ignore[misc]
    inline = properties.get("kv.encoding.type", "INLINE") == "INLINE"
    return codecs[0], codecs[1], inline


def _part_of(schema: pb.Schema | None, part: str) -> pb.Schema | None:
    if schema is None:
        return None
    data = split_pair(schema.schema_data)[part == "value"]
    return pb.Schema(name=part, schema_data=data or b"", type=pb.Schema.Avro)


def schema_type(name: str) -> "pb.Schema.Type.ValueType":
    """Returns the number of a schema type from its name in Java's SchemaType; unknown names are bytes."""
    wanted = name.replace("_", "").lower()
    found = next((number for text, number in pb.Schema.Type.items() if text.lower() == wanted), NO_SCHEMA)
    return pb.Schema.Type.ValueType(found)


def split_pair(data: bytes) -> tuple[bytes | None, bytes | None]:
    """Returns key and value of `i32 size | key | i32 size | value`, None for a size of -1. Raises ValueError when the
    pair is cut off."""
    parts: list[bytes | None] = []
    at = 0
    for _ in range(2):
        if at + 4 > len(data):
            raise ValueError("a key-value pair is cut off")
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        at += 4
        if size > len(data) - at:
            raise ValueError("a key-value pair is cut off")
        parts.append(data[at : at + size] if size >= 0 else None)
        at += max(size, 0)
    return parts[0], parts[1]
