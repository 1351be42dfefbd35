"""A client's connection on which receipts, messages, acknowledgements and lookups get lost, wait, come twice or fail.

`BrokerListener` makes such connections only if `faultInjectionEnabled` is true. Without a fault that concerns them,
bytes pass unread.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from magnetar.server.faults.fault_rules import Effect, FaultSet, FaultSpec, Target
from magnetar.server.protocol.connection import Connection
from magnetar.server.topics.publishing.producer import Producer
from magnetar.server.topics.subscriptions.consumer import Consumer
from pulsar_proto.errors import PulsarError, UnknownCommand
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import lookup_failed_frame, parse_command, partitions_failed_frame
from pulsar_proto.wire.framing import Frame

if TYPE_CHECKING:
    from magnetar.server.protocol.client_traffic import ClientTraffic
    from magnetar.server.protocol.frame_receiver import FrameReceiver

OUTGOING = (Target.RECEIPT, Target.MESSAGE)
INCOMING = (Target.ACK, Target.LOOKUP)
REFUSAL = "a fault that a test has set"

Stream = Producer | Consumer
"""The frames to one producer or consumer keep their order."""


class FaultyConnection(Connection):
    """A connection whose outgoing frames the faults may strike."""

    def __init__(self, traffic: "ClientTraffic", inbound: "FrameReceiver", listener_name: str = "") -> None:
        injection = traffic.broker.faults
        assert injection is not None
        self._faults = injection.faults
        self._held: dict[Stream, list[bytes]] = {}
        """The frames that wait: a delayed one and those behind it."""
        super().__init__(traffic, FaultyInbound(inbound, self._faults), listener_name)

    def write(self, data: bytes) -> None:
        super().write(self._passed(data) if self._faults.concern(OUTGOING) or self._held else data)

    def write_frames(self, chunks: list[bytes]) -> None:
        if self._faults.concern(OUTGOING) or self._held:
            super().write(self._passed(b"".join(chunks)))
        else:
            super().write_frames(chunks)

    def _passed(self, data: bytes) -> bytes:
        """Returns the frames that are sent now."""
        passed: list[bytes] = []
        for frame in _frames_of(data):
            stream = self._stream_of(frame)
            if stream is None:
                passed.append(frame)
                continue
            if isinstance(stream, Producer):
                struck = self._faults.strike(Target.RECEIPT, stream.topic_name)
            else:
                struck = self._faults.strike(Target.MESSAGE, stream.subscription.topic.name.full)
            if struck is not None and struck.effect is Effect.LOSE:
                continue
            copies = [frame] * (2 if struck is not None and struck.effect is Effect.DOUBLE else 1)
            if stream in self._held:
                self._held[stream] += copies
            elif struck is not None and struck.effect is Effect.DELAY:
                self._held[stream] = copies
                self._loop.call_later(struck.delay_ms / 1000, self._release, stream)
            else:
                passed += copies
        return b"".join(passed)

    def _release(self, stream: Stream) -> None:
        """Sends what was held for a producer or consumer, unless it was closed meanwhile: then its id may belong to
        another one."""
        held = self._held.pop(stream)
        attached = self.producers if isinstance(stream, Producer) else self.consumers
        if stream in attached.values():
            super().write(b"".join(held))

    def _stream_of(self, frame: bytes) -> Stream | None:
        """Returns to whom a receipt or message goes; None for any other command."""
        end = 8 + int.from_bytes(frame[4:8], "big")
        command = parse_command(frame[8:end])
        if command.type == pb.BaseCommand.SEND_RECEIPT:
            return self.producers.get(command.send_receipt.producer_id)
        if command.type == pb.BaseCommand.MESSAGE:
            return self.consumers.get(command.message.consumer_id)
        return None


class FaultyInbound:
    """Takes the frames that a connection has read, and passes those on that no fault strikes. Implements
    `FrameReceiver`."""

    def __init__(self, inbound: "FrameReceiver", faults: FaultSet) -> None:
        self._inbound = inbound
        self._faults = faults
        self.forget = inbound.forget

    def take(self, cnx: Connection, frames: list[Frame], then: Callable[[], None] | None = None) -> None:
        if self._faults.concern(INCOMING):
            frames = [passed for frame in frames for passed in self._passed(cnx, frame)]
        self._inbound.take(cnx, frames, then)

    def _passed(self, cnx: Connection, frame: Frame) -> list[Frame]:
        """Returns how often the frame is handled now: not at all, once or twice."""
        try:
            command = parse_command(frame[0])
        except UnknownCommand:
            return [frame]
        if command.type == pb.BaseCommand.ACK:
            return self._passed_ack(cnx, frame, command.ack.consumer_id)
        if command.type in (pb.BaseCommand.LOOKUP, pb.BaseCommand.PARTITIONED_METADATA):
            struck = self._faults.strike(Target.LOOKUP, _looked_up(command))
            if struck is not None:
                cnx.write(_refusal(command, struck))
                return []
        return [frame]

    def _passed_ack(self, cnx: Connection, frame: Frame, consumer_id: int) -> list[Frame]:
        consumer = cnx.consumers.get(consumer_id)
        if consumer is None:
            return [frame]
        struck = self._faults.strike(Target.ACK, consumer.subscription.topic.name.full)
        if struck is None:
            return [frame]
        if struck.effect is Effect.DOUBLE:
            return [frame, frame]
        if struck.effect is Effect.DELAY:
            asyncio.get_running_loop().call_later(struck.delay_ms / 1000, self._handle_late, cnx, frame, consumer)
        return []

    def _handle_late(self, cnx: Connection, frame: Frame, consumer: Consumer) -> None:
        """Handles an ACK, unless its consumer was closed meanwhile."""
        if consumer in cnx.consumers.values():
            with cnx.faults_closing():
                self._inbound.take(cnx, [frame])


def _frames_of(data: bytes) -> Iterator[bytes]:
    """Yields the frames in `data`, which are whole."""
    begin = 0
    while begin < len(data):
        end = begin + 4 + int.from_bytes(data[begin : begin + 4], "big")
        yield data[begin:end]
        begin = end


def _looked_up(command: pb.BaseCommand) -> str:
    """Returns the full name of the topic that a lookup asks for, as far as it is one."""
    is_lookup = command.type == pb.BaseCommand.LOOKUP
    asked = command.lookupTopic.topic if is_lookup else command.partitionMetadata.topic
    try:
        return TopicName.parse(asked).full
    except PulsarError:
        return asked


def _refusal(command: pb.BaseCommand, struck: FaultSpec) -> bytes:
    code = pb.ServerError.Value(struck.error)
    if command.type == pb.BaseCommand.LOOKUP:
        return lookup_failed_frame(command.lookupTopic.request_id, code, REFUSAL)
    return partitions_failed_frame(command.partitionMetadata.request_id, code, REFUSAL)
