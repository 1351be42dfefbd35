"""PRODUCER and CLOSE_PRODUCER.

Sources: ServerCnx.handleProducer, handleCloseProducer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any

from magnetar.server.protocol.pending_creation import PendingCreation
from magnetar.server.protocol.topic_names import topic_name
from pulsar_proto.errors import ServiceNotReady
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import producer_success_frame, success_frame

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection
    from magnetar.server.topics.publishing.producer import Producer

log = logging.getLogger(__name__)


def create_producer(cnx: "Connection", command: pb.CommandProducer) -> Coroutine[Any, Any, None] | None:
    """A producer id that is in use answers success again (a client that gave up waiting), one that is still pending
    ServiceNotReady."""
    name = topic_name(command.topic)
    producer_id = command.producer_id
    if producer_id in cnx.pending_producers:
        raise ServiceNotReady("Producer is already present on the connection")
    existing = cnx.producers.get(producer_id)
    if existing is not None:
        cnx.write(_success(command.request_id, existing))
        return None
    pending = cnx.pending_producers[producer_id] = PendingCreation()
    return _create(cnx, command, name, pending)


async def _create(cnx: "Connection", command: pb.CommandProducer, name: TopicName, pending: PendingCreation) -> None:
    if command.producer_access_mode == pb.WaitForExclusive:
        pending.waiting = asyncio.current_task()
    try:
        topic = await cnx.broker.service.get_for_client(name)
        if pending.abandoned:
            return
        producer = await topic.add_producer(cnx, command)
    except Exception:
        if pending.abandoned:
            return  # the client was told that it is closed, or is gone
        raise
    finally:
        if cnx.pending_producers.get(command.producer_id) is pending:
            del cnx.pending_producers[command.producer_id]
    if pending.abandoned:
        log.info("%s: producer %d was closed while it was created", cnx.remote_address, command.producer_id)
        producer.close()
        return
    if producer.is_closed:
        raise ServiceNotReady("The topic closed the producer while it was created")
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
    """SUCCESS always; a creation that is under way is abandoned, and its PRODUCER never answered."""
    pending = cnx.pending_producers.pop(command.producer_id, None)
    if pending is not None:
        pending.abandon()
    producer = cnx.producers.pop(command.producer_id, None)
    closing = producer.close() if producer is not None else None
    if closing is None:
        cnx.write(success_frame(command.request_id))
        return None
    return _when_closed(cnx, closing, command.request_id)


async def _when_closed(cnx: "Connection", closing: Awaitable[None], request_id: int) -> None:
    await closing
    cnx.write(success_frame(request_id))
