"""What the leader does: it moves bundles, splits them, and writes averages."""

import json
from contextlib import suppress
from dataclasses import replace

import pytest

from magnetar.metadata import paths
from magnetar.metadata.errors import NoNodeError
from magnetar.server.load.broker_report import BundleStats
from magnetar.server.load.bundle_averages import BundleData
from magnetar.server.load.bundle_data_records import BUNDLE_DATA, RESOURCE_QUOTAS
from magnetar.server.load.duty_rules import Duty
from magnetar.server.load.load_reporter import BROKER_AVERAGES
from magnetar.server.load.registered_brokers import BROKERS
from magnetar.server.namespaces.bundle_name import BundleName
from tests.server.fakes import settle
from tests.server.load.clusters import MB
from tests.server.load.load_site import CLUSTER, SETTINGS, FakeBroker, Site, bundle
from tests.waiting import until


async def leader_and_busy(site: Site, count: int = 2) -> tuple[FakeBroker, FakeBroker]:
    """Returns the leader of a cluster, and a broker with five busy bundles."""
    brokers = await site.cluster(count)
    (leader,) = [each for each in brokers if each.manager.is_leader]
    busy = next(each for each in brokers if each is not leader)
    busy.own(*(bundle(number) for number in range(5)), megabytes=100)
    busy.cpu = 0.9
    busy.reporter._measured_at_s = None
    await until(lambda: len(leader.manager.view.brokers[busy.id].report.bundles) == 5)
    await until(lambda: leader.manager.view.brokers[busy.id].report.usage.cpu.fraction > 0.8)
    return leader, busy


async def test_the_leader_moves_bundles_to_where_there_is_less_to_do(site: Site) -> None:
    leader, busy = await leader_and_busy(site)
    await leader.duties.do(Duty.SHED)
    assert leader.requests.unloads
    for name, destination in leader.requests.unloads:
        assert destination == leader.id
        assert await leader.manager.choose(BundleName.parse(name)) == leader.addresses
    assert leader.duties.bundles_unloaded == len(leader.requests.unloads)
    assert leader.duties.brokers_unloaded == 1
    moved = len(leader.requests.unloads)
    await leader.duties.do(Duty.SHED)
    names = [name for name, _ in leader.requests.unloads]
    assert len(set(names)) == len(names), f"{names[moved:]} were moved twice"
    assert not busy.requests.unloads


async def test_a_bundle_that_nobody_else_may_own_stays(site: Site) -> None:
    leader, busy = await leader_and_busy(site)
    policy = {
        "namespaces": ["t/n"],
        "primary": [busy.id.partition(":")[0]],
        "secondary": [],
        "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1"}},
    }
    path = f"{paths.cluster_path(CLUSTER)}/namespaceIsolationPolicies"
    await site.tree.create(path, json.dumps({"p": policy}).encode(), make_parents=True)
    await leader.duties.do(Duty.SHED)
    assert not leader.requests.unloads


async def test_a_bundle_that_its_group_would_bring_back_stays(site: Site) -> None:
    leader, _ = await leader_and_busy(site)
    leader.own(bundle(0, "t/other"))
    await until(lambda: bool(leader.manager.view.brokers[leader.id].report.bundles))
    for namespace in ("t/n", "t/other"):
        value = json.dumps({"bundles": {}, "namespaceAntiAffinityGroup": "g"}).encode()
        await site.tree.create(paths.local_policies_path(namespace), value, make_parents=True)
    await leader.duties.do(Duty.SHED)
    assert not leader.requests.unloads, "each broker serves one namespace of the group"
    await site.tree.put(paths.local_policies_path("t/other"), b"{}")
    await leader.duties.do(Duty.SHED)
    assert leader.requests.unloads


async def test_a_move_that_fails_is_forgotten(site: Site) -> None:
    leader, _ = await leader_and_busy(site)
    leader.requests.fails = True
    await leader.duties.do(Duty.SHED)
    assert leader.duties.bundles_unloaded == 0
    assert not leader.manager.view.unloaded_s
    assert not any(load.preallocated for load in leader.manager.view.brokers.values())
    leader.requests.fails = False
    await leader.duties.do(Duty.SHED)
    assert leader.requests.unloads


async def test_a_broker_alone_sheds_and_splits_nothing(site: Site) -> None:
    (broker,) = await site.cluster(1)
    broker.own(*(bundle(number) for number in range(5)), megabytes=100, topics=5000)
    await until(lambda: len(broker.manager.view.brokers[broker.id].report.bundles) == 5)
    await broker.duties.do(Duty.SHED)
    await broker.duties.do(Duty.SPLIT)
    assert not broker.requests.unloads
    assert not broker.requests.splits


