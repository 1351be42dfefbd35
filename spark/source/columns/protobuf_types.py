"""Messages of PROTOBUF_NATIVE schemas as Spark types, and their bytes as columns.

Such a schema carries the descriptors of its messages (org.apache.pulsar.client.impl.schema.ProtobufNativeSchemaUtils).
Types are those of Spark's `from_protobuf` with the options upcast.unsigned.ints and emit.default.values: a field that
knows whether it was set is null when it was not, and any other field then has its default value. Messages that contain
themselves have no Spark type.
"""

import base64
import binascii
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from magnetar.spark.source.columns.arrow_types import arrow_type
from magnetar.spark.source.columns.avro_types import UnsupportedSchema
from pulsar_proto.pb import pulsar_api_pb2 as pb

Convert = Callable[[Any], Any]
"""A function that turns a value of protobuf into a value that Arrow takes."""

TIMESTAMP = "google.protobuf.Timestamp"
SECONDS_MAX = 253_402_300_800
"""The end of the year 9999. Timestamp.proto allows the years 1 to 9999."""
SECONDS_MIN = -62_135_596_800
FIELDS_MAX = 10_000
"""A message with more fields, all its parts added up, has no Spark type. Without this limit a short schema of messages
that hold the next message twice each would use up the memory of the topic's readers."""
_SIMPLE: dict[int, DataType] = {
    FieldDescriptor.CPPTYPE_BOOL: BooleanType(),
    FieldDescriptor.CPPTYPE_INT32: IntegerType(),
    FieldDescriptor.CPPTYPE_UINT32: LongType(),
    FieldDescriptor.CPPTYPE_INT64: LongType(),
    FieldDescriptor.CPPTYPE_UINT64: DecimalType(20, 0),
    FieldDescriptor.CPPTYPE_FLOAT: FloatType(),
    FieldDescriptor.CPPTYPE_DOUBLE: DoubleType(),
    FieldDescriptor.CPPTYPE_ENUM: StringType(),
    FieldDescriptor.CPPTYPE_STRING: StringType(),
}


class _Part(NamedTuple):
    """A Spark type and the conversion of its values; a conversion of None leaves them as they are."""

    type: DataType
    convert: Convert | None = None


class ProtobufCodec:
    """Decodes values of one PROTOBUF_NATIVE schema. Older and newer versions of a message are decoded by the newest
    schema, because protobuf finds fields by their numbers."""

    def __init__(self, schema: pb.Schema) -> None:
        """Raises UnsupportedSchema for a damaged schema, and for a part that has no Spark type."""
        root = root_message(schema.schema_data)
        part = _Types().message(root, ())
        assert part.convert is not None
        self.type = part.type
        self._convert = part.convert
        self._parse = GetMessageClass(root).FromString
        self._arrow = arrow_type(part.type)

    def decode(self, values: pa.BinaryArray, versions: Sequence[bytes] | None) -> tuple[pa.Array, list[int]]:
        """Returns the records, and the numbers of the rows whose value is bad."""
        bad: list[int] = []
        records: list[dict[str, Any] | None] = []
        for row, value in enumerate(values.to_pylist()):
            record = None
            if value is not None:
                try:
                    record = self._convert(self._parse(value))
                except (DecodeError, ValueError):
                    bad.append(row)
            records.append(record)
        return pa.array(records, self._arrow), bad


def root_message(definition: bytes) -> Descriptor:
    """Returns the descriptor of the message that a schema is about. Raises UnsupportedSchema."""
    try:
        tree = orjson.loads(definition)
        pool = DescriptorPool()
        files = {
            file.name: file for file in FileDescriptorSet.FromString(base64.b64decode(tree["fileDescriptorSet"])).file
        }

        def add(name: str) -> None:
            """Adds a file after the files that it imports."""
            file = files.pop(name, None)
            if file is not None:
                for needed in file.dependency:
                    add(needed)
                pool.Add(file)

        for name in list(files):
            add(name)
        return pool.FindMessageTypeByName(tree["rootMessageTypeName"])
    except (KeyError, TypeError, ValueError, binascii.Error, DecodeError, RecursionError) as error:
        raise UnsupportedSchema(f"the schema's protobuf descriptors do not fit together: {error}") from error


class _Types:
    """The walk through the parts of one schema, which counts their fields."""

    def __init__(self) -> None:
        self._fields = 0

    def message(self, message: Descriptor, inside: tuple[str, ...]) -> _Part:
        name = message.full_name
        if name == TIMESTAMP:
            return _Part(TimestampType(), _microseconds)
        if name in inside:
            raise UnsupportedSchema(
                f"message {name} contains itself; allowDifferentTopicSchemas=true reads it as bytes for from_protobuf"
            )
        self._fields += len(message.fields)
        if self._fields > FIELDS_MAX:
            raise UnsupportedSchema(f"the schema's message has more than {FIELDS_MAX} fields")
        parts = [(field, self._field(field, (*inside, name))) for field in message.fields]
        kind = StructType([StructField(field.name, part.type, field.has_presence) for field, part in parts])
        steps = [(field.name, field.has_presence, part.convert) for field, part in parts]

        def convert(value: Any) -> dict[str, Any]:
            record: dict[str, Any] = {}
            for name, may_lack, step in steps:
                if may_lack and not value.HasField(name):
                    record[name] = None
                else:
                    item = getattr(value, name)
                    record[name] = item if step is None else step(item)
            return record

        return _Part(kind, convert)

    def _field(self, field: FieldDescriptor, inside: tuple[str, ...]) -> _Part:
        if not field.is_repeated:
            return self._single(field, inside)
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            key, value = (self._single(entry.fields_by_name[name], inside) for name in ("key", "value"))
            of_key, of_value = key.convert or _same, value.convert or _same
            return _Part(
                MapType(key.type, value.type, False),
                lambda items: [(of_key(name), of_value(item)) for name, item in items.items()],
            )
        item = self._single(field, inside)
        of_item = item.convert or _same
        return _Part(ArrayType(item.type, False), lambda items: [of_item(each) for each in items])

    def _single(self, field: FieldDescriptor, inside: tuple[str, ...]) -> _Part:
        if field.message_type is not None:
            return self.message(field.message_type, inside)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return _Part(BinaryType())
        if field.enum_type is not None:
            names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
            return _Part(StringType(), lambda number: names.get(number, str(number)))
        kind = _SIMPLE[field.cpp_type]
        return _Part(kind, Decimal if isinstance(kind, DecimalType) else None)


def _same(value: Any) -> Any:
    return value


def _microseconds(value: Any) -> int:
    """Returns a Timestamp as microseconds since the epoch. Raises ValueError for a time that Timestamp.proto forbids,
    which Spark could not hold."""
    seconds: int = value.seconds
    if not SECONDS_MIN <= seconds < SECONDS_MAX:
        raise ValueError(f"{seconds} seconds are no time of the years 1 to 9999")
    return seconds * 1_000_000 + int(value.nanos) // 1000
