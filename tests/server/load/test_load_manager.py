"""Who leads, and where bundles go, over one metadata store."""

import asyncio
import json
from dataclasses import replace

import pytest

from magnetar.metadata import paths
from magnetar.server.load.load_manager import LEADER
from magnetar.server.load.registered_brokers import BROKERS, RegisteredBrokers
from magnetar.server.namespaces.bundle_name import BundleName
from tests.server.fakes import settle
from tests.server.load.load_site import CLUSTER, SETTINGS, Site, bundle
from tests.storage.ledger.distant_store import DistantStore
from tests.waiting import until


async def test_one_leads_and_all_name_it(site: Site) -> None:
    brokers = await site.cluster(3)
    (leader,) = [each for each in brokers if each.manager.is_leader]
    record = await site.tree.get(LEADER)
    assert record is not None
    assert json.loads(record.value) == {"brokerId": leader.id, "serviceUrl": f"http://{leader.id}"}
    for each in brokers:
        assert await each.manager.leader() == leader.addresses


async def test_when_the_leader_dies_another_leads_and_places(site: Site) -> None:
    brokers = await site.cluster(3)
    (leader,) = [each for each in brokers if each.manager.is_leader]
    await leader.die()
    others = [each for each in brokers if each is not leader]
    await until(lambda: any(each.manager.is_leader for each in others))
    await site.all_see(others)
    (successor,) = [each for each in others if each.manager.is_leader]
    chosen = [await successor.manager.choose(bundle(number)) for number in range(6)]
    assert {each.broker_id for each in chosen if each is not None} == {each.id for each in others}
    for each in others:
        assert await each.manager.leader() == successor.addresses


async def test_a_leader_that_is_not_registered_is_none(site: Site) -> None:
    brokers = await site.cluster(2)
    (leader,) = [each for each in brokers if each.manager.is_leader]
    follower = next(each for each in brokers if each is not leader)
    await leader.duties.stop()
    await leader.reporter.stop()
    await until(lambda: follower.manager.view.brokers.keys() == {follower.id})
    assert await follower.manager.leader() is None
    assert leader.manager.is_leader
    assert await follower.manager.choose(bundle(0)) == follower.addresses


async def test_bundles_are_spread_and_addresses_come_from_the_registrations(site: Site) -> None:
    brokers = await site.cluster(3)
    (leader,) = [each for each in brokers if each.manager.is_leader]
    chosen = await asyncio.gather(*(leader.manager.choose(bundle(number)) for number in range(9)))
    counts = {each.id: sum(one == each.addresses for one in chosen) for each in brokers}
    assert set(counts.values()) == {3}


async def test_many_who_ask_for_one_bundle_get_one_answer(site: Site) -> None:
    brokers = await site.cluster(3)
    (leader,) = [each for each in brokers if each.manager.is_leader]
    chosen = await asyncio.gather(*(leader.manager.choose(bundle(1)) for _ in range(50)))
    assert len({each.broker_id for each in chosen if each is not None}) == 1


async def test_a_dead_broker_is_never_chosen_even_if_it_died_just_now(site: Site) -> None:
    brokers = await site.cluster(3)
    (leader,) = [each for each in brokers if each.manager.is_leader]
    victim = next(each for each in brokers if each is not leader)
    await victim.die()
    for number in range(6):
        chosen = await leader.manager.choose(bundle(number))
        assert chosen is not None
        assert chosen != victim.addresses


async def test_a_registration_counts_from_the_moment_when_its_event_was_heard(site: Site) -> None:
    brokers = await site.cluster(2)
    report = await site.report(brokers[1].id)
    await site.tree.create(f"{BROKERS}/x:1", replace(report, web_service_url="http://x:1").to_bytes(), ephemeral=True)
    await settle(1)
    found = await brokers[0].manager.broker("x:1")
    assert found is not None
    assert found.web_url == "http://x:1"


async def test_a_dead_broker_is_gone_while_the_store_does_not_answer(site: Site) -> None:
    brokers = await site.cluster(2)
    seconds = 0.0
    watcher = RegisteredBrokers(DistantStore(site.tree.session(), lambda: seconds))
    await watcher.start()
    assert watcher.reports.keys() == {each.id for each in brokers}
    seconds = 3600.0
    await brokers[1].die()
    await until(lambda: brokers[1].id not in watcher.reports)
    watcher.close()


async def test_the_bundles_of_health_checks_go_to_their_own_broker(site: Site) -> None:
    brokers = await site.cluster(2)
    for each in brokers:
        name = BundleName.parse(f"pulsar/{brokers[1].id}/0x00000000_0xffffffff")
        assert await each.manager.choose(name) == brokers[1].addresses


async def test_the_bundle_of_a_dead_broker_s_health_check_goes_nowhere_and_its_monitor_s_anywhere(site: Site) -> None:
    brokers = await site.cluster(1)
    assert await brokers[0].manager.choose(BundleName.parse("pulsar/gone:8080/0x00000000_0xffffffff")) is None
    monitor = BundleName.parse(f"sla-monitor/{CLUSTER}/gone:8080/0x00000000_0xffffffff")
    assert await brokers[0].manager.choose(monitor) == brokers[0].addresses


