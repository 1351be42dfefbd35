"""A query that names its columns: which it gets, and that nothing else is decoded for it."""

import io
from typing import Any

import fastavro
import orjson
import pyarrow as pa
import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from magnetar.spark.source import PulsarDataSource
from magnetar.spark.source.columns.batch_builder import BatchBuilder
from magnetar.spark.source.columns.metadata_columns import METADATA_FIELDS, PARTITION_FIELD
from magnetar.spark.source.columns.value_columns import BadValue, BadValueMode, BadValues, ValueColumns
from magnetar.spark.source.decoding.block_decoder import BlockDecoder
from magnetar.spark.source.decoding.row_columns import RowColumns, columns_of, joined
from magnetar.spark.source.decoding.row_decoder import DecodedRows
from magnetar.spark.source.options import BadOption
from magnetar.spark.source.ranges.bounds import BEFORE_ALL, Bound, Range
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.spark.sent_blocks import TOPIC, ordinary_payload, sent_block
from tests.spark.support import Scene, produce

EVERYTHING = Range(BEFORE_ALL, Bound(2**62, 0))
SHAPE = {
    "type": "record",
    "name": "Shape",
    "fields": [
        {"name": "corner", "type": {"type": "record", "name": "Corner", "fields": [{"name": "x", "type": "int"}]}},
        {"name": "other", "type": "Corner"},
        {"name": "n", "type": "int"},
        {"name": "text", "type": "string"},
    ],
}


def schema(kind: Any) -> pb.Schema:
    return pb.Schema(type=kind, schema_data=orjson.dumps(SHAPE))


def rows_of(*values: bytes) -> RowColumns:
    rows = DecodedRows()
    rows.values = list(values)
    rows.keys = [None] * len(values)
    rows.event_times = [None] * len(values)
    rows.properties = [None] * len(values)
    rows.publish_times = [1] * len(values)
    rows.schema_versions = [b""] * len(values)
    return columns_of(rows)


def avro(record: dict[str, Any]) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(SHAPE), record)
    return written.getvalue()


RECORD = {"corner": {"x": 1}, "other": {"x": 2}, "n": 3, "text": "four"}
BAD_TEXT = {**RECORD, "text": 5}


@pytest.mark.parametrize(
    ("kind", "value"), [(pb.Schema.Json, orjson.dumps(BAD_TEXT)), (pb.Schema.Avro, avro(RECORD)[:-4] + b"\xff" * 4)]
)
def test_a_field_that_is_not_asked_for_is_not_decoded(kind: Any, value: bytes) -> None:
    """The text's value is bad, so a whole read has no row here."""
    whole = ValueColumns(schema(kind), lambda version: None)
    assert whole.columns(rows_of(value))["n"].to_pylist() == [None]
    for names in (["n"], ["n", "corner", "__key"]):
        columns = ValueColumns(schema(kind), lambda version: None, only=names).columns(rows_of(value))
        assert columns["n"].to_pylist() == [3]
        assert set(columns) == set(names) - {"__key"}


@pytest.mark.parametrize("kind", [pb.Schema.Json, pb.Schema.Avro])
def test_a_field_whose_type_another_one_defines_is_decoded_with_all(kind: Any) -> None:
    value = orjson.dumps(RECORD) if kind == pb.Schema.Json else avro(RECORD)
    columns = ValueColumns(schema(kind), lambda version: None, only=["other"]).columns(rows_of(value))
    assert columns["other"].to_pylist() == [{"x": 2}]


def test_a_query_that_has_to_find_bad_values_decodes_all() -> None:
    rows = rows_of(orjson.dumps(BAD_TEXT))
    strict = ValueColumns(schema(pb.Schema.Json), lambda version: None, BadValues(BadValueMode.FAILFAST), ["n"])
    with pytest.raises(BadValue):
        strict.columns(rows)
    told = ValueColumns(
        schema(pb.Schema.Json), lambda version: None, BadValues(corrupt_column="bad"), ["n", "bad"]
    ).columns(rows)
    assert told["bad"].to_pylist() == [orjson.dumps(BAD_TEXT)]


def batch_of(names: list[str]) -> tuple[RowColumns, pa.RecordBatch]:
    """Decodes two messages as far as a query with these columns needs them."""
    values = ValueColumns(None, lambda version: None)
    known = {field.name: field for field in (*values.fields, *METADATA_FIELDS, PARTITION_FIELD)}
    builder = BatchBuilder(StructType([known[name] for name in names]), values, TOPIC)
    sent = [ordinary_payload(number, partition_key=f"k{number}", event_time=5) for number in range(2)]
    rows = joined(BlockDecoder(3, EVERYTHING, builder.parts).decode(sent_block(sent)))
    return rows, builder.batch(rows)


def test_parts_of_messages_that_are_not_asked_for_stay_empty() -> None:
    rows, batch = batch_of(["__partition", "__key"])
    assert batch.to_pylist() == [{"__partition": 3, "__key": b"k0"}, {"__partition": 3, "__key": b"k1"}]
    assert (rows.ids, rows.values.null_count, rows.properties.to_pylist()) == (None, 2, [[], []])
    rows, batch = batch_of(["value", "__messageProperties"])
    assert batch.to_pylist() == [
        {"value": b"0", "__messageProperties": [("n", "0")]},
        {"value": b"1", "__messageProperties": [("n", "1")]},
    ]
    assert rows.keys.null_count == 2


@pytest.mark.process
def test_columns_are_named_by_an_option_or_a_schema(scene: Scene) -> None:
    topic = "persistent://public/default/chosen"
    produce(scene, topic, 3)
    frame = scene.read(topic, columns="__publishTime, value,__partition")
    assert frame.columns == ["__publishTime", "value", "__partition"]
    assert [(row.value, row["__partition"]) for row in frame.collect()] == [(b"0", None), (b"1", None), (b"2", None)]
    read = scene.session.read.format("pulsar").schema(StructType([StructField("__partition", IntegerType())]))
    assert [tuple(row) for row in read.options(**scene.options(topic)).load().collect()] == [(None,)] * 3
    with pytest.raises(BadOption, match="option columns: valeu is unknown; there are value, __key, __topic, "):
        PulsarDataSource(scene.options(topic, columns="valeu")).schema()
