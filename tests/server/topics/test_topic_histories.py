"""Several callers create, delete and only look up one topic at the same time, over a metadata store that is some time
away.

Claims: who only looks creates nothing; who may create gets a topic; and once everything is quiet, a topic is loaded
only if its record is there.
"""

import asyncio
import contextlib
import random

import pytest

from magnetar.metadata import paths
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.topics.topic_deletion import TopicBusy
from pulsar_proto.errors import PulsarError, ServiceNotReady, TopicNotFound
from tests.server.topics.broker_scene import NAME, Broker, make_broker
from tests.server.topics.scene import in_virtual_time, pass_time, settle
from tests.storage.ledger.distant_store import DistantStore


async def distant_broker(seed: int) -> tuple[Broker, random.Random]:
    rng = random.Random(seed)
    near = MemoryStore()
    await near.create(paths.policies_path(NAME.namespace), b"{}", make_parents=True)
    return Broker(DistantStore(near, lambda: rng.choice((0.0, 0.001, 0.1)))), rng


async def is_stored(broker: Broker) -> bool:
    return await broker.factory.exists(NAME.managed_ledger_name)


async def look(broker: Broker, delay_s: float) -> None:
    await pass_time(delay_s)
    with contextlib.suppress(TopicNotFound, ServiceNotReady):
        await broker.service.get_any(NAME, create=False)


async def delete(broker: Broker, delay_s: float) -> bool:
    """Returns whether this call deleted the topic."""
    await pass_time(delay_s)
    with contextlib.suppress(PulsarError, TopicBusy):
        await broker.service.delete_topic(NAME, force=True)
        return True
    return False


async def create(broker: Broker, delay_s: float) -> None:
    await pass_time(delay_s)
    assert (await broker.service.get_topic(NAME, create=True)).name == NAME


@pytest.mark.parametrize("seed", range(60))
def test_a_deleted_topic_does_not_come_back_by_calls_that_only_look(seed: int) -> None:
    @in_virtual_time
    async def history() -> None:
        broker, rng = await distant_broker(seed)
        await broker.service.get_topic(NAME, create=True)
        if rng.random() < 0.5:
            await broker.service.unload(broker.service.topics[NAME.full])
        looks = [look(broker, rng.random()) for _ in range(12)]
        deleted, *_ = await asyncio.gather(delete(broker, rng.random() / 2), *looks)
        await pass_time(10)
        assert deleted
        assert not await is_stored(broker)
        assert broker.service.loaded(NAME) is None

    history()


@pytest.mark.parametrize("seed", range(60))
def test_who_may_create_a_topic_gets_it_whoever_else_looks_or_deletes(seed: int) -> None:
    @in_virtual_time
    async def history() -> None:
        broker, rng = await distant_broker(seed)
        work = [each(broker, rng.random()) for each in (create, look, delete, look, create, delete) * 2]
        await asyncio.gather(*work)
        await pass_time(10)
        assert broker.service.loaded(NAME) is None or await is_stored(broker)

    history()


async def test_a_load_of_one_who_only_looks_does_not_refuse_one_who_creates() -> None:
    broker = await make_broker()
    name = paths.managed_ledger_path(NAME.managed_ledger_name)
    await broker.store.create(name, make_parents=True)
    broker.factory.gate = asyncio.Event()
    looking = asyncio.ensure_future(broker.service.get_topic(NAME, create=False))
    await settle()
    assert broker.factory.opened
    creating = asyncio.ensure_future(broker.service.get_topic(NAME, create=True))
    await broker.store.delete(name)
    broker.factory.gate.set()
    with pytest.raises(TopicNotFound):
        await looking
    assert (await creating).is_open