async def test_a_noted_destination_is_where_the_bundle_goes(site: Site) -> None:
    brokers = await site.cluster(3)
    (leader,) = [each for each in brokers if each.manager.is_leader]
    for each in brokers:
        leader.manager.note_destination(bundle(5), each.id)
        assert await leader.manager.choose(bundle(5)) == each.addresses


async def test_isolation_policies_hold_as_soon_as_they_are_written(site: Site) -> None:
    brokers = await site.cluster(3)
    (leader,) = [each for each in brokers if each.manager.is_leader]
    path = f"{paths.cluster_path(CLUSTER)}/namespaceIsolationPolicies"
    policy = {
        "namespaces": ["iso/.*"],
        "primary": ["h2"],
        "secondary": [],
        "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1"}},
    }
    assert await leader.manager.choose(bundle(0)) is not None
    await site.tree.create(path, json.dumps({"p": policy}).encode(), make_parents=True)
    for number in range(4):
        assert await leader.manager.choose(bundle(number, "iso/n")) == brokers[2].addresses
        assert await leader.manager.choose(bundle(number, "t/m")) != brokers[2].addresses
    await site.tree.put(path, json.dumps({"p": policy | {"primary": ["h1"]}}).encode())
    assert await leader.manager.choose(bundle(9, "iso/n")) == brokers[1].addresses


async def test_failure_domains_and_groups_are_read_from_their_records(site: Site) -> None:
    settings = replace(SETTINGS, failure_domains_enabled=True)
    brokers = await site.cluster(4, settings)
    (leader,) = [each for each in brokers if each.manager.is_leader]
    root = f"{paths.cluster_path(CLUSTER)}/failureDomain"
    for name, pair in (("east", brokers[:2]), ("west", brokers[2:])):
        value = json.dumps({"brokers": [each.id for each in pair]}).encode()
        await site.tree.create(f"{root}/{name}", value, make_parents=True)
    for name in ("one", "two"):
        value = json.dumps({"bundles": {}, "namespaceAntiAffinityGroup": "g"}).encode()
        await site.tree.create(paths.local_policies_path(f"t/{name}"), value, make_parents=True)
    first = await leader.manager.choose(bundle(0, "t/one"))
    second = await leader.manager.choose(bundle(0, "t/two"))
    assert first is not None
    assert second is not None
    east = {each.id for each in brokers[:2]}
    assert (first.broker_id in east) != (second.broker_id in east)
    for name, pair in (("east", brokers[::2]), ("west", brokers[1::2])):
        await site.tree.put(f"{root}/{name}", json.dumps({"brokers": [each.id for each in pair]}).encode())
    for name in ("three", "four"):
        value = json.dumps({"bundles": {}, "namespaceAntiAffinityGroup": "h"}).encode()
        await site.tree.create(paths.local_policies_path(f"t/{name}"), value, make_parents=True)
    third = await leader.manager.choose(bundle(0, "t/three"))
    fourth = await leader.manager.choose(bundle(0, "t/four"))
    assert third is not None
    assert fourth is not None
    even = {each.id for each in brokers[::2]}
    assert (third.broker_id in even) != (fourth.broker_id in even)


async def test_a_broker_of_another_make_that_came_last_draws_all_lookups(site: Site) -> None:
    brokers = await site.cluster(2)
    assert await brokers[0].manager.newer_make() is None
    report = await site.report(brokers[1].id)
    other = replace(
        report, load_manager="x.Extensible", start_ms=report.start_ms + 60_000, web_service_url="http://x:1"
    )
    await site.tree.create(f"{BROKERS}/x:1", other.to_bytes(), ephemeral=True)
    await until(lambda: "x:1" in brokers[0].manager.view.brokers)
    found = await brokers[0].manager.newer_make()
    assert found is not None
    assert found.broker_id == "x:1"
    await site.tree.put(f"{BROKERS}/x:1", replace(other, start_ms=1).to_bytes())
    await until(lambda: brokers[0].manager.view.brokers["x:1"].report.start_ms == 1)
    assert await brokers[0].manager.newer_make() is None


@pytest.mark.parametrize("value", [b"", b"[]", b"{", b"\xff", b'{"advertisedListeners":{"a":7},"lastStats":{"x":1}}'])
async def test_a_registration_that_makes_no_sense_does_not_upset_the_others(site: Site, value: bytes) -> None:
    brokers = await site.cluster(2)
    await site.tree.create(f"{BROKERS}/x:1", value, ephemeral=True)
    assert await brokers[0].manager.broker(brokers[1].id) == brokers[1].addresses
    await brokers[0].manager.broker("x:1")
    assert await brokers[0].manager.newer_make() is None
    assert await brokers[0].manager.choose(bundle(0)) is not None
