"""Messages that are cut between their fields."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.message_pieces import fields_of, pieces_of
from pulsar_proto.pb import pulsar_api_pb2 as pb


@given(
    st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=30),
    st.integers(0, 2**64 - 1),
    st.integers(1, 200),
)
def test_the_pieces_of_a_message_parse_to_the_message(
    properties: list[tuple[str, str]], sequence_id: int, size: int
) -> None:
    message = pb.MessageMetadata(producer_name="p", sequence_id=sequence_id, publish_time=7)
    for key, value in properties:
        message.properties.add(key=key, value=value)
    data = message.SerializeToString()
    pieces = list(pieces_of(data, size))
    assert b"".join(pieces) == data
    assert all(len(each) >= size for each in pieces[:-1])
    again = pb.MessageMetadata()
    for each in pieces:
        again.MergeFromString(each)
    assert again == message


def test_fields_of_every_kind_are_stepped_over() -> None:
    data = bytes.fromhex("0896 0111 01020304050607081a03 61626325 010203048001 7f".replace(" ", ""))
    assert list(fields_of(data)) == [(8, 1, 3), (0x11, 4, 12), (0x1A, 14, 17), (0x25, 18, 22), (0x80, 24, 25)]


@pytest.mark.parametrize("data", ["0a05 0801", "11 0102", "25 01", "0b 0801 0c"], ids=["bytes", "64", "32", "group"])
def test_a_field_that_cannot_be_stepped_over_is_refused(data: str) -> None:
    with pytest.raises(MalformedRecord):
        list(pieces_of(bytes.fromhex(data.replace(" ", "")), 1))
