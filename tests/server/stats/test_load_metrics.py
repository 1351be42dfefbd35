"""The load-balance metrics of a broker of a cluster."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.load.broker_report import BrokerUsage, BundleStats, LocalBrokerData, ResourceUsage
from magnetar.server.stats.load_metrics import load_metrics

BUNDLE = "t/n/0x00000000_0xffffffff"


def load(settings: LoadSettings, duties: Any = None) -> Any:
    usage = BrokerUsage(cpu=ResourceUsage(50, 200), memory=ResourceUsage(10, 100), bandwidth_in=ResourceUsage(7, -1))
    report = LocalBrokerData(last_stats={BUNDLE: BundleStats(1, 2, 3, 4, 5, 6, 7)})
    return SimpleNamespace(usage=usage, duties=duties, settings=settings, reporter=SimpleNamespace(report=report))


def test_the_names_and_labels_are_those_that_dashboards_ask_for() -> None:
    duties = SimpleNamespace(bundles_unloaded=3, brokers_unloaded=2, bundles_split=1)
    samples = {sample.name: (sample.labels, sample.value) for sample in load_metrics(load(LoadSettings(), duties))}
    assert samples == {
        "pulsar_lb_cpu_usage": ({"metric": "loadBalancing"}, 25),
        "pulsar_lb_memory_usage": ({"metric": "loadBalancing"}, 10),
        "pulsar_lb_directMemory_usage": ({"metric": "loadBalancing"}, 0),
        "pulsar_lb_bandwidth_in_usage": ({"metric": "loadBalancing"}, 0),
        "pulsar_lb_bandwidth_out_usage": ({"metric": "loadBalancing"}, 0),
        "pulsar_lb_unload_bundle_total": ({"metric": "bundleUnloading"}, 3),
        "pulsar_lb_unload_bundle_count": ({"metric": "bundleUnloading"}, 3),
        "pulsar_lb_unload_broker_total": ({"metric": "bundleUnloading"}, 2),
        "pulsar_lb_unload_broker_count": ({"metric": "bundleUnloading"}, 2),
        "pulsar_lb_bundles_split_total": ({"metric": "bundlesSplit"}, 1),
        "pulsar_lb_bundles_split_count": ({"metric": "bundlesSplit"}, 1),
    }


def test_bundles_are_told_when_that_is_asked_for() -> None:
    names = {sample.name for sample in load_metrics(load(LoadSettings()))}
    assert not any(name.startswith("pulsar_bundle_") for name in names)
    on = replace(LoadSettings(), expose_bundles_metrics_in_prometheus=True)
    samples = {sample.name: sample for sample in load_metrics(load(on)) if sample.name.startswith("pulsar_bundle_")}
    assert {name: sample.value for name, sample in samples.items()} == {
        "pulsar_bundle_msg_rate_in": 1,
        "pulsar_bundle_msg_throughput_in": 2,
        "pulsar_bundle_msg_rate_out": 3,
        "pulsar_bundle_msg_throughput_out": 4,
        "pulsar_bundle_consumer_count": 5,
        "pulsar_bundle_producer_count": 6,
        "pulsar_bundle_topics_count": 7,
    }
    assert {sample.labels["bundle"] for sample in samples.values()} == {BUNDLE}
