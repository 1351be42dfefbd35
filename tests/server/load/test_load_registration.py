"""A broker's registration, and the report in it."""

import json
from dataclasses import replace

import pytest

from magnetar.metadata.coordination.lock_errors import LockBusyError
from magnetar.server.load.broker_report import LOAD_MANAGER
from magnetar.server.load.load_reporter import BROKER_AVERAGES, LoadReporter
from magnetar.server.load.registered_brokers import broker_path
from magnetar.server.namespaces.broker_addresses import BrokerAddresses
from magnetar.server.network.ports import Urls
from tests.server.fakes import settle
from tests.server.load.load_site import SETTINGS, FakeBroker, Site, bundle
from tests.waiting import until


async def test_a_broker_is_registered_as_java_s_are(site: Site) -> None:
    await site.broker(0)
    record = await site.tree.get(broker_path("h0:8080"))
    assert record is not None
    assert record.stat.ephemeral
    report = json.loads(record.value)
    assert report["loadManagerClassName"] == LOAD_MANAGER
    assert report["brokerVersionString"] == "4.0.7"
    assert report["loadReportType"] == "LocalBrokerData"
    assert report["startTimestamp"] > 1_600_000_000_000
    assert report["webServiceUrl"] == "http://h0:8080"
    assert report["pulsarServiceUrl"] == "pulsar://h0:6650"
    assert report["maxResourceUsage"] == pytest.approx(0.1)
    average = await site.tree.get(f"{BROKER_AVERAGES}/h0:8080")
    assert average is not None
    assert set(json.loads(average.value).values()) == {0.0}


async def test_new_bundles_are_reported_soon_and_gains_are_told_once(site: Site) -> None:
    (broker,) = await site.cluster(1)
    broker.own(bundle(0), bundle(1))
    await until(lambda: len(broker.manager.view.brokers[broker.id].report.bundles) == 2)
    report = await site.report(broker.id)
    assert set(report.gains) == set(report.bundles) == {str(bundle(0)), str(bundle(1))}
    broker.stats.bundles.pop(str(bundle(0)))
    await until(lambda: len(broker.manager.view.brokers[broker.id].report.bundles) == 1)
    report = await site.report(broker.id)
    assert report.gains == ()
    assert report.losses == (str(bundle(0)),)


async def test_a_report_is_not_written_when_nothing_changes(site: Site) -> None:
    (broker,) = await site.cluster(1)
    before = await site.tree.get(broker_path(broker.id))
    await until(lambda: broker.stats.reads > 20)
    assert await site.tree.get(broker_path(broker.id)) == before
    report = broker.manager.view.brokers[broker.id].report
    broker.reporter.report_now()
    await until(lambda: broker.manager.view.brokers[broker.id].report.last_update_ms > report.last_update_ms)


async def test_a_broker_that_was_started_again_takes_its_registration_at_once(site: Site) -> None:
    before = FakeBroker(site, 0, SETTINGS)
    value = replace(before.reporter.report, start_ms=1, last_update_ms=1, bundles=("t/n/0x00000000_0xffffffff",))
    dead = site.tree.session()
    await dead.create(broker_path("h0:8080"), value.to_bytes(), ephemeral=True, make_parents=True)
    again = await site.broker(0)
    assert await again.session.owns(broker_path("h0:8080"))
    await dead.close()
    assert (await site.report("h0:8080")).start_ms > 1


async def test_another_broker_s_name_cannot_be_taken(site: Site) -> None:
    await site.broker(0)
    other = FakeBroker(site, 0, SETTINGS)
    elsewhere = Urls("pulsar://elsewhere:6650", "", "http://elsewhere:8080", "")
    other.addresses = BrokerAddresses("h0:8080", elsewhere)
    reporter = LoadReporter(other.store, other.locks, other.addresses, SETTINGS, other.stats, other._measure)
    with pytest.raises(LockBusyError):
        await reporter.start()


async def test_a_stopped_broker_is_not_registered_and_its_averages_go(site: Site) -> None:
    brokers = await site.cluster(2)
    leader = next(each for each in brokers if each.manager.is_leader)
    follower = next(each for each in brokers if not each.manager.is_leader)
    await until(lambda: leader.duties._alive == set(site.brokers))
    await follower.stop()
    await until(lambda: leader.manager.view.brokers.keys() == {leader.id})
    await until(lambda: leader.duties._alive == {leader.id})
    assert await site.tree.children(BROKER_AVERAGES) == [leader.id]


async def test_reports_are_not_written_with_the_load_balancer_off(site: Site) -> None:
    (broker,) = await site.cluster(1, replace(SETTINGS, load_balancer_enabled=False))
    broker.own(bundle(0))
    written = await site.tree.exists(broker_path(broker.id))
    broker.reporter.report_now()
    await settle(1000)
    assert await site.tree.exists(broker_path(broker.id)) == written
    assert (await site.report(broker.id)).bundles == ()
