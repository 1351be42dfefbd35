"""Pulsar's primitive schemas as Spark types, and their big-endian bytes as Arrow columns.

The encodings are those of Java's classes org.apache.pulsar.client.impl.schema.*Schema. A value of the wrong length is a
bad value, and does not shift the values behind it.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from magnetar.spark.source.decoding.arrow_arrays import bools_column, column_of, present_rows
from pulsar_proto.pb import pulsar_api_pb2 as pb

Values: TypeAlias = pa.BinaryArray
Bad = list[int]
"""The numbers of the rows whose value does not fit the schema."""
Decoder = Callable[[Values], tuple[pa.Array, Bad]]

NO_SCHEMA = 0
"""`Schema.Type.None`, the schema type of bytes, under a name that Python allows."""
DAY_MILLIS = 86_400_000
DAY_MICROS = DAY_MILLIS * 1000


def _numbers(values: Values, dtype: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], Bad]:
    """Returns the values as numbers of `dtype`, which rows are null or bad, and the bad rows.

    When every value has the right length, the numbers are read in place, because the column's content is an array of
    them. Otherwise bad and null values are first replaced by zeros.
    """
    kind = np.dtype(dtype)
    borders = np.frombuffer(values.buffers()[1] or bytes(4), np.int32)[values.offset : values.offset + len(values) + 1]
    present = present_rows(values)
    fits = present & (np.diff(borders) == kind.itemsize)
    if not fits.all():
        bad = np.flatnonzero(present & ~fits).tolist()
        blank = pa.scalar(bytes(kind.itemsize), pa.binary())
        return _numbers(pc.if_else(pa.array(fits), values, blank), dtype)[0], ~fits, bad
    content = values.buffers()[2] or b""
    return np.frombuffer(content, kind, len(values), int(borders[0]) if len(values) else 0), ~fits, []


def _fixed(dtype: str, arrow: pa.DataType) -> Decoder:
    def decode(values: Values) -> tuple[pa.Array, Bad]:
        numbers, mask, bad = _numbers(values, dtype)
        native = numbers.astype(numbers.dtype.newbyteorder("="))
        return column_of(native, ~mask).cast(arrow), bad

    return decode


def _scaled(multiply: int, divide: int, arrow: pa.DataType, storage: pa.DataType) -> Decoder:
    """Returns a decoder that turns longs into Arrow times by multiplying and dividing. The decoder reports a value that
    does not fit into the Arrow type as bad."""
    most = min((2 ** (storage.bit_width - 1) - 1) * divide, 2**63 - 1) // multiply

    def decode(values: Values) -> tuple[pa.Array, Bad]:
        numbers, mask, bad = _numbers(values, ">i8")
        native = numbers.astype(np.int64)
        beyond = ~mask & ((native < -most) | (native > most))
        if beyond.any():  # one such value must not stop all queries
            bad, mask = sorted([*bad, *np.flatnonzero(beyond).tolist()]), mask | beyond
        native = np.where(mask, 0, native) * multiply // divide
        return column_of(native, ~mask).cast(storage).cast(arrow), bad

    return decode


def _pair(second: str, combine: Callable[[Any, Any], Any], arrow: pa.DataType) -> Decoder:
    """Decodes pairs of numbers to microseconds: INSTANT has seconds and nanoseconds, LOCAL_DATE_TIME has the day and
    the nanosecond of the day."""

    def decode(values: Values) -> tuple[pa.Array, Bad]:
        pairs, mask, bad = _numbers(values, f">i8,{second}")
        micros = combine(pairs["f0"].astype(np.int64), pairs["f1"].astype(np.int64))
        return column_of(micros, ~mask).cast(arrow), bad

    return decode


def _boolean(values: Values) -> tuple[pa.Array, Bad]:
    numbers, mask, bad = _numbers(values, "u1")
    return bools_column(numbers != 0, ~mask), bad


def binary(values: Values) -> tuple[pa.Array, Bad]:
    return values, []


def string(values: Values) -> tuple[pa.Array, Bad]:
    """Decodes UTF-8. A value that is not UTF-8 is bad."""
    try:
        return values.cast(pa.string()), []
    except pa.ArrowInvalid:
        texts: list[str | None] = []
        bad = []
        for row, value in enumerate(values.to_pylist()):
            try:
                texts.append(None if value is None else value.decode())
            except UnicodeDecodeError:
                texts.append(None)
                bad.append(row)
        return pa.array(texts, pa.string()), bad


_UTC = pa.timestamp("us", tz="UTC")
_LOCAL = pa.timestamp("us")

PRIMITIVES: Mapping[int, tuple[DataType, Decoder]] = {
    NO_SCHEMA: (BinaryType(), binary),
    pb.Schema.String: (StringType(), string),
    pb.Schema.Bool: (BooleanType(), _boolean),
    pb.Schema.Int8: (ByteType(), _fixed("i1", pa.int8())),
    pb.Schema.Int16: (ShortType(), _fixed(">i2", pa.int16())),
    pb.Schema.Int32: (IntegerType(), _fixed(">i4", pa.int32())),
    pb.Schema.Int64: (LongType(), _fixed(">i8", pa.int64())),
    pb.Schema.Float: (FloatType(), _fixed(">f4", pa.float32())),
    pb.Schema.Double: (DoubleType(), _fixed(">f8", pa.float64())),
    pb.Schema.Date: (DateType(), _scaled(1, DAY_MILLIS, pa.date32(), pa.int32())),
    pb.Schema.Time: (TimestampNTZType(), _scaled(1000, 1, _LOCAL, pa.int64())),
    pb.Schema.Timestamp: (TimestampType(), _scaled(1000, 1, _UTC, pa.int64())),
    pb.Schema.Instant: (TimestampType(), _pair(">i4", lambda s, n: s * 1_000_000 + n // 1000, _UTC)),
    pb.Schema.LocalDate: (DateType(), _scaled(1, 1, pa.date32(), pa.int32())),
    pb.Schema.LocalTime: (TimestampNTZType(), _scaled(1, 1000, _LOCAL, pa.int64())),
    pb.Schema.LocalDateTime: (TimestampNTZType(), _pair(">i8", lambda d, n: d * DAY_MICROS + n // 1000, _LOCAL)),
}
"""Spark type and decoder of each schema type. A time of day becomes that time on 1970-01-01, because the published
connector and Spark 3 have no column type for a time of day."""
