"""A producer of a topic at one broker, over one link. It ends with the link, or when the broker closes it; the code
that uses it then attaches a new one, at the topic's next owner, and sends unanswered messages again.

In contrast to a `PeerProducer`, the caller makes the payloads and the sequence ids, and keeps the messages until they
are answered.
"""

import logging
from collections.abc import Callable, Sequence

from magnetar.server.peers.peer_errors import PeerError, PeerUnreachableError
from magnetar.server.peers.peer_link import LinkState, PeerLink
from magnetar.server.peers.retry_rules import FATAL
from pulsar_proto.errors import MetadataFault, NotAllowed, error_of_code
from pulsar_proto.ids import NO_REQUEST_ID
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import send_frame, simple_frame
from pulsar_proto.wire.send_run import single_sends

log = logging.getLogger(__name__)

PRODUCER_SECONDS = 30.0
"""The deadline of PRODUCER, for which the broker may have to load the topic."""

Type = pb.BaseCommand
Told = Callable[[pb.BaseCommand], None]


class LinkProducer:
    """One producer. `produce_over` makes a LinkProducer. Implements `peer_link.LinkHandler`."""

    def __init__(self, link: PeerLink, told: Told, own_id: int) -> None:
        self.name = ""
        self.last_sequence_id = -1
        """The highest sequence id that the topic knows of this name, or -1 when it knows none."""
        self.is_closed = False
        """Whether the broker has closed the producer, or the link is lost, or `close` was called."""
        self._link = link
        self._told = told
        self._own_id = own_id
        """The producer's id in the commands for the user. On the link the producer has another id."""
        self._is_created = False
        self._id = link.attach_producer(self)

    async def create(self, command: pb.CommandProducer) -> None:
        """Creates the producer at the broker. Raises the errors of `produce_over`."""
        asked = pb.CommandProducer()
        asked.CopyFrom(command)
        asked.producer_id = self._id
        try:
            answer = await self._link.request(
                pb.BaseCommand(type=Type.PRODUCER, producer=asked), "producer", PRODUCER_SECONDS
            )
        except BaseException:
            self.close()  # the broker may create the producer after this attempt
            raise
        if self.is_closed:
            raise PeerUnreachableError(f"{self._link.url} closed the producer at once")
        self.name = answer.producer_success.producer_name
        self.last_sequence_id = answer.producer_success.last_sequence_id
        self._is_created = True

    def publish(self, sends: Sequence[tuple[pb.CommandSend, bytes]]) -> None:
        """Sends messages in their order. Has no effect on a closed producer, whose user sends them again."""
        if self.is_closed:
            return
        frames = []
        for send, payload in sends:
            send.producer_id = self._id
            frames.append(send_frame(send, payload))
        self._link.send(b"".join(frames))

    def publish_singles(self, first_sequence_id: int, payloads: Sequence[bytes]) -> None:
        """Sends single messages whose sequence ids follow one another, as `publish` does."""
        self.publish(single_sends(self._id, first_sequence_id, payloads))

    def close(self) -> None:
        """Closes the producer at the broker, without waiting for the answer. A second call has no further effect."""
        if self.is_closed:
            return
        self.is_closed = True
        self._link.detach(self._id)
        close = pb.CommandCloseProducer(producer_id=self._id, request_id=NO_REQUEST_ID)
        self._link.send(simple_frame(pb.BaseCommand(type=Type.CLOSE_PRODUCER, close_producer=close)))

    def give_up(self, why: str) -> None:
        """Closes the producer, and tells its user of the end as a topic of this broker does, by CLOSE_PRODUCER."""
        if self.is_closed:
            return
        self.close()
        if self._is_created:
            log.info("a producer at %s has ended: %s", self._link.url, why)
            closed = pb.CommandCloseProducer(producer_id=self._own_id, request_id=NO_REQUEST_ID)
            self._told(pb.BaseCommand(type=Type.CLOSE_PRODUCER, close_producer=closed))

    # --- LinkHandler -------------------------------------------------------------------------------------------------

    def on_command(self, command: pb.BaseCommand, payload: bytes | None) -> None:
        match command.type:
            case Type.SEND_RECEIPT:
                command.send_receipt.producer_id = self._own_id
                self._told(command)
            case Type.SEND_ERROR:
                self._on_refusal(command)
            case Type.CLOSE_PRODUCER:
                self.give_up("the broker closed it")

    def on_link_closed(self, error: PeerError) -> None:
        self.give_up(str(error))

    def _on_refusal(self, command: pb.BaseCommand) -> None:
        """Passes a refusal on if another attempt to send the message would be refused, too. After any other error the
        user attaches a new producer and sends the message again (ClientCnx.handleSendError). Java's client also sends
        again what Metadata errors refuse, namely messages that are not encrypted; they would be refused for ever."""
        error = error_of_code(command.send_error.error, command.send_error.message)
        if isinstance(error, (*FATAL, NotAllowed, MetadataFault)):
            command.send_error.producer_id = self._own_id
            self._told(command)
        else:
            self.give_up(str(error))


async def produce_over(link: PeerLink, command: pb.CommandProducer, told: Told) -> LinkProducer:
    """Creates a producer of a topic at the broker of a link. `told` gets the producer's commands with
    `command.producer_id` as id: SEND_RECEIPT, SEND_ERROR, and CLOSE_PRODUCER once, when the broker or the link has
    ended the producer. Raises PulsarError when the broker refuses, and PeerError when it does not answer."""
    if link.state is not LinkState.READY:
        raise PeerUnreachableError(f"the connection to {link.url} is closed")
    producer = LinkProducer(link, told, command.producer_id)
    await producer.create(command)
    return producer
