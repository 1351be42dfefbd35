"""The columns beside a message's value. The names and types of `METADATA_TYPES` are those of the published connector,
so that the same query runs over the connector and over this data source."""

from collections.abc import Mapping

from pyspark.sql.types import BinaryType, DataType, IntegerType, MapType, StringType, StructField, TimestampType

KEY, TOPIC, MESSAGE_ID = "__key", "__topic", "__messageId"
PUBLISH_TIME, EVENT_TIME, PROPERTIES = "__publishTime", "__eventTime", "__messageProperties"
VALUE, SCHEMA_VERSION, ORDERING_KEY = "__value", "__schemaVersion", "__orderingKey"
"""The columns that the option rawColumns adds for copies of messages: bytes as they are stored."""
PARTITION = "__partition"
"""The number of the partition, or null in a topic without partitions. Queries have this column only when they ask for
it by name; the sink writes to the partition that it names."""

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
PARTITION_FIELD = StructField(PARTITION, IntegerType())
NOT_VALUES = frozenset(field.name for field in (*METADATA_FIELDS, *RAW_FIELDS, PARTITION_FIELD))
