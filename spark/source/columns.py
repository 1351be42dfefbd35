"""Rows to Arrow record batches: the metadata columns, named and typed as the published connector's (facts 2, 4)."""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, MapType, StringType, StructField, StructType, TimestampType

from magnetar.spark.source.row_columns import EVENT_TIME_MAX as EVENT_TIME_MAX
from magnetar.spark.source.row_columns import RowColumns
from magnetar.spark.source.values import ValueColumns

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

    def batch(self, rows: RowColumns) -> pa.RecordBatch:
        """All rows. Raises BadValue when a value does not fit the schema and nobody takes corrupt ones."""
        columns = self._values.columns(rows) if self._wants_values else {}
        arrays = [columns[name] if name in columns else self._metadata(name, rows) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, names=self._names)

    def _metadata(self, name: str, rows: RowColumns) -> pa.Array:
        if name == KEY:
            return rows.keys
        if name == TOPIC:
            return pa.repeat(pa.scalar(self._topic), len(rows))
        if name == MESSAGE_ID:
            return rows.ids
        if name == PUBLISH_TIME:
            return rows.publish_times
        if name == EVENT_TIME:
            return rows.event_times
        if name == VALUE:
            return rows.values
        if name == SCHEMA_VERSION:
            return pa.array([b""] * len(rows), pa.binary()) if rows.versions is None else rows.versions
        if name == ORDERING_KEY:
            return pa.nulls(len(rows), pa.binary()) if rows.ordering_keys is None else rows.ordering_keys
        return rows.properties
