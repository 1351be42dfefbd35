"""Values in both directions: what rows become in a message and back, and what a message may hold without stopping a
query."""

import datetime
import io
import json
import re
import struct
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from magnetar.spark.source.client.broker_connection import Disconnected
from magnetar.spark.source.client.partition_producer import OutgoingMessage
from magnetar.spark.source.columns.arrow_types import arrow_type
from magnetar.spark.source.columns.avro_definition import BadColumns, avro_definition
from magnetar.spark.source.columns.avro_types import record_field
from magnetar.spark.source.columns.message_builder import MessageBuilder
from magnetar.spark.source.columns.primitives import PRIMITIVES
from magnetar.spark.source.columns.value_columns import RecordCodec, ValueColumns, split_pair
from magnetar.spark.source.decoding.row_columns import columns_of
from magnetar.spark.source.decoding.row_decoder import DecodedRows
from pulsar_proto.errors import ServiceNotReady, UnknownFault
from pulsar_proto.pb import pulsar_api_pb2 as pb

TOPIC = "persistent://public/default/t"
UTC = datetime.UTC


@pytest.fixture
def far_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def schema_of(kind: int, definition: object) -> pb.Schema:
    return pb.Schema(name="", type=pb.Schema.Type.ValueType(kind), schema_data=json.dumps(definition).encode())


def rows_of(*values: bytes | None, version: bytes = b"") -> DecodedRows:
    rows = DecodedRows()
    rows.values = list(values)
    count = len(values)
    rows.keys, rows.event_times, rows.properties = [None] * count, [None] * count, [None] * count
    rows.publish_times, rows.schema_versions = [1] * count, [version] * count
    return rows


MAP_OF_MAPS = MapType(StringType(), MapType(StringType(), LongType()))
MAPS = StructType(
    [
        StructField("id", LongType()),
        StructField("map", MapType(StringType(), LongType())),
        StructField("maps", ArrayType(MapType(StringType(), StringType()))),
        StructField("inner", StructType([StructField("deep", MAP_OF_MAPS)])),
        StructField("exact", DecimalType(20, 5)),
        StructField("instant", TimestampType()),
        StructField("local", TimestampNTZType()),
        StructField("day", DateType()),
    ]
)  # fmt: skip


@pytest.mark.parametrize("kind", [pb.Schema.Avro, pb.Schema.Json])
def test_maps_decimals_and_times_are_read_as_they_were_written(kind: int, far_away: None) -> None:
    row = {
        "id": 1,
        "map": [("a", 1), ("b", None)],
        "maps": [[("x", "y")], None],
        "inner": {"deep": [("k", [("l", 2)])]},
        "exact": Decimal("123456789012345.12345"),
        "instant": datetime.datetime(2020, 9, 13, 12, 26, 40, 123456, UTC),
        "local": datetime.datetime(2020, 9, 13, 12, 26, 40, 123456),
        "day": datetime.date(1969, 12, 31),
    }
    nothing = dict.fromkeys(row)
    existing = None if kind == pb.Schema.Avro else schema_of(kind, avro_definition(MAPS))
    outgoing = MessageBuilder(MAPS, TOPIC, existing)
    long, text = pa.int64(), pa.string()
    arrow = pa.struct(
        [
            ("id", long),
            ("map", pa.map_(text, long)),
            ("maps", pa.list_(pa.map_(text, text))),
            ("inner", pa.struct([("deep", pa.map_(text, pa.map_(text, long)))])),
            ("exact", pa.decimal128(20, 5)),
            ("instant", pa.timestamp("us", tz="UTC")),
            ("local", pa.timestamp("us")),
            ("day", pa.date32()),
        ]
    )
    batch = pa.RecordBatch.from_struct_array(pa.array([row, nothing], arrow))
    values = [message.value for message in outgoing.messages(batch)]
    assert outgoing.schema is not None
    columns = ValueColumns(outgoing.schema, lambda version: None).columns(columns_of(rows_of(*values)))
    assert {name: column.to_pylist() for name, column in columns.items()} == {name: [row[name], None] for name in row}


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("__key", LongType(), "__key is bigint: expected string or binary"),
        ("__topic", DateType(), "__topic is date: expected string"),
        ("__messageProperties", StringType(), "__messageProperties is string: expected map<string,string>"),
        ("__eventTime", StringType(), "__eventTime is string: expected timestamp"),
    ],
)
def test_a_metadata_column_of_another_type_is_named(name: str, kind: DataType, expected: str) -> None:
    columns = StructType([StructField("value", StringType()), StructField(name, kind)])
    with pytest.raises(BadColumns, match=expected):
        MessageBuilder(columns, TOPIC, None)


