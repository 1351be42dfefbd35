"""Spark's types as the Arrow types that Spark's JVM expects; timestamps are in UTC.

PySpark has such a function (`to_arrow_type`), but for itself only: its arguments change from release to release.
"""

import pyarrow as pa
from pyspark.sql import types

_SIMPLE: dict[type[types.DataType], pa.DataType] = {
    types.NullType: pa.null(),
    types.BooleanType: pa.bool_(),
    types.IntegerType: pa.int32(),
    types.LongType: pa.int64(),
    types.FloatType: pa.float32(),
    types.DoubleType: pa.float64(),
    types.StringType: pa.string(),
    types.BinaryType: pa.binary(),
    types.DateType: pa.date32(),
    types.TimestampType: pa.timestamp("us", tz="UTC"),
    types.TimestampNTZType: pa.timestamp("us"),
}


def arrow_type(kind: types.DataType) -> pa.DataType:
    """Returns the Arrow type of a Spark type that `avro_types` gives. Raises KeyError for any other type."""
    if isinstance(kind, types.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, types.ArrayType):
        return pa.list_(pa.field("element", arrow_type(kind.elementType), nullable=kind.containsNull))
    if isinstance(kind, types.MapType):
        value = pa.field("value", arrow_type(kind.valueType), nullable=kind.valueContainsNull)
        return pa.map_(pa.field("key", arrow_type(kind.keyType), nullable=False), value)
    if isinstance(kind, types.StructType):
        return pa.struct([pa.field(field.name, arrow_type(field.dataType), field.nullable) for field in kind.fields])
    return _SIMPLE[type(kind)]
