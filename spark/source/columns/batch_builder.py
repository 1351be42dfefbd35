"""Decoded rows as Arrow record batches, with the columns that a query asks for, in the query's order."""

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from magnetar.spark.source.columns.metadata_columns import (
    EVENT_TIME,
    KEY,
    MESSAGE_ID,
    METADATA_FIELDS,
    NOT_VALUES,
    ORDERING_KEY,
    PARTITION,
    PARTITION_FIELD,
    PROPERTIES,
    PUBLISH_TIME,
    RAW_FIELDS,
    SCHEMA_VERSION,
    TOPIC,
    VALUE,
)
from magnetar.spark.source.columns.value_columns import ValueColumns
from magnetar.spark.source.decoding.arrow_arrays import column_of, repeated
from magnetar.spark.source.decoding.row_columns import RowColumns
from pulsar_proto.names import TopicName

PARTS = {
    KEY: "keys",
    MESSAGE_ID: "ids",
    PUBLISH_TIME: "publish_times",
    EVENT_TIME: "event_times",
    PROPERTIES: "properties",
    VALUE: "values",
    SCHEMA_VERSION: "versions",
    ORDERING_KEY: "ordering_keys",
}
"""The columns that are attributes of RowColumns."""


class BatchBuilder:
    """Makes record batches with exactly the columns of `schema`, in the schema's order."""

    def __init__(self, schema: StructType, values: ValueColumns, topic: str) -> None:
        """Prepares the columns of `schema`. Raises ValueError for a column that neither the topic's schema nor the
        metadata has, and for a column that has another type there."""
        self._names = schema.fieldNames()
        self._values = values
        self._topic = topic
        known = {
            field.name: field.dataType for field in [*values.fields, *METADATA_FIELDS, *RAW_FIELDS, PARTITION_FIELD]
        }
        for field in schema.fields:
            if field.name not in known:
                raise ValueError(f"column {field.name} is unknown; there are {', '.join(known)}")
            if field.dataType.simpleString() != known[field.name].simpleString():
                expected, got = known[field.name].simpleString(), field.dataType.simpleString()
                raise ValueError(f"column {field.name} is {expected}, the query's schema says {got}")
        self._wants_values = any(name not in NOT_VALUES for name in self._names)

    @property
    def parts(self) -> frozenset[str]:
        """Returns the attributes of RowColumns that `batch` needs. The others may hold nothing but nulls."""
        needed = {PARTS[name] for name in self._names if name in PARTS}
        return frozenset(needed | (self._values.parts if self._wants_values else set()))

    def batch(self, rows: RowColumns) -> pa.RecordBatch:
        """Returns a batch of all rows. Raises BadValue in mode FAILFAST when a value does not fit the schema."""
        columns = self._values.columns(rows) if self._wants_values else {}
        arrays = [columns[name] if name in columns else self._metadata(name, rows) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, names=self._names)

    def _metadata(self, name: str, rows: RowColumns) -> pa.Array:
        if name == TOPIC:
            return repeated(self._topic.encode(), len(rows), pa.string())
        if name == PARTITION:
            partition = TopicName.parse(self._topic).partition_index
            if partition < 0:
                return pa.nulls(len(rows), pa.int32())
            return column_of(np.full(len(rows), partition, np.int32))
        if name == SCHEMA_VERSION and rows.versions is None:
            return repeated(b"", len(rows), pa.binary())
        if name == ORDERING_KEY and rows.ordering_keys is None:
            return pa.nulls(len(rows), pa.binary())
        return getattr(rows, PARTS[name])
