"""Policies of topics as the brokers of a cluster follow and write them. The brokers' clients use a whole server of
ours, which stands for whichever broker owns `__change_events`."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from magnetar.server.config.peer_settings import PeerSettings
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.peers import followed_policies
from magnetar.server.peers.followed_policies import FollowedPolicies
from magnetar.server.peers.peer_client import PeerClient
from magnetar.server.peers.peer_credentials import PeerCredentials
from magnetar.server.policies.policy_events import GLOBAL_PREFIX
from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from magnetar.server.topics.broker_service import BrokerService
from magnetar.server.topics.policy_event_topics import TopicEventLog
from pulsar_proto.errors import ServiceNotReady
from pulsar_proto.names import TopicName
from tests.waiting import until

NAMESPACE = "public/default"
EVENTS = TopicName.parse("persistent://public/default/__change_events")
TOPIC = TopicName.parse("persistent://public/default/topic")
OTHER = TopicName.parse("persistent://public/default/other")


class Bundles:
    """The bundles that one broker owns, as a test decides it."""

    def __init__(self) -> None:
        self.owned: list[BundleName] = []
        self._gained: list[Callable[[BundleName], None]] = []
        self._lost: list[Callable[[BundleName], None]] = []

    def owned_bundles(self) -> list[BundleName]:
        return list(self.owned)

    def on_gained(self, listener: Callable[[BundleName], None]) -> None:
        self._gained.append(listener)

    def on_lost(self, listener: Callable[[BundleName], None]) -> None:
        self._lost.append(listener)

    def gain(self, bundle: BundleName) -> None:
        self.owned.append(bundle)
        for listener in self._gained:
            listener(bundle)

    def lose(self, bundle: BundleName) -> None:
        self.owned.remove(bundle)
        for listener in self._lost:
            listener(bundle)


class BrokerSide:
    """What one broker of the cluster knows of topics' policies."""

    def __init__(self, server: Standalone, seed: int) -> None:
        settings = PeerSettings()
        service: BrokerService = server.service
        self.bundles = Bundles()
        self.changes: list[str] = []
        self.told = asyncio.Event()
        self.client = PeerClient(
            lambda: [server.broker_url], None, settings, PeerCredentials(settings), rng=random.Random(seed)
        )
        self.policies = FollowedPolicies(
            self.client,
            service.metadata,
            service.catalog,
            service.schemas.registry,
            self.bundles,
            cluster="standalone",
            on_change=self._changed,
            rng=random.Random(seed),
        )
        self.policies.start()

    def _changed(self, topic: TopicName) -> None:
        self.changes.append(topic.local_name)
        self.told.set()

    async def close(self) -> None:
        await self.policies.close()
        await self.client.close()


@asynccontextmanager
async def running(folder: Path, sides: int = 2) -> AsyncIterator[tuple[Standalone, list[BrokerSide]]]:
    server = Standalone(StandaloneOptions(data_dir=folder, broker_port=0, web_port=0))
    await server.start()
    made = [BrokerSide(server, index) for index in range(sides)]
    try:
        yield server, made
    finally:
        for side in made:
            await side.close()
        await server.stop()


def limit(producers: int) -> Callable[[dict[str, Any]], None]:
    def change(policies: dict[str, Any]) -> None:
        policies["maxProducerPerTopic"] = producers

    return change


def held(policies: dict[str, Any] | Any) -> int | None:
    value = policies.get("maxProducerPerTopic")
    return None if value is None else int(value)


async def limited(side: BrokerSide, topic: TopicName, producers: int | None) -> None:
    async with asyncio.timeout(10):
        while held(side.policies.merged(topic)) != producers:
            side.told.clear()
            await side.told.wait()


async def test_what_one_broker_writes_all_know_and_the_writer_at_once(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, (one, two)):
        await two.policies.load(NAMESPACE)  # there are no events yet
        await one.policies.update(TOPIC, limit(3))
        assert held(one.policies.get(TOPIC)) == 3
        assert one.changes == ["topic"]
        await limited(two, TOPIC, 3)
        await two.policies.update(TOPIC, limit(4))
        await two.policies.update(OTHER, limit(9), is_global=True)
        assert held(two.policies.get(OTHER, is_global=True)) == 9
        await limited(one, TOPIC, 4)
        await limited(one, OTHER, 9)
        await one.policies.delete(TOPIC)
        assert not one.policies.get(TOPIC)
        await limited(two, TOPIC, None)


async def test_a_load_waits_until_all_events_are_read_also_after_compaction(tmp_path: Path) -> None:
    async with running(tmp_path, 3) as (server, (one, two, three)):
        for number in range(40):
            await one.policies.update(TOPIC, limit(number))
        await two.policies.load(NAMESPACE)
        assert held(two.policies.get(TOPIC)) == 39
        events = await server.service.get_topic(EVENTS, create=False)
        assert events.compaction is not None
        events.compaction.trigger()
        await events.compaction.idle()
        assert events.compaction.horizon is not None
        await one.policies.update(OTHER, limit(1))
        await three.policies.load(NAMESPACE)
        assert (held(three.policies.get(TOPIC)), held(three.policies.get(OTHER))) == (39, 1)


async def test_changes_at_the_same_time_do_not_lose_one_of_them(tmp_path: Path) -> None:
    async with running(tmp_path, 1) as (_, (one,)):

        async def put(key: str) -> None:
            await one.policies.update(TOPIC, lambda policies: policies.update({key: 1}))

        keys = ("maxProducerPerTopic", "maxConsumerPerTopic", "maxSubscriptionsPerTopic", "deduplicationEnabled")
        await asyncio.gather(*map(put, keys[:3]))
        assert {key: one.policies.get(TOPIC).get(key) for key in keys[:3]} == dict.fromkeys(keys[:3], 1)


