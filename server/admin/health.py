"""The health check: stores a message in a system topic and reads it back, as a producer and a consumer would.

Source: BrokersBase.internalRunHealthCheck, which uses a client of the broker for it.
"""

import asyncio
import time
from typing import TYPE_CHECKING

from magnetar.storage.managed.append_queue import AddResult
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import PulsarError
from pulsar_proto.ids import Position
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload

if TYPE_CHECKING:
    from magnetar.server.topics.broker_service import BrokerService

HEALTH_TOPIC = TopicName.parse("persistent://pulsar/system/healthcheck")
HEALTH_SECONDS_MAX = 10.0


async def check_health(service: "BrokerService") -> str | None:
    """Returns what prevents a message from being stored and read, or None when nothing does."""
    try:
        async with asyncio.timeout(HEALTH_SECONDS_MAX):
            await _probe(service)
    except TimeoutError:
        return f"Storage did not answer in {HEALTH_SECONDS_MAX:g} s"
    except (PulsarError, ManagedLedgerError) as error:
        return f"Storage does not take messages: {error}"
    return None


async def _probe(service: "BrokerService") -> None:
    topic = await service.get_topic(HEALTH_TOPIC, create=True)
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