def test_instants_keep_their_milliseconds() -> None:
    columns = StructType([StructField("value", TimestampType())])
    milliseconds = [*range(-2_000, 2_000), *range(2_000, 5_000), 253_402_300_799_999]
    array = pa.array([number * 1000 for number in milliseconds]).view(pa.timestamp("us", tz="UTC"))
    sent = MessageBuilder(columns, TOPIC, None).messages(pa.RecordBatch.from_arrays([array], names=["value"]))
    assert [struct.unpack(">q", message.value or b"")[0] for message in sent] == milliseconds


@pytest.mark.parametrize("kind", [pb.Schema.Date, pb.Schema.LocalDate, pb.Schema.Timestamp, pb.Schema.Time])
def test_a_time_that_spark_cannot_hold_is_one_bad_value(kind: int) -> None:
    far = [struct.pack(">q", number) for number in (2**63 - 1, -(2**63), 0)]
    column, bad = PRIMITIVES[kind][1](pa.array([*far, None], pa.binary()))
    assert bad == [0, 1]
    assert [value is None for value in column.to_pylist()] == [True, True, False, True]


def record(*fields: tuple[str, object]) -> dict[str, object]:
    each = [{"name": name, "type": kind} for name, kind in fields]
    return {"type": "record", "name": "R", "namespace": "a.b", "fields": each}


def avro(definition: Any, value: object) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(definition), value)
    return buffer.getvalue()


ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}


@pytest.mark.parametrize(
    ("definition", "value", "expected"),
    [
        (record(("t", {"type": "int", "logicalType": "time-millis"})), {"t": datetime.time(1, 2, 3)}, {"t": 3_723_000}),
        (record(("t", {"type": "long", "logicalType": "time-micros"})), {"t": datetime.time(0, 0, 1)}, {"t": 10**6}),
        (record(("n", "null"), ("i", "int")), {"n": None, "i": 1}, {"n": None, "i": 1}),
        (record(("x", ENUM), ("y", ["null", "a.b.E"])), {"x": "A", "y": "B"}, {"x": "A", "y": "B"}),
        (record(("t", [MILLIS, "string"])), {"t": "x"}, {"t": {"member0": None, "member1": "x"}}),
        (record(("t", [MONEY, "string"])), {"t": "x"}, {"t": {"member0": None, "member1": "x"}}),
        (record(("t", ["string", MONEY])), {"t": Decimal("1.5")}, {"t": {"member0": None, "member1": Decimal("1.5")}}),
    ],
)  # fmt: skip
def test_avro_types_that_java_clients_write(definition: Any, value: object, expected: object) -> None:
    codec = RecordCodec(schema_of(pb.Schema.Avro, definition), lambda version: None)
    column, bad = codec.decode(pa.array([avro(definition, value)], pa.binary()), None)
    assert (column.to_pylist(), bad) == ([expected], [])


def test_json_may_lack_what_its_schema_wants_at_any_depth() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "n", "type": "int"}]}
    arrays, maps = {"type": "array", "items": "string"}, {"type": "map", "values": inner}
    schema = schema_of(pb.Schema.Json, record(("in", inner), ("a", arrays), ("m", maps)))
    kind = RecordCodec(schema, lambda version: None).type
    assert isinstance(kind, StructType)
    assert "false" not in kind.json()  # neither nullable, containsNull nor valueContainsNull
    assert kind.simpleString() == "struct<in:struct<n:int>,a:array<string>,m:map<string,struct<n:int>>>"


def failing(error: Exception) -> Callable[[bytes], pb.Schema | None]:
    def lookup(version: bytes) -> pb.Schema | None:
        raise error

    return lookup


