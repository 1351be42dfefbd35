"""How many elements an encoded message has, before anybody parses it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.element_count import INNOCENT_BYTES, check_elements
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import METADATA_ELEMENTS_MAX, build_payload, metadata_fault
from pulsar_proto.wire.commands import parse_command

SUBSCRIBE = pb.CommandSubscribe(
    topic="t", subscription="s", subType=pb.CommandSubscribe.Exclusive, consumer_id=1, request_id=2
)


def elements(message: pb.CommandSubscribe) -> int:
    """Counts slowly, with protobuf: the fields that are set, and those within them."""

    def count(one: object) -> int:
        total = 0
        for field, value in one.ListFields():  # type: ignore[attr-defined]
            for each in value if field.is_repeated else [value]:
                total += 1 + (count(each) if field.message_type is not None else 0)
        return total

    return count(message)


@given(
    st.lists(st.tuples(st.text(max_size=3), st.text(max_size=300)), max_size=9),
    st.integers(0, 2**64 - 1),
    st.booleans(),
)
def test_every_element_counts_once(pairs: list[tuple[str, str]], number: int, has_schema: bool) -> None:
    message = pb.CommandSubscribe()
    message.CopyFrom(SUBSCRIBE)
    message.consumer_id = number
    message.start_message_id.ledgerId, message.start_message_id.entryId = number, 0
    for key, value in pairs:
        message.metadata.add(key=key, value=value)
        if has_schema:
            message.schema.properties.add(key=key, value=value)
    data, count = message.SerializePartialToString(), elements(message)
    check_elements(data, message.DESCRIPTOR, count)
    with pytest.raises(MalformedFrame, match="too many elements"):
        check_elements(data, message.DESCRIPTOR, count - 1)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_message_are_for_the_parser_to_refuse(data: bytes) -> None:
    try:
        check_elements(data, pb.BaseCommand.DESCRIPTOR, 50)
    except MalformedFrame:
        return


def test_a_long_command_of_few_elements_is_a_command() -> None:
    command = pb.BaseCommand(type=pb.BaseCommand.SUBSCRIBE, subscribe=SUBSCRIBE)
    command.subscribe.schema.name = "n"
    command.subscribe.schema.type = pb.Schema.Avro
    command.subscribe.schema.schema_data = bytes(4 << 20)
    assert parse_command(command.SerializeToString()).subscribe.schema.schema_data == bytes(4 << 20)


def test_a_long_command_of_many_elements_is_malformed() -> None:
    command = pb.BaseCommand(type=pb.BaseCommand.SUBSCRIBE, subscribe=SUBSCRIBE)
    for _ in range(INNOCENT_BYTES):
        command.subscribe.metadata.add(key="", value="")
    with pytest.raises(MalformedFrame, match="too many elements"):
        parse_command(command.SerializeToString())


def test_metadata_of_many_elements_is_at_fault_and_long_one_is_not() -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    metadata.properties.add(key="k", value="x" * (4 << 20))
    assert metadata_fault(build_payload(metadata, b"")) is None
    for _ in range(METADATA_ELEMENTS_MAX // 3):
        metadata.properties.add(key="k", value="v")
    fault = metadata_fault(build_payload(metadata, b""))
    assert fault is not None
    assert "too many elements" in fault
