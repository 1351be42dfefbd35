"""A long list of message ids is cut into commands that mean the same."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.varint import varint
from pulsar_proto.wire.commands import ID_LIST_BYTES_MAX, parse_command
from pulsar_proto.wire.id_list import (
    LIST_BYTES_MAX,
    PORTION_BYTES,
    PORTION_IDS,
    TXN_ACK_IDS_MAX,
    cut_id_list,
    is_long_id_list,
)

HELD_BY_DEFAULT = 50_000
"""As many as maxUnackedMessagesPerConsumer."""


def ids(count: int, words: int = 0) -> list[pb.MessageIdData]:
    return [pb.MessageIdData(ledgerId=7_000_000, entryId=at, partition=-1, ack_set=[at] * words) for at in range(count)]


def ack(message_ids: list[pb.MessageIdData], **values: Any) -> bytes:
    body = pb.CommandAck(consumer_id=300, ack_type=pb.CommandAck.Individual, message_id=message_ids, **values)
    return pb.BaseCommand(type=pb.BaseCommand.ACK, ack=body).SerializeToString()


def redeliver(message_ids: list[pb.MessageIdData]) -> bytes:
    body = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=300, message_ids=message_ids, consumer_epoch=7)
    made = pb.BaseCommand(type=pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES, redeliverUnacknowledgedMessages=body)
    return made.SerializeToString()


def portions(data: bytes) -> Iterator[bytes]:
    """Cuts the command as a connection does."""
    while is_long_id_list(data) and len(cut := cut_id_list(data)) > 1:
        portion, data = cut
        yield portion
    yield data


@given(count=st.integers(1, 3 * PORTION_IDS), words=st.integers(0, 60), request_id=st.none() | st.integers(0, 2**40))
def test_the_portions_of_an_ack_say_what_it_said(count: int, words: int, request_id: int | None) -> None:
    values = {} if request_id is None else {"request_id": request_id}
    parts = [parse_command(each).ack for each in portions(ack(ids(count, words), **values))]
    assert [each for part in parts for each in part.message_id] == ids(count, words)
    assert {(part.consumer_id, part.ack_type) for part in parts} == {(300, pb.CommandAck.Individual)}
    assert [part.HasField("request_id") for part in parts] == [False] * (len(parts) - 1) + [request_id is not None]
    assert all(len(part.message_id) <= PORTION_IDS for part in parts[:-1])


@pytest.mark.parametrize("values", [{}, {"request_id": 2**63}], ids=["no request id", "request id"])
def test_an_ack_of_a_transaction_stays_one_command(values: dict[str, int]) -> None:
    sent = ack(ids(20_000), txnid_least_bits=2**64 - 1, txnid_most_bits=0, **values)
    assert list(portions(sent)) == [sent]
    assert len(parse_command(sent).ack.message_id) == 20_000


def test_an_ack_of_a_transaction_with_too_many_ids_is_malformed() -> None:
    sent = ack(ids(TXN_ACK_IDS_MAX + 1), txnid_least_bits=1, txnid_most_bits=0, request_id=1)
    with pytest.raises(MalformedFrame, match="in a transaction has more than 30000 message ids"):
        cut_id_list(sent)


def test_an_ack_whose_ids_end_like_the_id_of_a_transaction_is_cut() -> None:
    tail = pb.MessageIdData(ledgerId=7, entryId=0x0538_0330 << 3)
    sent = ack([*ids(5_000), tail])
    assert is_long_id_list(sent)
    assert len(list(portions(sent))) > 1


def test_all_that_a_consumer_may_hold_can_be_asked_for_again() -> None:
    sent = redeliver(ids(HELD_BY_DEFAULT))
    parts = [parse_command(each).redeliverUnacknowledgedMessages for each in portions(sent)]
    assert [each.entryId for part in parts for each in part.message_ids] == list(range(HELD_BY_DEFAULT))
    assert [part.HasField("consumer_epoch") for part in parts] == [False] * (len(parts) - 1) + [True]


def test_no_portion_is_long() -> None:
    lengths = [len(each) for each in portions(ack(ids(900, words=100)))]
    assert max(lengths) < ID_LIST_BYTES_MAX
    assert len(lengths) > 1


def test_a_short_list_is_left_as_it_is() -> None:
    assert not is_long_id_list(ack(ids(1_000)))
    lookup = pb.CommandLookupTopic(topic="t" * PORTION_BYTES, request_id=1)
    assert not is_long_id_list(pb.BaseCommand(type=pb.BaseCommand.LOOKUP, lookupTopic=lookup).SerializeToString())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (ack(ids(HELD_BY_DEFAULT * 2)) + bytes(LIST_BYTES_MAX // 2), "at most"),
        (ack(ids(5_000)) + b"\x00", "says that it has"),
        (b"\x08\x0a\x52\xff\xff\xff\x7f" + bytes(PORTION_BYTES), "says that it has"),
        (b"\x08\x0a\x52\x80\x80\x04" + b"\x2a\x00" * 32_768, "something else"),
    ],
)
def test_a_list_that_no_client_writes_is_malformed(data: bytes, message: str) -> None:
    with pytest.raises(MalformedFrame, match=message):
        cut_id_list(data)


@given(st.binary(max_size=200))
def test_whatever_follows_is_cut_parsed_or_refused(tail: bytes) -> None:
    data = ack(ids(PORTION_IDS + 5))
    body = data[3 + 3 :] + tail
    garbled = b"\x08\x0a\x52" + varint(len(body)) + body
    for portion in portions(garbled):
        try:
            parse_command(portion)
        except MalformedFrame:
            return
