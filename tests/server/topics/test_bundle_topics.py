"""A broker serves the topics of its own bundles only, and lets go of them when it loses a bundle or gives it away."""

import asyncio
import json

import pytest

from magnetar.metadata import paths
from magnetar.server.namespaces.broker_addresses import BundleOwner
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.topics import bundle_topics
from magnetar.server.topics.topic import Topic
from pulsar_proto.errors import MetadataFault, ServiceNotReady
from pulsar_proto.names import TopicName
from tests.server.topics.cluster_scene import NAMESPACE, NP, T0, Broker, cluster
from tests.server.topics.scene import FakeConnection, settle
from tests.waiting import until


async def steal(victim: Broker, thief: Broker, bundle: BundleName) -> None:
    """Makes `thief` the owner, as after the end of the victim's session."""
    path = paths.bundle_owner_path(bundle.namespace, bundle.range)
    await victim.tree.delete(path)
    value = BundleOwner(thief.ownership.addresses).value()
    await thief.tree.create(path, value, ephemeral=True, make_parents=True)


class TestLoading:
    @pytest.mark.parametrize("topic", [T0, NP], ids=str)
    async def test_only_the_owner_serves_a_topic(self, topic: TopicName) -> None:
        owner, other = await cluster()
        bundle = await owner.take(topic)
        await owner.produce(FakeConnection(), topic)
        with pytest.raises(ServiceNotReady) as refused:
            await other.produce(FakeConnection(), topic)
        assert str(refused.value) == (
            f"Namespace bundle ({bundle}) for topic ({topic.full}) not served by this instance:h1:8080. "
            "Please redo the lookup."
        )
        assert other.service.all_topics == []
        assert other.factory.opened == []

    async def test_nobody_serves_what_nobody_owns(self) -> None:
        (broker,) = await cluster(1)
        for topic in (T0, NP):
            with pytest.raises(ServiceNotReady, match="not served by this instance"):
                await broker.produce(FakeConnection(), topic)

    async def test_a_bundle_that_is_lost_while_a_topic_is_loaded_is_not_served(self) -> None:
        owner, other = await cluster()
        bundle = await owner.take()
        owner.factory.gate = asyncio.Event()
        loading = asyncio.ensure_future(owner.produce(FakeConnection()))
        await until(lambda: bool(owner.factory.opened))
        await steal(owner, other, bundle)
        await until(lambda: not owner.ownership.owned_bundles())
        owner.factory.gate.set()
        with pytest.raises(ServiceNotReady, match="not served by this instance"):
            await loading
        assert owner.service.all_topics == []
        assert owner.factory.closed == [T0.managed_ledger_name]

    async def test_a_new_owner_loads_the_topics_ahead(self) -> None:
        (broker,) = await cluster(1)
        names = [TopicName.parse(f"persistent://{NAMESPACE}/p{number}") for number in range(40)]
        for name in names:
            await broker.tree.create(paths.managed_ledger_path(name.managed_ledger_name), make_parents=True)
        bundle = await broker.take()
        wanted = {name.full for name in names if await broker.ownership.bundle_of(name) == bundle}
        broker.service.in_bundles.preload(bundle)
        await until(lambda: set(broker.service.topics) == wanted)
        assert 0 < len(wanted) < len(names)

    async def test_the_topics_of_a_large_namespace_are_not_loaded_ahead(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("INFO")
        monkeypatch.setattr(bundle_topics, "PRELOADED_NAMESPACE_TOPICS_MAX", 39)
        (broker,) = await cluster(1)
        for number in range(40):
            name = TopicName.parse(f"persistent://{NAMESPACE}/p{number}")
            await broker.tree.create(paths.managed_ledger_path(name.managed_ledger_name), make_parents=True)
        broker.service.in_bundles.preload(await broker.take())
        await until(lambda: "because the namespace has many" in caplog.text)
        assert broker.service.topics == {}


class TestLosing:
    async def test_clients_of_a_lost_bundle_are_sent_to_look_up_again(self) -> None:
        owner, other = await cluster()
        bundle = await owner.take()
        producer, consumer = FakeConnection(), FakeConnection()
        await owner.produce(producer)
        await owner.consume(consumer)
        await steal(owner, other, bundle)
        await until(lambda: bool(producer.kinds and consumer.kinds))
        assert (producer.kinds, consumer.kinds) == (["CLOSE_PRODUCER"], ["CLOSE_CONSUMER"])
        await until(lambda: bool(owner.factory.closed))
        assert owner.service.all_topics == []

    @pytest.mark.parametrize("topic", [T0, NP], ids=str)
    async def test_a_topic_with_consumers_only_is_closed_too(self, topic: TopicName) -> None:
        owner, other = await cluster()
        bundle = await owner.take(topic)
        consumer = FakeConnection()
        await owner.consume(consumer, topic)
        await steal(owner, other, bundle)
        await until(lambda: consumer.kinds == ["CLOSE_CONSUMER"])
        await until(lambda: not owner.service.all_topics)

    async def test_topics_of_other_bundles_stay(self) -> None:
        owner, other = await cluster()
        bundle = await owner.take()
        names = [TopicName.parse(f"persistent://{NAMESPACE}/k{number}") for number in range(100)]
        bundles = await owner.ownership.bundles.get(NAMESPACE)
        kept = next(name for name in names if bundles.of_topic(name.full) != bundle)
        await owner.take(kept)
        cnx = FakeConnection()
        await owner.produce(cnx, kept)
        await owner.produce(FakeConnection())
        await steal(owner, other, bundle)
        await until(lambda: list(owner.service.topics) == [kept.full])
        await settle()
        assert cnx.kinds == []


class TestUnloading:
    async def test_the_topics_are_closed_before_the_lock_goes(self) -> None:
        owner, other = await cluster()
        bundle = await owner.take()
        path = paths.bundle_owner_path(bundle.namespace, bundle.range)
        cnx = FakeConnection()
        await owner.produce(cnx)
        order: list[str] = []
        closing = asyncio.Event()
        close_ledger = owner.factory.close_ledger

        async def close_slowly(topic: Topic) -> None:
            await closing.wait()
            await close_ledger(topic.name.managed_ledger_name)
            order.append("closed")

        owner.service.topics[T0.full]._close_ledger = close_slowly
        other.tree.watch(path, lambda event: order.append(event.type.value))
        unloading = asyncio.ensure_future(owner.service.moves.unload(bundle))
        await until(lambda: cnx.kinds == ["CLOSE_PRODUCER"])
        with pytest.raises(ServiceNotReady, match=f"Namespace is being unloaded, cannot add topic {T0.full}"):
            await owner.produce(FakeConnection())
        with pytest.raises(MetadataFault, match=f"Namespace bundle {bundle} is being unloaded"):
            await owner.ownership.owner_of(bundle)
        assert await other.ownership.owner_of(bundle) == owner.ownership.addresses
        closing.set()
        assert await unloading
        assert order == ["closed", "deleted"]
        assert await other.ownership.owner_of(bundle) is None
        assert not await owner.service.moves.unload(bundle)

    async def test_clients_that_come_too_early_wait_for_the_end(self) -> None:
        owner, _ = await cluster()
        bundle = await owner.take()
        await owner.produce(FakeConnection())
        owner.ownership.departures.wait_seconds_max = 60.0
        closing = asyncio.Event()

        async def close(_: Topic) -> None:
            await closing.wait()

        owner.service.topics[T0.full]._close_ledger = close
        unloading = asyncio.ensure_future(owner.service.moves.unload(bundle))
        await until(lambda: not owner.service.topics)
        early = [asyncio.ensure_future(owner.produce(FakeConnection(), topic)) for topic in (T0, T0)]
        await settle()
        assert not any(each.done() for each in early)
        closing.set()
        assert await unloading
        for each in early:
            with pytest.raises(ServiceNotReady, match="Please redo the lookup"):
                await each

    async def test_two_unloads_at_once_are_one(self) -> None:
        (owner,) = await cluster(1)
        bundle = await owner.take()
        await owner.produce(FakeConnection())
        assert sorted(await asyncio.gather(*(owner.service.moves.unload(bundle) for _ in range(2)))) == [False, True]
        assert owner.factory.closed == [T0.managed_ledger_name]

    async def test_a_caller_that_goes_away_does_not_stop_it(self) -> None:
        owner, other = await cluster()
        bundle = await owner.take()
        await owner.produce(FakeConnection())
        calling = asyncio.ensure_future(owner.service.moves.unload(bundle))
        await settle(1)
        calling.cancel()
        await until(lambda: not owner.ownership.owned_bundles())
        await other.take()

    async def test_a_topic_that_does_not_close_holds_nobody_up_for_longer_than_the_deadline(self) -> None:
        owner, other = await cluster(namespace_bundle_unloading_timeout_ms=50)
        bundle = await owner.take()
        await owner.produce(FakeConnection())

        async def never(_: Topic) -> None:
            await asyncio.Event().wait()

        owner.service.topics[T0.full]._close_ledger = never
        assert await owner.service.moves.unload(bundle)
        assert owner.service.topics == {}
        await other.take()

    async def test_a_load_that_is_under_way_is_waited_for_and_its_topic_closed(self) -> None:
        (owner,) = await cluster(1)
        bundle = await owner.take()
        owner.factory.gate = asyncio.Event()
        loading = asyncio.ensure_future(owner.produce(FakeConnection()))
        await until(lambda: bool(owner.factory.opened))
        unloading = asyncio.ensure_future(owner.service.moves.unload(bundle))
        await settle()
        assert not unloading.done()
        owner.factory.gate.set()
        assert await unloading
        with pytest.raises(ServiceNotReady, match="is being unloaded"):
            await loading
        assert owner.factory.closed == [T0.managed_ledger_name]

    async def test_a_thousand_topics_are_unloaded_together(self) -> None:
        """Closing one topic takes a while, which many topics share."""
        owner, _ = await cluster()
        bundle = await owner.take()
        names = [TopicName.parse(f"persistent://{NAMESPACE}/m{number}") for number in range(4000)]
        mine = [name for name in names if await owner.ownership.bundle_of(name) == bundle][:1000]
        await asyncio.gather(*(owner.produce(FakeConnection(), name) for name in mine[:900]))
        at_once, most = 0, 0

        async def close(_: Topic) -> None:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await settle(3)
            at_once -= 1

        for topic in owner.service.topics.values():
            topic._close_ledger = close
        await owner.service.moves.unload(bundle)
        assert owner.service.topics == {}
        assert most == 64


class TestSplitting:
    async def test_clients_notice_nothing_and_both_records_change(self) -> None:
        owner, other = await cluster()
        bundle = await owner.take()
        local = paths.local_policies_path(NAMESPACE)
        before = await owner.record(local)
        await owner.tree.put(local, json.dumps({**before, "ofALaterVersion": [2]}).encode())
        cnx = FakeConnection()
        await owner.produce(cnx)
        made = await owner.service.moves.split(bundle)
        assert [each.bounds for each in made] == [
            (bundle.bounds[0], sum(bundle.bounds) // 2),
            (sum(bundle.bounds) // 2, bundle.bounds[1]),
        ]
        assert set(owner.ownership.owned_bundles()) == set(made)
        assert cnx.kinds == []
        assert list(owner.service.topics) == [T0.full]
        await owner.produce(FakeConnection())
        after = await owner.record(local)
        assert after["ofALaterVersion"] == [2]
        assert after["bundles"]["numBundles"] == 5
        policies = await owner.record(paths.policies_path(NAMESPACE))
        assert policies == {"bundles": after["bundles"], "ofALaterVersion": 1}
        assert await owner.record(paths.bundle_owner_path(NAMESPACE, bundle.range)) is None
        now = await other.ownership.bundle_of(T0)
        await until(lambda: other.ownership.bundles.cached(NAMESPACE) is not None)
        assert now in made
        assert await other.ownership.owner_of(now) == owner.ownership.addresses

    async def test_brokers_that_split_at_the_same_time_both_succeed(self) -> None:
        one, two = await cluster()
        bundles = (await one.ownership.bundles.get(NAMESPACE)).all
        await one.ownership.acquire(bundles[0])
        await two.ownership.acquire(bundles[1])
        made = await asyncio.gather(one.service.moves.split(bundles[0]), two.service.moves.split(bundles[1]))
        local = await one.record(paths.local_policies_path(NAMESPACE))
        policies = await one.record(paths.policies_path(NAMESPACE))
        assert local["bundles"]["numBundles"] == 6
        assert policies["bundles"]["numBundles"] == 6
        for broker, parts in zip((one, two), made, strict=True):
            assert set(broker.ownership.owned_bundles()) == set(parts)

    async def test_a_split_with_unload_frees_the_new_bundles(self) -> None:
        owner, other = await cluster()
        bundle = await owner.take()
        cnx = FakeConnection()
        await owner.produce(cnx)
        made = await owner.service.moves.split(bundle, unload=True)
        await until(lambda: not owner.ownership.owned_bundles())
        assert cnx.kinds == ["CLOSE_PRODUCER"]
        for part in made:
            await other.ownership.acquire(part)

    async def test_a_broker_that_does_not_own_the_bundle_splits_nothing(self) -> None:
        owner, other = await cluster()
        bundle = await owner.take()
        before = await owner.record(paths.local_policies_path(NAMESPACE))
        with pytest.raises(MetadataFault):
            await other.service.moves.split(bundle)
        assert await owner.record(paths.local_policies_path(NAMESPACE)) == before
        assert other.ownership.owned_bundles() == []
        assert await owner.tree.children(f"/namespace/{NAMESPACE}") == [bundle.range]

    async def test_a_bundle_that_is_gone_is_given_away(self) -> None:
        """Nobody but its owner splits a bundle; but a split whose answer was lost may leave the owner with it."""
        owner, other = await cluster()
        bundle = await owner.take()
        halves = [0, sum(bundle.bounds) // 2, 0xFFFFFFFF]
        boundaries = [f"0x{number:08x}" for number in halves]
        value = {"bundles": {"boundaries": boundaries, "numBundles": 2}, "migrated": False}
        await other.tree.put(paths.local_policies_path(NAMESPACE), json.dumps(value).encode())
        await until(lambda: not owner.ownership.owned_bundles())
