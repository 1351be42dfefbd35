"""Rows to Arrow record batches: the metadata columns, named and typed as the published connector's (facts 2, 4)."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, MapType, StringType, StructField, StructType, TimestampType

from spark.source.rows import Rows
from spark.source.values import ValueColumns

KEY, TOPIC, MESSAGE_ID = "__key", "__topic", "__messageId"
PUBLISH_TIME, EVENT_TIME, PROPERTIES = "__publishTime", "__eventTime", "__messageProperties"
VALUE, SCHEMA_VERSION, ORDERING_KEY = "__value", "__schemaVersion", "__orderingKey"
"""With the option rawColumns: the bytes as they are stored, for copies."""

METADATA_TYPES: Mapping[str, DataType] = {
    KEY: BinaryType(),
    TOPIC: StringType(),
    MESSAGE_ID: BinaryType(),
    PUBLISH_TIME: TimestampType(),
    EVENT_TIME: TimestampType(),
    PROPERTIES: MapType(StringType(), StringType()),
}
METADATA_FIELDS = [StructField(name, kind) for name, kind in METADATA_TYPES.items()]
RAW_FIELDS = [StructField(name, BinaryType()) for name in (VALUE, SCHEMA_VERSION, ORDERING_KEY)]
NOT_VALUES = frozenset(field.name for field in (*METADATA_FIELDS, *RAW_FIELDS))

_TIME, _MILLISECONDS = pa.timestamp("us", tz="UTC"), pa.timestamp("ms", tz="UTC")
EVENT_TIME_MAX = (2**63 - 1) // 1000
"""Milliseconds: Spark's timestamps are microseconds in 64 bits."""


class BatchBuilder:
    """Makes batches with exactly the columns of `schema`, in its order."""

    def __init__(self, schema: StructType, values: ValueColumns, topic: str) -> None:
        """Raises ValueError for a column that neither the topic's schema nor the metadata has."""
        self._names = schema.fieldNames()
        self._values = values
        self._topic = topic
        known = {field.name: field.dataType for field in [*values.fields, *METADATA_FIELDS, *RAW_FIELDS]}
        for field in schema.fields:
            if field.name not in known:
                raise ValueError(f"column {field.name} is unknown; there are {', '.join(known)}")
            if field.dataType.simpleString() != known[field.name].simpleString():
                expected, got = known[field.name].simpleString(), field.dataType.simpleString()
                raise ValueError(f"column {field.name} is {expected}, the query's schema says {got}")
        self._wants_values = any(name not in NOT_VALUES for name in self._names)

    @property
    def wants_ids(self) -> bool:
        return MESSAGE_ID in self._names

    def batch(self, rows: Rows) -> pa.RecordBatch:
        """All rows. Raises BadValue when a value does not fit the schema and nobody takes corrupt ones."""
        columns = self._values.columns(rows) if self._wants_values else {}
        arrays = [columns[name] if name in columns else self._metadata(name, rows) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, names=self._names)

    def _metadata(self, name: str, rows: Rows) -> pa.Array:
        if name == KEY:
            return pa.array(rows.keys, pa.binary())
        if name == TOPIC:
            return pa.repeat(pa.scalar(self._topic), len(rows))
        if name == MESSAGE_ID:
            return pa.array(rows.ids, pa.binary())
        if name == PUBLISH_TIME:
            return pa.array(np.array(rows.publish_times, dtype=np.int64) * 1000, pa.int64()).cast(_TIME)
        if name == EVENT_TIME:
            return _moments(rows.event_times)
        if name == VALUE:
            return pa.array(rows.values, pa.binary())
        if name == SCHEMA_VERSION:
            return pa.array(rows.schema_versions, pa.binary())
        if name == ORDERING_KEY:
            return pa.array(map(rows.ordering_keys.get, range(len(rows))), pa.binary())
        return _properties(rows)


def _moments(times: list[int | None]) -> pa.Array:
    """Null where microseconds do not hold a time: whoever sends it must not stop everybody's queries."""
    try:
        return pa.array(times, _MILLISECONDS).cast(_TIME)
    except (pa.ArrowInvalid, OverflowError):
        held = [time if time is not None and time <= EVENT_TIME_MAX else None for time in times]
        return pa.array(held, _MILLISECONDS).cast(_TIME)


def _properties(rows: Rows) -> pa.Array:
    """An empty map for a message without properties, as the published connector has it."""
    if not rows.has_properties:
        nothing = pa.array([], pa.string())
        return pa.MapArray.from_arrays(pa.array(np.zeros(len(rows) + 1, np.int32)), nothing, nothing)
    counts = [len(pairs) if pairs else 0 for pairs in rows.properties]
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    pairs = [pair for several in rows.properties if several for pair in several]
    keys = pa.array([key for key, _ in pairs], pa.string())
    return pa.MapArray.from_arrays(pa.array(offsets), keys, pa.array([value for _, value in pairs], pa.string()))
