"""A consumer of a topic at one broker, over one link. It ends with the link, or when the broker closes it; the code
that uses it then subscribes anew, at the topic's next owner.

In contrast to a `PeerReader`, the caller decides everything: the SUBSCRIBE command, the acknowledgements, and what
happens after a loss. The methods are those of the consumers that topics of this broker have.
"""

import logging
from collections.abc import Callable

from magnetar.server.peers.entry_messages_rules import message_count
from magnetar.server.peers.peer_errors import PeerError, PeerUnreachableError
from magnetar.server.peers.peer_link import LinkState, PeerLink
from magnetar.server.peers.permit_rules import ConsumerPermits
from pulsar_proto.errors import MalformedFrame, ServiceNotReady
from pulsar_proto.ids import NO_REQUEST_ID
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import simple_frame

log = logging.getLogger(__name__)

SUBSCRIBE_SECONDS = 30.0
"""The deadline of SUBSCRIBE, for which the broker may have to load the topic, and of UNSUBSCRIBE."""

ENTRY_MESSAGES_MAX = 65_536
"""An entry that claims to hold more messages uses up this many permits, as `outgoing_messages.py` of the topics
counts."""
U64_MAX = (1 << 64) - 1

Type = pb.BaseCommand
Told = Callable[[pb.BaseCommand, bytes | None], None]