def test_a_schema_that_cannot_be_asked_for_now_makes_no_value_null() -> None:
    definition = record(("n", "int"))
    rows = columns_of(rows_of(avro(definition, {"n": 1}), version=b"\0\0\0\1"))
    schema = schema_of(pb.Schema.Avro, definition)
    for error in (Disconnected("gone"), ServiceNotReady("not yet"), OSError("no token file")):
        with pytest.raises(type(error)):
            ValueColumns(schema, failing(error)).columns(rows)
    # A version that does not exist must not stop the queries of everybody, and must not be read by another schema.
    for lookup in (failing(UnknownFault("no such version")), lambda version: None):
        assert ValueColumns(schema, lookup).columns(rows)["n"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("added", "value"),
    [
        ({"name": "next", "type": ["null", "R"]}, b"\x02" + b"\x02\x02" * 200_000),
        ({"name": "many", "type": {"type": "array", "items": "null"}}, b"\x02" + b"\xfe" * 8 + b"\x01\x00"),
    ],
    ids=["any depth", "any length"],
)
def test_a_value_that_would_end_the_process_of_its_reader_is_one_bad_value(added: Any, value: bytes) -> None:
    definition: dict[str, Any] = record(("n", "int"))
    hostile = {**definition, "fields": [*definition["fields"], added]}
    codec = RecordCodec(schema_of(pb.Schema.Avro, definition), lambda version: schema_of(pb.Schema.Avro, hostile))
    sound = avro(definition, {"n": 1})
    column, bad = codec.decode(pa.array([value, sound], pa.binary()), [b"\0\0\0\1", b""])
    assert (column.to_pylist(), bad) == ([None, {"n": 1}], [0])


ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "txt", "type": ["null", "string"]},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "kind", "type": "string", "default": "plain"},
    ],
}


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ("id long, txt string", ""),
        ("id double, at timestamp, kind string", ""),
        ("id decimal(5,2), txt binary", ""),
        ("idd long, txt string", "column idd is not in the topic's JSON schema, which has id, txt, at, kind"),
        ("id string, txt string", "column id is text; in the topic's JSON schema it is a number"),
        ("id long, at boolean", "column at is a boolean; in the topic's JSON schema it is a number"),
        ("txt string, at timestamp", "there is no column id, which the topic's JSON schema needs"),
    ],
)
def test_columns_that_do_not_fit_a_json_schema_are_named(columns: str, complaint: str) -> None:
    record = StructType([StructField(*parts) for parts in _fields(columns)])
    if not complaint:
        assert MessageBuilder(record, TOPIC, schema_of(pb.Schema.Json, ORDER)).schema
        return
    with pytest.raises(BadColumns, match=complaint):
        MessageBuilder(record, TOPIC, schema_of(pb.Schema.Json, ORDER))


def _fields(columns: str) -> Iterator[tuple[str, DataType]]:
    for column in re.split(r", (?=\w+ )", columns):
        name, kind = column.split(" ", 1)
        yield name, NAMED_TYPES[kind]


NAMED_TYPES: dict[str, DataType] = {
    "long": LongType(),
    "string": StringType(),
    "double": DoubleType(),
    "timestamp": TimestampType(),
    "boolean": BooleanType(),
    "binary": BinaryType(),
    "decimal(5,2)": DecimalType(5, 2),
}


def test_a_null_where_a_json_schema_allows_none_is_an_error_and_elsewhere_it_is_written() -> None:
    record = StructType([StructField("id", LongType()), StructField("txt", StringType())])
    outgoing = MessageBuilder(record, TOPIC, schema_of(pb.Schema.Json, ORDER))
    right = pa.RecordBatch.from_pylist([{"id": 1, "txt": None}])
    assert [message.value for message in outgoing.messages(right)] == [b'{"id":1,"txt":null}']
    with pytest.raises(BadColumns, match="column id is null in a row"):
        list(outgoing.messages(pa.RecordBatch.from_pylist([{"id": 1, "txt": "a"}, {"id": None, "txt": "b"}])))


@pytest.mark.parametrize(
    ("data", "pair"),
    [
        (b"\0\0\0\1k\0\0\0\2vv", (b"k", b"vv")),
        (b"\0\0\0\0\0\0\0\0", (b"", b"")),
        (b"\xff\xff\xff\xff\0\0\0\1v", (None, b"v")),
        (b"\0\0\0\1k\xff\xff\xff\xff", (b"k", None)),
    ],
)
def test_a_key_value_pair_is_split(data: bytes, pair: tuple[bytes | None, bytes | None]) -> None:
    assert split_pair(data) == pair


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\0", b"\0\0\0\2k", b"\0\0\0\1k", b"\0\0\0\1k\0\0\0", b"\0\0\0\1k\0\0\0\2v"]
)
def test_a_key_value_pair_that_is_cut_off_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="cut off"):
        split_pair(data)


