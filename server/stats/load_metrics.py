"""The load-balance metrics of a broker of a cluster, by Pulsar's names.

Source: ModularLoadManagerImpl.updateLoadBalancingMetrics, updateLoadBalancingBundlesMetrics,
updateBundleUnloadingMetrics, updateBundleSplitMetrics. Pulsar 4 names the counts `…_total`, but dashboards for older
versions ask for `…_count`. Each count is therefore exported under `…_total` and under `…_count`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from magnetar.server.load.broker_report import BundleStats
    from magnetar.server.load.load_balancing import LoadBalancing


class LoadSample(NamedTuple):
    """One sample of the load balancer's metrics."""

    name: str
    labels: dict[str, str]
    """The labels besides `cluster` and `broker`."""
    value: float


def load_metrics(load: "LoadBalancing") -> Iterator[LoadSample]:
    """Yields the usage of each resource, in percent of the resource's limit, and the counts of unloads and splits that
    this broker made as the leader; with `exposeBundlesMetricsInPrometheus` also the traffic of each bundle that this
    broker owns."""
    usage = load.usage
    for name, resource in (
        ("cpu", usage.cpu),
        ("memory", usage.memory),
        ("directMemory", usage.direct_memory),
        ("bandwidth_in", usage.bandwidth_in),
        ("bandwidth_out", usage.bandwidth_out),
    ):
        yield LoadSample(f"pulsar_lb_{name}_usage", {"metric": "loadBalancing"}, 100 * resource.fraction)
    duties = load.duties
    for name, metric, count in (
        ("unload_bundle", "bundleUnloading", 0 if duties is None else duties.bundles_unloaded),
        ("unload_broker", "bundleUnloading", 0 if duties is None else duties.brokers_unloaded),
        ("bundles_split", "bundlesSplit", 0 if duties is None else duties.bundles_split),
    ):
        for suffix in ("total", "count"):
            yield LoadSample(f"pulsar_lb_{name}_{suffix}", {"metric": metric}, count)
    if load.settings.expose_bundles_metrics_in_prometheus and load.reporter is not None:
        for bundle, stats in load.reporter.report.last_stats.items():
            yield from _of_bundle(bundle, stats)


def _of_bundle(bundle: str, stats: "BundleStats") -> Iterator[LoadSample]:
    labels = {"bundle": bundle, "metric": "loadBalancing"}
    for name, value in (
        ("msg_rate_in", stats.msg_rate_in),
        ("msg_rate_out", stats.msg_rate_out),
        ("topics_count", stats.topics),
        ("consumer_count", stats.consumers),
        ("producer_count", stats.producers),
        ("msg_throughput_in", stats.msg_throughput_in),
        ("msg_throughput_out", stats.msg_throughput_out),
    ):
        yield LoadSample(f"pulsar_bundle_{name}", labels, value)
