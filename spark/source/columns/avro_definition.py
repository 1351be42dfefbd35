"""The Avro definition of a query's columns. Pulsar describes JSON schemas by Avro definitions, too."""

from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

RECORD_NAME = "topLevelRecord"
_AVRO: dict[type[DataType], Any] = {
    BooleanType: "boolean",
    ByteType: "int",
    ShortType: "int",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}


class BadColumns(ValueError):
    """The query's columns, or a row's values, cannot be written; the text names the column."""


def avro_definition(record: StructType, name: str = RECORD_NAME) -> dict[str, Any]:
    """Returns the Avro definition of a record, with `[T, "null"]` unions for nullable fields. Nested records are named
    by their path, as in Spark's Avro writer (SchemaConverters). Raises BadColumns for a column whose type Avro does not
    have."""
    fields = []
    for field in record.fields:
        kind = _avro_type(field.dataType, f"{name}.{field.name}")
        fields.append({"name": field.name, "type": [kind, "null"] if field.nullable else kind})
    namespace, _, simple = name.rpartition(".")
    definition = {"type": "record", "name": simple, "fields": fields}
    return {**definition, "namespace": namespace} if namespace else definition


def _avro_type(kind: DataType, name: str) -> Any:
    if isinstance(kind, StructType):
        return avro_definition(kind, name)
    if isinstance(kind, ArrayType):
        item = _avro_type(kind.elementType, name)
        return {"type": "array", "items": [item, "null"] if kind.containsNull else item}
    if isinstance(kind, MapType):
        if not isinstance(kind.keyType, StringType):
            raise BadColumns(f"{name}: maps need string keys")
        item = _avro_type(kind.valueType, name)
        return {"type": "map", "values": [item, "null"] if kind.valueContainsNull else item}
    if isinstance(kind, DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if type(kind) not in _AVRO:
        raise BadColumns(f"{name} of type {kind.simpleString()} has no Avro type")
    return _AVRO[type(kind)]
