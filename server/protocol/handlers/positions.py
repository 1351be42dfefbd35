"""Handles SEEK, by which a consumer moves its subscription in the topic, GET_LAST_MESSAGE_ID and CONSUMER_STATS.

Sources: ServerCnx.handleSeek, handleGetLastMessageId, handleConsumerStats; Commands.newGetLastMessageIdResponse.
"""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from magnetar.server.stats.traffic_stats import client_consumer_stats
from pulsar_proto.errors import ConsumerNotFound, MetadataFault, UnknownFault
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import last_message_id_frame, simple_frame, success_frame

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection
    from magnetar.server.topics.subscriptions.consumer import Consumer


def seek(cnx: "Connection", command: pb.CommandSeek) -> Coroutine[Any, Any, None]:
    """Moves the consumer's subscription to a message or a time. Raises MetadataFault for an unknown consumer, and for a
    command that names neither a message nor a time."""
    if not command.HasField("message_id") and not command.HasField("message_publish_time"):
        raise MetadataFault("Message id and message publish time were not present")
    return _seek(cnx, _consumer(cnx, command.consumer_id), command)


async def _seek(cnx: "Connection", consumer: "Consumer", command: pb.CommandSeek) -> None:
    """Moves the subscription and answers SUCCESS. The subscription first closes its consumers (CLOSE_CONSUMER). Raises
    UnknownFault for any failure, because Apache's broker answers UnknownError."""
    try:
        await consumer.seek(command)
    except Exception as error:
        by_id = command.HasField("message_id")
        what = "Error when resetting subscription" if by_id else "Reset subscription to publish time error"
        raise UnknownFault(f"{what}: {error}") from error
    cnx.write(success_frame(command.request_id))


def get_last_message_id(cnx: "Connection", command: pb.CommandGetLastMessageId) -> Coroutine[Any, Any, None]:
    """Answers with the id of the topic's last message and the mark-delete position of the consumer's subscription.
    Raises MetadataFault for an unknown consumer."""
    return _get_last_message_id(cnx, _consumer(cnx, command.consumer_id), command)


async def _get_last_message_id(cnx: "Connection", consumer: "Consumer", command: pb.CommandGetLastMessageId) -> None:
    last, partition, batch_index, mark_delete = await consumer.last_message_id()
    cnx.write(last_message_id_frame(command.request_id, last, partition, batch_index, mark_delete))


def _consumer(cnx: "Connection", consumer_id: int) -> "Consumer":
    consumer = cnx.consumers.get(consumer_id)
    if consumer is None:
        raise MetadataFault("Consumer not found")
    return consumer


def consumer_stats(cnx: "Connection", command: pb.CommandConsumerStats) -> None:
    """Answers with the statistics of a consumer. Raises ConsumerNotFound for a consumer that is unknown or still being
    created. For an unknown consumer, Apache's broker closes the connection, which is a fault of that broker
    (ServerCnx.handleConsumerStats)."""
    consumer = cnx.consumers.get(command.consumer_id)
    if consumer is None:
        raise ConsumerNotFound(f"Consumer {command.consumer_id} not found")
    stats: dict[str, Any] = dict(client_consumer_stats(consumer))
    answer = pb.CommandConsumerStatsResponse(request_id=command.request_id, **stats)
    cnx.write(_consumer_stats_frame(answer))


def refuse_consumer_stats(command: pb.CommandConsumerStats, code: pb.ServerError.ValueType, text: str) -> bytes:
    return _consumer_stats_frame(
        pb.CommandConsumerStatsResponse(request_id=command.request_id, error_code=code, error_message=text)
    )


def _consumer_stats_frame(answer: pb.CommandConsumerStatsResponse) -> bytes:
    return simple_frame(pb.BaseCommand(type=pb.BaseCommand.CONSUMER_STATS_RESPONSE, consumerStatsResponse=answer))
