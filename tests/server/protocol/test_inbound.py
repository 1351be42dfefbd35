"""The commands of a client are handled in order and in portions, and do not hold up other clients."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from magnetar.server.process import turns
from magnetar.server.protocol import inbound
from magnetar.server.protocol.inbound import Inbound
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from pulsar_proto.varint import varint
from pulsar_proto.wire.commands import send_frame, simple_frame
from pulsar_proto.wire.id_list import LIST_BYTES_MAX, PORTION_IDS
from tests.server.fakes import Peer, command, make_traffic, settle
from tests.server.protocol.handler_scene import producer, send, subscribe
from tests.server.served import Served, Wire, serving

PING = simple_frame(command("PING", "ping"))
KEY_VALUE = b"\x0a\x00\x12\x00"
NUMBERS = {field.name: field.number for field in pb.BaseCommand.DESCRIPTOR.fields}


@pytest.fixture
def _turn_after_every_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbound, "OWNER_PORTION_SECONDS", -1.0)
    monkeypatch.setattr(turns, "OWNER_PORTION_SECONDS", -1.0)


@pytest.mark.usefixtures("_turn_after_every_frame")
class TestPortions:
    async def test_commands_keep_their_order(self) -> None:
        peer = Peer(make_traffic()).connect()
        await peer.answers()
        asked = [command("PARTITIONED_METADATA", "partitionMetadata", topic="t", request_id=at) for at in range(50)]
        peer.say(*asked[:30])
        assert not peer.transport.reading
        peer.say(*asked[30:])
        ids = [each.partitionMetadataResponse.request_id for each in await peer.answers()]
        while len(ids) < 50:
            ids += [each.partitionMetadataResponse.request_id for each in await peer.answers()]
        assert ids == list(range(50))
        assert peer.transport.reading

    async def test_what_many_have_left_is_one_portion_a_turn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Before connections took turns, fifty clients that ask as fast as they can made each turn of the loop fifty
        portions long. A publish waited for several such turns: five to nine seconds on a busy machine."""
        traffic = make_traffic()
        peers = [Peer(traffic).connect() for _ in range(20)]
        for peer in peers:
            await peer.answers()
        handled: list[object] = []
        handle = Inbound._handle

        def counting(self: Inbound, cnx: Any, frames: Any, index: int) -> int:
            handled.append(self)
            return handle(self, cnx, frames, index)

        monkeypatch.setattr(Inbound, "_handle", counting)
        for peer in peers:
            peer.feed(PING * 5)
        assert len(handled) == 20
        while len(handled) < 100:
            before = len(handled)
            await asyncio.sleep(0)
            assert len(handled) == before + 1
        assert handled[:20] == handled[20:40] == handled[40:60] == handled[60:80] == handled[80:]

    async def test_what_came_before_a_broken_frame_is_handled_before_the_connection_is_closed(self) -> None:
        peer = Peer(make_traffic()).connect()
        await peer.answers()
        peer.feed(PING * 20 + b"\xff" * 8)
        pongs = 0
        while not peer.is_closed or pongs < 20:
            pongs += sum(each.type == pb.BaseCommand.PONG for each in await peer.answers())
        assert pongs == 20

    async def test_a_read_behind_a_broken_frame_does_not_keep_the_connection_open(self) -> None:
        """A transport with TLS may hand over what it has decrypted after it was told to pause."""
        peer = Peer(make_traffic()).connect()
        await peer.answers()
        peer.feed(PING * 20 + b"\xff" * 8)
        peer.feed(PING)
        for _ in range(50):
            await settle()
        assert peer.is_closed

    async def test_a_broken_command_in_a_later_portion_closes(self) -> None:
        peer = Peer(make_traffic()).connect()
        await peer.answers()
        peer.feed(PING * 5 + send(77, 0) + PING * 5)
        for _ in range(20):
            await settle()
        assert peer.is_closed
        assert len(await peer.answers()) == 5

    async def test_of_a_closed_connection_nothing_is_handled_any_more(self) -> None:
        traffic = make_traffic()
        peer = Peer(traffic).connect()
        await peer.answers()
        peer.say(command("PING", "ping"), producer())
        peer.transport.lose()
        for _ in range(5):
            await settle()
        assert peer.connection.producers == {}


def acks(count: int, **values: Any) -> pb.CommandAck:
    ids = [pb.MessageIdData(ledgerId=1, entryId=at) for at in range(count)]
    return pb.CommandAck(consumer_id=5, ack_type=pb.CommandAck.Individual, message_id=ids, **values)


