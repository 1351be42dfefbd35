"""An ACK that is read by hand is what protobuf reads."""

from hypothesis import example, given
from hypothesis import strategies as st

from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.varint import varint
from pulsar_proto.wire.commands import parse_command
from pulsar_proto.wire.id_list import PORTION_BYTES
from pulsar_proto.wire.plain_ack import PLAIN_ACK_PREFIX, acks_of, plain_ack

IDS = st.integers(0, 300) | st.integers(0, 2**64 - 1)
MESSAGE_IDS = st.builds(pb.MessageIdData, ledgerId=IDS, entryId=IDS)
ACKS = st.builds(
    pb.CommandAck,
    consumer_id=IDS,
    ack_type=st.just(pb.CommandAck.Individual),
    message_id=st.lists(MESSAGE_IDS, max_size=5),
)


def command_of(ack: pb.CommandAck) -> bytes:
    return pb.BaseCommand(type=pb.BaseCommand.ACK, ack=ack).SerializeToString()


@given(ACKS)
def test_an_ack_of_whole_entries_is_plain_and_means_the_same(ack: pb.CommandAck) -> None:
    found = plain_ack(command_of(ack))
    ids = [ack.consumer_id, *(number for each in ack.message_id for number in (each.ledgerId, each.entryId))]
    assert found == ((ack.consumer_id, acks_of(ack.message_id)) if max(ids) < 1 << 63 else None)


def test_any_other_ack_is_not_plain() -> None:
    plain = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual)
    plain.message_id.add(ledgerId=1, entryId=2)
    assert plain_ack(command_of(plain)) == (1, [(1, 2, None)])
    for other in (
        pb.CommandAck(ack_type=pb.CommandAck.Cumulative),
        pb.CommandAck(request_id=1),
        pb.CommandAck(txnid_least_bits=1, txnid_most_bits=1),
        pb.CommandAck(validation_error=pb.CommandAck.ChecksumMismatch),
        pb.CommandAck(properties=[pb.KeyLongValue(key="a", value=1)]),
        pb.CommandAck(message_id=[pb.MessageIdData(ledgerId=1, entryId=3, ack_set=[1])]),
        pb.CommandAck(message_id=[pb.MessageIdData(ledgerId=1, entryId=3, partition=1)]),
    ):
        whole = pb.CommandAck()
        whole.CopyFrom(plain)
        whole.MergeFrom(other)
        assert plain_ack(command_of(whole)) is None, other


def test_a_list_that_has_to_be_cut_is_not_plain() -> None:
    ack = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual)
    while len(command_of(ack)) <= PORTION_BYTES:
        assert plain_ack(command_of(ack)) is not None
        ack.message_id.extend([pb.MessageIdData(ledgerId=1, entryId=2)] * 1_000)
    assert plain_ack(command_of(ack)) is None


FIELDS = st.tuples(st.sampled_from([0x08, 0x10, 0x18]), st.integers(0, 3) | IDS).map(
    lambda field: bytes([field[0]]) + varint(field[1])
)
NESTED = st.lists(FIELDS, max_size=3).map(b"".join).map(lambda body: b"\x1a" + varint(len(body)) + body)
BODIES = st.lists(FIELDS | NESTED | st.binary(max_size=3), max_size=6).map(b"".join)


@given(st.just(b"\x08\x01\x10\x00") | st.just(b""), BODIES, st.integers(-1, 1))
@example(b"\x08\x01\x10\x00", b"\x1a\x04\x08\x01\x10\x80", 0)
def test_what_passes_for_plain_is_what_protobuf_reads(begin: bytes, rest: bytes, lie: int) -> None:
    data = PLAIN_ACK_PREFIX + varint(max(0, len(begin + rest) + lie)) + begin + rest
    found = plain_ack(data)
    if found is not None:
        ack = parse_command(data).ack
        assert found == (ack.consumer_id, acks_of(ack.message_id))
        assert ack.ack_type == pb.CommandAck.Individual
        assert {field.name for field, _ in ack.ListFields()} <= {"consumer_id", "ack_type", "message_id"}