class LinkConsumer:
    """One consumer. `subscribe_over` makes a LinkConsumer. Implements `peer_link.LinkHandler`."""

    def __init__(self, link: PeerLink, command: pb.CommandSubscribe, told: Told) -> None:
        self.is_closed = False
        """Whether the broker has closed the consumer, or the link is lost, or `close` was called."""
        self.blocked = False
        """Always False, because a broker does not tell a consumer that it holds too many unacknowledged messages."""
        self._link = link
        self._told = told
        self._own_id = command.consumer_id
        """The consumer's id in the commands for the user. On the link the consumer has another id."""
        self._is_subscribed = False
        self._permits = ConsumerPermits()
        self._epoch: int | None = None
        """How often all messages were asked for again, on subscriptions that keep an order. The broker marks messages
        with the epoch, so that messages of an earlier epoch, which are delivered again, can be dropped (PIP-84)."""
        if command.subType in (pb.CommandSubscribe.Exclusive, pb.CommandSubscribe.Failover):
            self._epoch = 0
        self._id = link.attach_consumer(self)

    async def subscribe(self, command: pb.CommandSubscribe) -> None:
        """Creates the consumer at the broker. Raises the errors of `subscribe_over`."""
        asked = pb.CommandSubscribe()
        asked.CopyFrom(command)
        asked.consumer_id = self._id
        if self._epoch is not None:
            asked.consumer_epoch = self._epoch
        try:
            await self._link.request(
                pb.BaseCommand(type=Type.SUBSCRIBE, subscribe=asked), "subscribe", SUBSCRIBE_SECONDS
            )
        except BaseException:
            self.close()  # the broker may make the consumer after this attempt
            raise
        if self.is_closed:
            raise PeerUnreachableError(f"{self._link.url} closed the consumer at once")
        self._is_subscribed = True

    # --- commands ----------------------------------------------------------------------------------------------------

    @property
    def permits(self) -> int:
        """Returns how many messages the broker may still send."""
        return self._permits.permits

    def flow(self, permits: int) -> None:
        """Gives the broker permits for further messages. When so many messages would take too many bytes, the broker
        gets fewer permits."""
        more = self._permits.grant(permits)
        if more and not self.is_closed:
            flow = pb.CommandFlow(consumer_id=self._id, messagePermits=more)
            self._link.send(simple_frame(pb.BaseCommand(type=Type.FLOW, flow=flow)))

    def ack(self, command: pb.CommandAck) -> None:
        """Acknowledges messages, without waiting for the broker."""
        if not self.is_closed:
            command.consumer_id = self._id
            self._link.send(simple_frame(pb.BaseCommand(type=Type.ACK, ack=command)))

    def redeliver(self, command: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        """Makes the broker deliver the listed entries again, or all that are unacknowledged."""
        if self.is_closed:
            return
        command.consumer_id = self._id
        if self._epoch is not None:
            self._epoch += 1
            command.consumer_epoch = self._epoch
        kind = Type.REDELIVER_UNACKNOWLEDGED_MESSAGES
        self._link.send(simple_frame(pb.BaseCommand(type=kind, redeliverUnacknowledgedMessages=command)))

    async def unsubscribe(self) -> None:
        """Deletes the subscription. Raises PulsarError when the broker refuses that or does not answer."""
        command = pb.BaseCommand(type=Type.UNSUBSCRIBE, unsubscribe=pb.CommandUnsubscribe(consumer_id=self._id))
        try:
            await self._link.request(command, "unsubscribe", SUBSCRIBE_SECONDS)
        except PeerError as error:
            raise ServiceNotReady(f"the subscription may not be deleted: {error}") from error

    def close(self) -> None:
        """Closes the consumer at the broker, without waiting for the answer. A second call has no further effect."""
        if self.is_closed:
            return
        self.is_closed = True
        self._link.detach(self._id)
        close = pb.CommandCloseConsumer(consumer_id=self._id, request_id=NO_REQUEST_ID)
        self._link.send(simple_frame(pb.BaseCommand(type=Type.CLOSE_CONSUMER, close_consumer=close)))

    def give_up(self, why: str) -> None:
        """Closes the consumer, and tells its user of the end as a topic of this broker does, by CLOSE_CONSUMER."""
        if self.is_closed:
            return
        self.close()
        if self._is_subscribed:
            log.info("a consumer at %s has ended: %s", self._link.url, why)
            closed = pb.CommandCloseConsumer(consumer_id=self._own_id, request_id=NO_REQUEST_ID)
            self._told(pb.BaseCommand(type=Type.CLOSE_CONSUMER, close_consumer=closed), None)

    # --- LinkHandler -------------------------------------------------------------------------------------------------

    def on_command(self, command: pb.BaseCommand, payload: bytes | None) -> None:
        match command.type:
            case Type.MESSAGE if payload is not None:
                self._on_message(command, payload)
            case Type.CLOSE_CONSUMER:
                self.give_up("the broker closed it")
            case Type.REACHED_END_OF_TOPIC:
                command.reachedEndOfTopic.consumer_id = self._own_id
                self._told(command, None)

    def on_link_closed(self, error: PeerError) -> None:
        self.give_up(str(error))

    def _on_message(self, command: pb.BaseCommand, payload: bytes) -> None:
        message = command.message
        self._permits.received(_permits_of(message, payload), len(payload))
        if self._epoch and message.HasField("consumer_epoch") and message.consumer_epoch < self._epoch:
            return  # the broker sends this message again
        message.consumer_id = self._own_id
        self._told(command, payload)


def _permits_of(message: pb.CommandMessage, payload: bytes) -> int:
    """Returns how many permits the broker has used for an entry: one for each message that is to be consumed."""
    if message.ack_set:
        return max(1, sum((word & U64_MAX).bit_count() for word in message.ack_set))
    try:
        return min(message_count(payload), ENTRY_MESSAGES_MAX)
    except MalformedFrame:
        return 1  # the receiver reports the fault of this entry


async def subscribe_over(link: PeerLink, command: pb.CommandSubscribe, told: Told) -> LinkConsumer:
    """Subscribes to a topic at the broker of a link. `told` gets the consumer's commands with `command.consumer_id` as
    id: MESSAGE with its payload, REACHED_END_OF_TOPIC, and CLOSE_CONSUMER once, when the broker or the link has ended
    the consumer. Raises PulsarError when the broker refuses, and PeerError when it does not answer."""
    if link.state is not LinkState.READY:
        raise PeerUnreachableError(f"the connection to {link.url} is closed")
    consumer = LinkConsumer(link, command, told)
    await consumer.subscribe(command)
    return consumer
