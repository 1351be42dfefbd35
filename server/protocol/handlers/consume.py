"""Handles SUBSCRIBE and the commands of a subscribed consumer: FLOW, ACK, REDELIVER, UNSUBSCRIBE, CLOSE_CONSUMER.

Sources: ServerCnx.handleSubscribe, handleFlow, handleAck, handleRedeliverUnacknowledged, handleUnsubscribe,
handleCloseConsumer.
"""

from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from magnetar.server.namespaces.topic_catalog import NAMESPACE_NOT_FOUND
from magnetar.server.protocol.pending_creations import PendingCreation
from magnetar.server.protocol.topic_names import topic_name
from pulsar_proto.errors import ConsumerNotFound, MalformedFrame, MetadataFault, TopicNotFound
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import ack_refused_frame, success_frame
from pulsar_proto.wire.frame_encoders import ack_response_frame, ack_response_frames
from pulsar_proto.wire.plain_ack import AcksInTransaction

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection
    from magnetar.server.topics.base_topic import BaseTopic
    from magnetar.server.topics.subscriptions.consumer import Consumer

I32_MAX = 2**31 - 1

METADATA_BYTES_MAX = 1024
"""The largest size of a consumer's metadata, all keys and values together (CommandUtils.metadataFromCommand)."""


def subscribe(cnx: "Connection", command: pb.CommandSubscribe) -> Coroutine[Any, Any, None] | None:
    """Attaches a consumer to a subscription. For a consumer id that is in use, SUCCESS is answered again. Raises
    ServiceNotReady for an id whose consumer is still being created, and MetadataFault for too much metadata."""
    name = topic_name(command.topic)
    if sum(len(pair.key.encode()) + len(pair.value.encode()) for pair in command.metadata) > METADATA_BYTES_MAX:
        raise MetadataFault(f"Consumer metadata is larger than {METADATA_BYTES_MAX} bytes")
    if command.consumer_id in cnx.consumers:
        cnx.write(success_frame(command.request_id))
        return None
    return _subscribe(cnx, command, name, cnx.pending_consumers.begin(command.consumer_id))


async def _subscribe(
    cnx: "Connection", command: pb.CommandSubscribe, name: TopicName, creation: PendingCreation
) -> None:
    consumer = await cnx.pending_consumers.finish(
        command.consumer_id,
        creation,
        _topic_to_subscribe(cnx, command, name),
        partial(_attach, cnx, command),
        cnx.remote_address,
    )
    if consumer is not None:
        cnx.consumers[command.consumer_id] = consumer
        cnx.write(success_frame(command.request_id))


def _attach(cnx: "Connection", command: pb.CommandSubscribe, topic: "BaseTopic") -> Coroutine[Any, Any, "Consumer"]:
    return topic.subscribe(cnx, command)


async def _topic_to_subscribe(cnx: "Connection", command: pb.CommandSubscribe, name: TopicName) -> "BaseTopic":
    """Returns the topic to which a SUBSCRIBE refers. Raises TopicNotFound with the text of ServerCnx.handleSubscribe
    when the topic does not exist and may not be created."""
    try:
        return await cnx.broker.service.get_for_client(name, create=command.force_topic_creation)
    except TopicNotFound as error:
        if str(error) == NAMESPACE_NOT_FOUND:
            raise
        raise TopicNotFound(f"Topic {name.full} does not exist") from error


def flow(cnx: "Connection", command: pb.CommandFlow) -> None:
    """Gives permits to a consumer. A FLOW for an unknown consumer is ignored. Raises MalformedFrame for permits that
    are not positive (Consumer.flowPermits)."""
    permits = command.messagePermits
    if not 0 < permits <= I32_MAX:
        raise MalformedFrame(f"FLOW of {permits} permits")
    consumer = cnx.consumers.get(command.consumer_id)
    if consumer is not None:
        consumer.flow(permits)


def ack(cnx: "Connection", command: pb.CommandAck) -> Awaitable[None] | None:
    """Acknowledges messages, and answers ACK_RESPONSE when the acknowledgement is durable. An ACK without a request id
    has no answer. Raises ConsumerNotFound when another one names a consumer that is unknown or still being created:
    Java's client sends such ones while it connects anew, and a transaction would wait for the answer until its client
    gives up, half a minute later."""
    consumer = cnx.consumers.get(command.consumer_id)
    if consumer is None:
        if not command.HasField("request_id"):
            return None
        raise ConsumerNotFound(f"Consumer {command.consumer_id} not found")
    durable = consumer.ack(command)
    if not command.HasField("request_id"):
        return None
    if durable is None:
        answer_ack(cnx, command)
    return durable


def answer_ack(cnx: "Connection", command: pb.CommandAck | AcksInTransaction, result: None = None) -> None:
    if isinstance(command, AcksInTransaction):
        cnx.write(ack_response_frames(command.consumer_id, command.request_ids))
    else:
        cnx.write(ack_response_frame(command.consumer_id, command.request_id))


def refuse_ack(command: pb.CommandAck | AcksInTransaction, code: pb.ServerError.ValueType, text: str) -> bytes:
    """Returns ACK_RESPONSE with the error, or no bytes for an ACK without a request id, because its client wants no
    answer."""
    if isinstance(command, AcksInTransaction):
        return b"".join(ack_refused_frame(command.consumer_id, each, code, text) for each in command.request_ids)
    if not command.HasField("request_id"):
        return b""
    return ack_refused_frame(command.consumer_id, command.request_id, code, text)


def redeliver(cnx: "Connection", command: pb.CommandRedeliverUnacknowledgedMessages) -> None:
    """Makes the subscription deliver messages again. The command is ignored for an unknown consumer, because it has no
    answer."""
    consumer = cnx.consumers.get(command.consumer_id)
    if consumer is not None:
        consumer.redeliver(command)


def unsubscribe(cnx: "Connection", command: pb.CommandUnsubscribe) -> Coroutine[Any, Any, None]:
    """Deletes the consumer's subscription. Raises MetadataFault for an unknown consumer."""
    consumer = cnx.consumers.get(command.consumer_id)
    if consumer is None:
        raise MetadataFault("Consumer not found")
    return _unsubscribe(cnx, consumer, command)


async def _unsubscribe(cnx: "Connection", consumer: "Consumer", command: pb.CommandUnsubscribe) -> None:
    await consumer.unsubscribe(command.force)
    if cnx.consumers.get(command.consumer_id) is consumer:
        del cnx.consumers[command.consumer_id]
    cnx.write(success_frame(command.request_id))


def close_consumer(cnx: "Connection", command: pb.CommandCloseConsumer) -> None:
    """Closes a consumer, and answers SUCCESS even if there is no such consumer. When the consumer is still being
    created, the creation is abandoned, and its SUBSCRIBE is never answered."""
    cnx.pending_consumers.abandon(command.consumer_id)
    consumer = cnx.consumers.pop(command.consumer_id, None)
    if consumer is not None:
        consumer.close()
    cnx.write(success_frame(command.request_id))
