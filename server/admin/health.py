"""The health check: stores a message in a system topic and reads it back, as a producer and a consumer would.

A broker of a cluster checks as a client would, so lookup, login and delivery are checked too. A standalone broker has
no client for this, and asks its storage directly. Source: BrokersBase.internalRunHealthCheck.
"""

import asyncio
import time
import uuid
from typing import TYPE_CHECKING

from magnetar.server.peers.peer_errors import PeerError
from magnetar.server.peers.peer_producer import NewMessage
from magnetar.server.peers.read_window_rules import LATEST
from magnetar.storage.managed.append_queue import AddResult
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import PulsarError
from pulsar_proto.ids import Position
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload

if TYPE_CHECKING:
    from magnetar.server.broker.broker import Broker
    from magnetar.server.peers.peer_client import PeerClient

HEALTH_TOPIC = TopicName.parse("persistent://pulsar/system/healthcheck")
"""The topic in which a standalone broker stores the messages of health checks."""
HEALTH_SECONDS_MAX = 10.0


def health_topic(broker: "Broker") -> TopicName:
    """Returns the topic for the check. In a cluster, this topic is in a namespace that only this broker ever owns
    (NamespaceService.getHeartbeatNamespaceV2)."""
    if broker.ownership.is_sole:
        return HEALTH_TOPIC
    return TopicName.parse(f"persistent://pulsar/{broker.broker_id}/healthcheck")


async def check_health(broker: "Broker") -> str | None:
    """Returns what prevents a message from being stored and read, or None when nothing does. The broker remembers the
    outcome for /metrics."""
    fault = await _fault_of(broker)
    broker.health = int(fault is None)
    return fault


async def _fault_of(broker: "Broker") -> str | None:
    try:
        async with asyncio.timeout(HEALTH_SECONDS_MAX):
            if broker.peer_client is None:
                await _probe(broker)
            else:
                await _probe_as_client(broker.peer_client, health_topic(broker))
    except TimeoutError:
        return f"Storage did not answer in {HEALTH_SECONDS_MAX:g} s"
    except (PulsarError, ManagedLedgerError, PeerError) as error:
        return f"Storage does not take messages: {error}"
    return None


async def _probe_as_client(client: "PeerClient", name: TopicName) -> None:
    reader, producer = client.reader(name, start=LATEST, subscription_prefix="healthCheck"), client.producer(name)
    try:
        await reader.attached(HEALTH_SECONDS_MAX)
        sent = uuid.uuid4().bytes
        await producer.send(NewMessage(sent), HEALTH_SECONDS_MAX)
        while (await reader.read(HEALTH_SECONDS_MAX)).value != sent:
            continue  # This message belongs to a check that began at the same time.
    finally:
        await reader.close()
        await producer.close()


async def _probe(broker: "Broker") -> None:
    name, service = health_topic(broker), broker.service
    if not broker.ownership.owns(name):
        await broker.lookups.find_topic(name)
    topic = await service.get_topic(name, create=True)
    stored: asyncio.Future[AddResult] = asyncio.get_running_loop().create_future()

    def done(result: AddResult) -> None:
        if not stored.done():
            stored.set_result(result)

    now_ms = time.time_ns() // 1_000_000
    metadata = pb.MessageMetadata(producer_name="healthcheck", sequence_id=0, publish_time=now_ms)
    topic.ledger.add_entries([build_payload(metadata, b"")], done)
    result = await stored
    if result.error is not None:
        if not result.error.retriable:
            await service.unload(topic)
        raise result.error
    ledger_id, entry_id, _ = result.runs[0]
    await topic.ledger.read(Position(ledger_id, entry_id), 1, 1)
