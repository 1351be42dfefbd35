"""Values of PROTOBUF_NATIVE schemas as columns: the official client makes the schema and the values."""

import base64
import datetime
import json
from decimal import Decimal
from typing import Any

import pulsar
import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet

from magnetar.spark.source.columns.avro_types import UnsupportedSchema
from magnetar.spark.source.columns.protobuf_types import FIELDS_MAX, ProtobufCodec
from magnetar.spark.source.columns.value_columns import ValueColumns
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.spark.order_messages import KINDS, ORDER_COLUMNS, order_class


def codec(schema: str) -> ProtobufCodec:
    return ProtobufCodec(pb.Schema(name="t", type=pb.Schema.ProtobufNative, schema_data=schema.encode()))


def decoded(made: ProtobufCodec, *values: bytes | None) -> tuple[list[Any], list[int]]:
    column, bad = made.decode(pa.array(values, pa.binary()), None)
    return column.to_pylist(), bad


def test_fields_of_every_sort_are_read() -> None:
    order = order_class()
    made = codec(pulsar.schema.ProtobufNativeSchema(order).schema_info().schema())
    assert made.type.simpleString() == ORDER_COLUMNS
    full = order(name="é", many=2**32 - 1, huge=2**64 - 1, raw=b"\xff", kind=1, part={"weight": 0.5}, note="")
    full.at.FromDatetime(datetime.datetime(2026, 11, 24, 11, 0, 0, 250, datetime.UTC))
    full.parts.add(weight=2)
    full.counts["a"] = 2**63
    (row, nothing, missing), bad = decoded(made, full.SerializeToString(), b"", None)
    assert (bad, missing) == ([], None)
    assert row == {
        "name": "é",
        "many": 2**32 - 1,
        "huge": Decimal(2**64 - 1),
        "raw": b"\xff",
        "kind": "GIFT",
        "at": datetime.datetime(2026, 11, 24, 11, 0, 0, 250, datetime.UTC),
        "part": {"weight": 0.5},
        "parts": [{"weight": 2.0}],
        "counts": [("a", Decimal(2**63))],
        "note": "",
    }
    defaults = {"name": "", "many": 0, "huge": Decimal(0), "raw": b"", "kind": "PLAIN", "parts": [], "counts": []}
    assert nothing == {**defaults, "at": None, "part": None, "note": None}


def test_a_value_that_is_no_message_is_bad_and_spoils_no_other() -> None:
    order = order_class()
    made = codec(pulsar.schema.ProtobufNativeSchema(order).schema_info().schema())
    late = order()
    late.at.seconds = 2**62
    rows, bad = decoded(made, order(name="a").SerializeToString(), b"\x0a\xff", late.SerializeToString())
    assert (rows[0]["name"], rows[1:], bad) == ("a", [None, None], [1, 2])


def test_an_enums_number_that_the_schema_does_not_know_is_shown() -> None:
    order = order_class()
    made = codec(pulsar.schema.ProtobufNativeSchema(order).schema_info().schema())
    (row,), _ = decoded(made, order(kind=7).SerializeToString())
    assert row["kind"] == "7"


def schema_of(messages: list[DescriptorProto]) -> str:
    file = FileDescriptorProto(name="m.proto", package="m", message_type=messages)
    content = FileDescriptorSet(file=[file]).SerializeToString()
    return json.dumps({"fileDescriptorSet": base64.b64encode(content).decode(), "rootMessageTypeName": "m.M0"})


def holding(name: str, *others: str) -> DescriptorProto:
    """Returns a message that holds other messages."""
    made = DescriptorProto(name=name)
    for number, other in enumerate(others, start=1):
        made.field.add(name=f"f{number}", number=number, type=KINDS.TYPE_MESSAGE, label=1, type_name=f".m.{other}")
    return made


def test_a_message_that_contains_itself_is_named() -> None:
    with pytest.raises(UnsupportedSchema, match=r"message m\.M0 contains itself; allowDifferentTopicSchemas"):
        codec(schema_of([holding("M0", "M1"), holding("M1", "M0")]))


def test_a_short_schema_with_endless_columns_is_refused() -> None:
    doubling = [holding(f"M{number}", f"M{number + 1}", f"M{number + 1}") for number in range(60)]
    with pytest.raises(UnsupportedSchema, match=f"more than {FIELDS_MAX} fields"):
        codec(schema_of([*doubling, holding("M60")]))


@pytest.mark.parametrize(
    "definition", ["", "[]", "{}", '{"fileDescriptorSet": "?", "rootMessageTypeName": "a"}', schema_of([])]
)
def test_a_damaged_schema_is_an_error(definition: str) -> None:
    with pytest.raises(UnsupportedSchema, match="descriptors do not fit together"):
        codec(definition)


def test_a_topics_columns_are_the_fields_and_protobuf_without_numbers_stays_bytes() -> None:
    data = pulsar.schema.ProtobufNativeSchema(order_class()).schema_info().schema().encode()
    native = ValueColumns(pb.Schema(type=pb.Schema.ProtobufNative, schema_data=data), lambda version: None)
    assert [field.name for field in native.fields][:2] == ["name", "many"]
    plain = ValueColumns(pb.Schema(type=pb.Schema.Protobuf, schema_data=b"{}"), lambda version: None)
    assert [field.simpleString() for field in plain.fields] == ["value:binary"]
