"""Handles PRODUCER and CLOSE_PRODUCER.

Sources: ServerCnx.handleProducer, handleCloseProducer.
"""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any

from magnetar.server.protocol.pending_creations import PendingCreation
from magnetar.server.protocol.topic_names import topic_name
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import producer_success_frame, success_frame

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection
    from magnetar.server.topics.publishing.producer import Producer


def create_producer(cnx: "Connection", command: pb.CommandProducer) -> Coroutine[Any, Any, None] | None:
    """Adds a producer to a topic. For a producer id that is in use, PRODUCER_SUCCESS is answered again, because the
    client gave up waiting for the first answer. Raises ServiceNotReady for an id whose producer is still being
    created."""
    name = topic_name(command.topic)
    existing = cnx.producers.get(command.producer_id)
    if existing is not None:
        cnx.write(_success(command.request_id, existing))
        return None
    return _create(cnx, command, name, cnx.pending_producers.begin(command.producer_id))


async def _create(cnx: "Connection", command: pb.CommandProducer, name: TopicName, creation: PendingCreation) -> None:
    if command.producer_access_mode == pb.WaitForExclusive:
        creation.waiting = asyncio.current_task()
    producer = await cnx.pending_producers.finish(
        command.producer_id,
        creation,
        cnx.broker.service.get_for_client(name),
        lambda topic: topic.add_producer(cnx, command),
        cnx.remote_address,
    )
    if producer is not None:
        cnx.producers[command.producer_id] = producer
        cnx.recently_closed.discard(command.producer_id)
        cnx.write(_success(command.request_id, producer))


def _success(request_id: int, producer: "Producer") -> bytes:
    return producer_success_frame(
        request_id,
        producer.name,
        last_sequence_id=producer.last_sequence_id,
        schema_version=producer.schema_version,
        topic_epoch=producer.topic_epoch,
    )


def close_producer(cnx: "Connection", command: pb.CommandCloseProducer) -> Coroutine[Any, Any, None] | None:
    """Closes a producer, and answers SUCCESS even if there is no such producer. When the producer is still being
    created, the creation is abandoned, and its PRODUCER is never answered."""
    cnx.pending_producers.abandon(command.producer_id)
    producer = cnx.producers.pop(command.producer_id, None)
    closing = producer.close() if producer is not None else None
    if closing is None:
        cnx.write(success_frame(command.request_id))
        return None
    return _when_closed(cnx, closing, command.request_id)


async def _when_closed(cnx: "Connection", closing: Awaitable[None], request_id: int) -> None:
    await closing
    cnx.write(success_frame(request_id))