def test_a_row_without_a_topic_is_refused() -> None:
    columns = StructType([StructField("value", StringType()), StructField("__topic", StringType())])
    rows = pa.RecordBatch.from_pylist([{"value": "a", "__topic": "t"}, {"value": "b", "__topic": None}])
    with pytest.raises(BadColumns, match="__topic is null in a row"):
        list(MessageBuilder(columns, "", None).messages(rows))


def test_a_value_that_no_schema_fits_is_refused_by_name() -> None:
    columns = StructType([StructField("value", DecimalType(5, 2))])
    with pytest.raises(BadColumns, match=r"column value of type decimal\(5,2\) cannot be a value of its own"):
        MessageBuilder(columns, TOPIC, None)


def test_a_map_with_keys_that_are_no_text_has_no_avro_type() -> None:
    columns = StructType([StructField("m", MapType(LongType(), StringType()))])
    with pytest.raises(BadColumns, match="m: maps need string keys"):
        avro_definition(columns)


def test_a_field_of_the_type_null_is_nullable_and_others_are_by_their_unions_alone() -> None:
    field = record_field(json.dumps(record(("n", "null"), ("i", "int"), ("u", ["null", "int"]))).encode())
    assert isinstance(field.type, StructType)
    assert [each.nullable for each in field.type.fields] == [True, False, True]


def sent(columns: StructType, rows: list[dict[str, Any]], topic: str = TOPIC) -> list[OutgoingMessage]:
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema([(f.name, arrow_type(f.dataType)) for f in columns]))
    return list(MessageBuilder(columns, topic, None).messages(batch))


@pytest.mark.parametrize("name", ["__eventtime", "__op", "__value"])
def test_a_column_like_metadata_that_is_none_is_refused(name: str) -> None:
    columns = StructType().add("value", StringType()).add(name, StringType())
    with pytest.raises(BadColumns, match=f"column {name} is no metadata that can be written; those are __key, __topic"):
        MessageBuilder(columns, TOPIC, None)


def test_key_and_value_as_users_of_kafka_write_them_are_a_messages_key_and_value() -> None:
    headers = ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))
    columns = StructType().add("key", StringType()).add("value", BinaryType()).add("topic", StringType())
    columns = columns.add("partition", IntegerType()).add("headers", headers)
    rows: list[dict[str, Any]] = [
        {"key": "k", "value": b"v", "topic": "a", "partition": 2, "headers": [{"key": "h", "value": b"1"}]},
        {"key": None, "value": None, "topic": "b", "partition": None, "headers": None},
    ]
    assert sent(columns, rows, topic="") == [
        OutgoingMessage("a", b"k", 0, (("h", "1"),), b"v", None, 2),
        OutgoingMessage("b", None, 0, (), None),
    ]
    assert [each.topic for each in sent(columns, rows)] == [TOPIC, TOPIC]
    with pytest.raises(BadColumns, match="header h of a row is no UTF-8 text"):
        sent(columns, [{**rows[0], "headers": [{"key": "h", "value": b"\xff"}]}])


@pytest.mark.parametrize(
    ("columns", "existing"),
    [
        (StructType().add("key", StringType()).add("value", StringType()).add("more", StringType()), None),
        (StructType().add("key", LongType()).add("value", StringType()), None),
        (StructType().add("__key", StringType()).add("key", StringType()).add("value", StringType()), None),
        (
            StructType().add("key", StringType()).add("value", StringType()),
            pb.Schema(type=pb.Schema.Avro, schema_data=json.dumps(record(("key", "string"))).encode()),
        ),
    ],
)
def test_key_and_value_among_other_fields_are_fields_of_a_record(
    columns: StructType, existing: pb.Schema | None
) -> None:
    made = MessageBuilder(columns, TOPIC, existing)
    assert made.schema is not None
    assert made.schema.type == pb.Schema.Avro


def test_a_row_may_name_its_partition_and_its_ordering_key() -> None:
    columns = StructType().add("value", StringType()).add("__partition", LongType())
    columns = columns.add("__orderingKey", StringType())
    (message,) = sent(columns, [{"value": "v", "__partition": 1, "__orderingKey": "o"}])
    assert (message.partition, message.ordering_key, message.value) == (1, b"o", b"v")
    with pytest.raises(BadColumns, match="column __partition is string: expected int"):
        MessageBuilder(StructType().add("value", StringType()).add("__partition", StringType()), TOPIC, None)
