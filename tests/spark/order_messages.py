"""The protobuf message Order, which has a field of each sort, as a class that no generated file is needed for."""

from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE

KINDS = FieldDescriptorProto
ORDER_COLUMNS = (
    "struct<name:string,many:bigint,huge:decimal(20,0),raw:binary,kind:string,at:timestamp,"
    "part:struct<weight:double>,parts:array<struct<weight:double>>,counts:map<string,decimal(20,0)>,note:string>"
)


def orders_file() -> FileDescriptorProto:
    """Returns the file of the message Order."""
    file = FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="PLAIN", number=0)
    kind.value.add(name="GIFT", number=1)
    file.message_type.add(name="Part").field.add(name="weight", number=1, type=KINDS.TYPE_DOUBLE, label=1)
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=KINDS.TYPE_STRING, label=1)
    entry.field.add(name="value", number=2, type=KINDS.TYPE_UINT64, label=1)
    message = KINDS.TYPE_MESSAGE
    for number, (name, type, of, label) in enumerate(
        (
            ("name", KINDS.TYPE_STRING, "", 1),
            ("many", KINDS.TYPE_UINT32, "", 1),
            ("huge", KINDS.TYPE_FIXED64, "", 1),
            ("raw", KINDS.TYPE_BYTES, "", 1),
            ("kind", KINDS.TYPE_ENUM, ".shop.Kind", 1),
            ("at", message, ".google.protobuf.Timestamp", 1),
            ("part", message, ".shop.Part", 1),
            ("parts", message, ".shop.Part", 3),
            ("counts", message, ".shop.Order.CountsEntry", 3),
            ("note", KINDS.TYPE_STRING, "", 1),
        ),
        start=1,
    ):
        order.field.add(name=name, number=number, type=type, label=label, type_name=of or None)
    order.oneof_decl.add(name="_note")
    order.field[-1].oneof_index, order.field[-1].proto3_optional = 0, True
    return file


def order_class() -> Any:
    pool = DescriptorPool()
    pool.AddSerializedFile(TIMESTAMP_FILE.serialized_pb)
    pool.AddSerializedFile(orders_file().SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