async def test_bundles_that_became_too_large_are_split_once_by_the_leader_alone(site: Site) -> None:
    brokers = await site.cluster(3)
    (leader,) = [each for each in brokers if each.manager.is_leader]
    boundaries = [f"0x{number << 28:08x}" for number in range(16)] + ["0xffffffff"]
    value = json.dumps({"bundles": {"boundaries": boundaries, "numBundles": 16}}).encode()
    await site.tree.create(paths.local_policies_path("t/n"), value, make_parents=True)
    await site.tree.create(f"{BUNDLE_DATA}/{bundle(3)}", b"{}", make_parents=True)
    brokers[2].own(bundle(3), topics=1001)
    brokers[2].own(bundle(4), topics=1000)
    await until(lambda: bool(leader.requests.splits))
    for _ in range(20):
        brokers[2].reporter.report_now()
        await settle()
    await leader.duties.do(Duty.SPLIT)
    assert leader.requests.splits == [(str(bundle(3)), True)]
    assert await site.tree.get(f"{BUNDLE_DATA}/{bundle(3)}") is None
    assert not [each for each in brokers if each is not leader and each.requests.splits]


async def test_the_leader_writes_averages_and_deletes_those_of_bundles_that_are_gone(site: Site) -> None:
    leader, busy = await leader_and_busy(site)
    await leader.duties.do(Duty.WRITE)
    written = await site.tree.get(f"{BUNDLE_DATA}/{bundle(0)}")
    assert written is not None
    data = BundleData.read(written.value)
    assert data is not None
    assert data.long_term.throughput == pytest.approx(100 * MB)
    average = await site.tree.get(f"{BROKER_AVERAGES}/{busy.id}")
    assert average is not None
    assert json.loads(average.value)["longTermMsgRateIn"] == pytest.approx(500)
    busy.stats.bundles.pop(str(bundle(0)))
    await until(lambda: len(leader.manager.view.brokers[busy.id].report.bundles) == 4)
    await leader.duties.do(Duty.WRITE)
    assert await site.tree.get(f"{BUNDLE_DATA}/{bundle(0)}") is None
    assert await site.tree.get(f"{BUNDLE_DATA}/{bundle(1)}") is not None


async def test_a_new_leader_knows_what_the_old_one_has_written_and_quotas_stand_in(site: Site) -> None:
    stored = BundleData.assuming(BundleStats(7_000, 1, 7_000, 1))
    stored.long_term.samples = stored.short_term.samples = 10
    await site.tree.create(f"{BUNDLE_DATA}/{bundle(0)}", stored.to_bytes(), make_parents=True)
    quota = b'{"msgRateIn":500.0,"msgRateOut":500.0,"bandwidthIn":1.0,"bandwidthOut":1.0,"memory":1.0,"dynamic":true}'
    await site.tree.create(f"{RESOURCE_QUOTAS}/{bundle(1)}", quota, make_parents=True)
    (broker,) = await site.cluster(1)
    broker.own(bundle(0), bundle(1), bundle(2))
    view = broker.manager.view
    await until(lambda: str(bundle(2)) in view.bundles)
    await until(lambda: view.bundles[str(bundle(0))].long_term.samples == 11)
    assert view.bundles[str(bundle(0))].long_term.message_rate == pytest.approx((140_000 + 200) / 11)
    assert view.bundles[str(bundle(1))].long_term.message_rate == pytest.approx((999 * 1000 + 200) / 1000)
    assert view.bundles[str(bundle(2))].long_term.message_rate == pytest.approx(200)


async def test_settings_can_be_changed_while_it_runs(site: Site) -> None:
    brokers = await site.cluster(2, replace(SETTINGS))
    manager = brokers[0].manager
    shedder = manager.shedder
    object.__setattr__(manager.settings, "load_balancer_broker_max_topics", 7)
    manager.settings_changed()
    assert manager.shedder is shedder, "what it has learnt about usages is kept"
    name = "org.apache.pulsar.broker.loadbalance.impl.UniformLoadShedder"
    object.__setattr__(manager.settings, "load_balancer_load_shedding_strategy", name)
    manager.settings_changed()
    assert type(manager.shedder).__name__ == "UniformLoadShedder"


async def test_nothing_is_left_in_the_store_after_an_orderly_stop(site: Site) -> None:
    brokers = await site.cluster(2)
    for each in brokers:
        await each.stop()
    for path in (BROKERS, "/loadbalance"):
        with suppress(NoNodeError):
            assert "leader" not in await site.tree.children(path)
    with suppress(NoNodeError):
        assert await site.tree.children(BROKERS) == []
