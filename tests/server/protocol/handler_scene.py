"""Connections that have a producer or consumer already, what clients say on them, and a clock to set."""

from typing import Any

from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from pulsar_proto.wire.commands import send_frame
from tests.server.fakes import FakeConsumer, FakeProducer, Peer, command, make_traffic

TOPIC = "persistent://public/default/t"
Type = pb.BaseCommand


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def metadata(**values: Any) -> pb.MessageMetadata:
    return pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1, **values)


def payload(body: bytes = b"hello") -> bytes:
    return build_payload(metadata(), body)


def send(producer_id: int, sequence_id: int, body: bytes = b"hello") -> bytes:
    return send_frame(pb.CommandSend(producer_id=producer_id, sequence_id=sequence_id), payload(body))


def producer(producer_id: int = 1, request_id: int = 1, topic: str = TOPIC, **values: Any) -> pb.BaseCommand:
    return command("PRODUCER", "producer", topic=topic, producer_id=producer_id, request_id=request_id, **values)


def subscribe(consumer_id: int = 1, request_id: int = 1, topic: str = TOPIC, **values: Any) -> pb.BaseCommand:
    values = {"subscription": "s", "subType": pb.CommandSubscribe.Exclusive, **values}
    return command("SUBSCRIBE", "subscribe", topic=topic, consumer_id=consumer_id, request_id=request_id, **values)


async def connected(traffic: Any = None) -> Peer:
    peer = Peer(traffic or make_traffic()).connect()
    await peer.answers()
    return peer


async def subscribed(traffic: Any = None) -> tuple[Peer, FakeConsumer]:
    traffic = traffic or make_traffic()
    peer = await connected(traffic)
    peer.say(subscribe())
    await peer.answers()
    return peer, traffic.broker.service.topic(TOPIC).consumers[-1]


async def producing(traffic: Any = None) -> tuple[Peer, FakeProducer]:
    traffic = traffic or make_traffic()
    peer = await connected(traffic)
    peer.say(producer())
    await peer.answers()
    return peer, traffic.broker.service.topic(TOPIC).producers[-1]
