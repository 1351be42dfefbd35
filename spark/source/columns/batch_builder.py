"""Decoded rows as Arrow record batches, with the columns that a query asks for, in the query's order."""

import pyarrow as pa
from pyspark.sql.types import StructType

from magnetar.spark.source.columns.metadata_columns import (
    EVENT_TIME,
    KEY,
    MESSAGE_ID,
    METADATA_FIELDS,
    NOT_VALUES,
    ORDERING_KEY,
    PUBLISH_TIME,
    RAW_FIELDS,
    SCHEMA_VERSION,
    TOPIC,
    VALUE,
)
from magnetar.spark.source.columns.value_columns import ValueColumns
from magnetar.spark.source.decoding.row_columns import RowColumns


class BatchBuilder:
    """Makes record batches with exactly the columns of `schema`, in the schema's order."""

    def __init__(self, schema: StructType, values: ValueColumns, topic: str) -> None:
        """Prepares the columns of `schema`. Raises ValueError for a column that neither the topic's schema nor the
        metadata has, and for a column that has another type there."""
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
        """Returns whether the query asks for message ids, which cost time to make."""
        return MESSAGE_ID in self._names

    def batch(self, rows: RowColumns) -> pa.RecordBatch:
        """Returns a batch of all rows. Raises BadValue in mode FAILFAST when a value does not fit the schema."""
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