async def test_a_long_ack_is_handled_whole() -> None:
    traffic = make_traffic()
    peer = Peer(traffic).connect()
    peer.say(subscribe(5))
    await peer.answers()
    peer.say(pb.BaseCommand(type=pb.BaseCommand.ACK, ack=acks(3 * PORTION_IDS + 1)))
    await settle()
    (consumer,) = traffic.broker.service.topic("persistent://public/default/t").consumers
    assert [each.entryId for ack in consumer.acks for each in ack.message_id] == list(range(3 * PORTION_IDS + 1))


# --- a whole server, whose loop is watched ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("inbound")) as server:
        yield server


def stuffed(kind: str, field: str, body: Any, element: bytes, size: int = 5_200_000) -> bytes:
    """Returns a command that consists of one small element, again and again."""
    inner: bytes = body.SerializePartialToString() + element * (size // len(element))
    encoded: bytes = b"\x08" + varint(pb.BaseCommand.Type.Value(kind))
    encoded += varint(NUMBERS[field] << 3 | 2) + varint(len(inner)) + inner
    return (len(encoded) + 4).to_bytes(4, "big") + len(encoded).to_bytes(4, "big") + encoded


def metadata_of(element: bytes) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, num_messages_in_batch=2)
    stuffed_metadata = metadata.SerializeToString() + element * (5_000_000 // len(element))
    payload = build_payload(pb.MessageMetadata.FromString(stuffed_metadata), b"x")
    return send_frame(pb.CommandSend(producer_id=1, sequence_id=0), payload)


SUBSCRIBE = pb.CommandSubscribe(
    topic="x", subscription="s", subType=pb.CommandSubscribe.Shared, consumer_id=1, request_id=1
)
ACK = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual)
REDELIVER = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1)
SOME_ID = b"\x04\x08\x01\x10\x01"
LONG: dict[str, Callable[[], bytes]] = {
    "small commands": lambda: PING * 100_000,
    "metadata of SUBSCRIBE": lambda: stuffed("SUBSCRIBE", "subscribe", SUBSCRIBE, b"\x52\x04" + KEY_VALUE),
    "a little metadata": lambda: stuffed("SUBSCRIBE", "subscribe", SUBSCRIBE, b"\x52\x04" + KEY_VALUE, 16_000),
    "ids of ACK": lambda: stuffed("ACK", "ack", ACK, b"\x1a" + SOME_ID),
    "as many ids of ACK as there may be": lambda: stuffed("ACK", "ack", ACK, b"\x1a" + SOME_ID, LIST_BYTES_MAX - 64),
    "empty ids": lambda: stuffed("ACK", "ack", ACK, b"\x1a\x00", LIST_BYTES_MAX - 64),
    "as many ids to redeliver": lambda: stuffed(
        "REDELIVER_UNACKNOWLEDGED_MESSAGES",
        "redeliverUnacknowledgedMessages",
        REDELIVER,
        b"\x12" + SOME_ID,
        LIST_BYTES_MAX - 64,
    ),
    "unknown fields": lambda: stuffed("PING", "ping", pb.CommandPing(), b"\xf8\x07\x01"),
    "groups": lambda: stuffed("PING", "ping", pb.CommandPing(), b"\xfb\x07\xfc\x07"),
    "properties of a message": lambda: metadata_of(b"\x22\x04" + KEY_VALUE),
    "keys of a message": lambda: metadata_of(b"\x6a\x04" + KEY_VALUE),
}


@pytest.mark.parametrize("what", LONG)
def test_nobody_waits_for_a_long_command(served: Served, what: str) -> None:
    wire = Wire(served.port)
    subscribing = {"topic": "t", "subscription": "s", "subType": 1, "consumer_id": 1, "request_id": 1}
    wire.say(simple_frame(command("SUBSCRIBE", "subscribe", **subscribing)))
    wire.say(simple_frame(command("PRODUCER", "producer", topic="t", producer_id=1, request_id=2)))
    assert wire.until(pb.BaseCommand.PRODUCER_SUCCESS) is not None
    wire.say(LONG[what]())
    wire.say(PING)
    wire.until(pb.BaseCommand.PONG)
    wire.close()
    other = Wire(served.port)
    other.say(PING)
    assert other.until(pb.BaseCommand.PONG) is not None
    other.close()