async def test_an_unload_of_the_events_is_survived_and_nothing_is_missed(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, (one, two)):
        for number in range(5):
            await one.policies.update(TOPIC, limit(number))
            await two.policies.load(NAMESPACE)
            await server.service.unload(await server.service.get_topic(EVENTS, create=False))
        await limited(two, TOPIC, 4)
        assert held(one.policies.get(TOPIC)) == 4


async def test_partitioned_events_are_read_from_all_partitions_and_written_by_key(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, (one, two)):
        assert await server.service.catalog.create_partitioned(EVENTS, 3)
        topics = [TopicName.parse(f"persistent://public/default/t{number}") for number in range(12)]
        for number, topic in enumerate(topics):
            await one.policies.update(topic, limit(number))
            await one.policies.update(topic, limit(number + 100))
        await two.policies.load(NAMESPACE)
        assert [held(two.policies.get(topic)) for topic in topics] == list(range(100, 112))
        counts = [
            (await server.service.get_topic(EVENTS.partition(index), create=False)).ledger.number_of_entries
            for index in range(3)
        ]
        assert sum(counts) == 24
        assert all(counts)


async def test_deleting_the_events_deletes_the_policies_everywhere(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, (one, two)):
        await one.policies.update(TOPIC, limit(3))
        await two.policies.load(NAMESPACE)
        await server.service.delete_topic(EVENTS, force=True)
        await limited(one, TOPIC, None)
        await limited(two, TOPIC, None)
        await two.policies.update(TOPIC, limit(8))
        await limited(one, TOPIC, 8)


async def test_a_namespace_is_followed_from_its_first_bundle_to_its_last(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, (one, two)):
        await one.policies.update(TOPIC, limit(3))
        first, second = BundleName.of(NAMESPACE, 0, 1 << 30), BundleName.of(NAMESPACE, 1 << 30, 1 << 31)
        two.bundles.gain(first)
        two.bundles.gain(second)
        await limited(two, TOPIC, 3)
        two.bundles.lose(first)
        assert held(two.policies.get(TOPIC)) == 3
        two.bundles.lose(second)
        assert not two.policies.get(TOPIC)
        subscriptions = (await server.service.get_topic(EVENTS, create=False)).subscriptions
        await until(lambda: len(subscriptions) <= 1)


async def test_a_namespace_with_bundles_is_followed_on_when_it_is_forgotten(tmp_path: Path) -> None:
    """Its loaded topics have to hear of policies that other brokers write later."""
    async with running(tmp_path) as (_, (one, two)):
        two.bundles.gain(BundleName.of(NAMESPACE, 0, 1 << 30))
        await one.policies.update(TOPIC, limit(3))
        await limited(two, TOPIC, 3)
        two.policies.forget(NAMESPACE)
        await one.policies.update(TOPIC, limit(4))
        await limited(two, TOPIC, 4)


async def test_what_nobody_uses_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_policies, "SWEEP_SECONDS", 0.05)
    async with running(tmp_path) as (server, (one, two)):
        one.bundles.gain(BundleName.of(NAMESPACE, 0, 1 << 30))
        await one.policies.update(TOPIC, limit(3))
        await two.policies.load(NAMESPACE)
        events = await server.service.get_topic(EVENTS, create=False)
        await until(lambda: not events.producers and len(events.subscriptions) == 1)
        assert held(one.policies.get(TOPIC)) == 3
        await one.policies.update(TOPIC, limit(4))
        assert held(one.policies.get(TOPIC)) == 4


async def test_the_system_has_no_policies_of_topics(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, (one, _)):
        for namespace in ("pulsar/system", "pulsar/localhost:8080", "pulsar/standalone/localhost:8080"):
            one.bundles.gain(BundleName(namespace, "0x00000000_0xffffffff"))
            await one.policies.load(namespace)
        assert not await server.service.catalog.topic_exists(
            TopicName.parse("persistent://pulsar/system/__change_events")
        )


async def test_a_load_that_cannot_be_served_tells_the_client_to_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_policies, "LOAD_SECONDS", 0.2)
    async with running(tmp_path, 1) as (_, (one,)):
        await one.policies.update(TOPIC, limit(3))
        one.policies.forget(NAMESPACE)
        one.client._service_urls = lambda: ["pulsar://127.0.0.1:1"]
        await one.client._links.close()
        with pytest.raises(ServiceNotReady, match="not known yet"):
            await one.policies.load(NAMESPACE)


async def test_events_of_apaches_broker_and_of_the_standalone_are_understood(tmp_path: Path) -> None:
    async with running(tmp_path) as (server, (one, _)):
        await server.service.policies.topics.update(TOPIC, limit(7))
        await one.policies.load(NAMESPACE)
        assert held(one.policies.get(TOPIC)) == 7
        server.service.policies.topics.forget(NAMESPACE)
        await one.policies.update(OTHER, limit(2))
        await server.service.policies.topics.load(NAMESPACE)
        assert held(server.service.policies.topics.get(OTHER)) == 2
        vectors = json.loads((Path(__file__).parents[2] / "vectors/topic_policies_events.json").read_text())
        events = TopicEventLog(await server.service.get_topic(EVENTS, create=False))
        expected: dict[str, Any] = {}
        for entry in vectors["entries"]:
            await events.append(bytes.fromhex(entry["hex"]))
            expected[entry["key"]] = {key: value for key, value in entry["policies"].items() if value is not None}
        await one.policies.update(OTHER, limit(5))  # it is read back behind all of them
        for key, policies in expected.items():
            topic = TopicName.parse(key.removeprefix(GLOBAL_PREFIX))
            if topic not in (OTHER,):
                assert one.policies.get(topic, is_global=key.startswith(GLOBAL_PREFIX)) == policies
