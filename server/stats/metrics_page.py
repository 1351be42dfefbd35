"""The page of /metrics: the metrics of Pulsar that this broker has, gathered at each scrape.

Nothing is counted only for this page: a scrape reads the counters of topics, subscriptions and connections. A scrape
reads many topics in portions, so that clients are served meanwhile. Sources: NamespaceStatsAggregator, TopicStats,
PrometheusMetricsGenerator; names and labels are those of Pulsar 4.0.7.
"""

import os
import resource
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiofiles
import aiofiles.os

from magnetar import __version__
from magnetar.server.process.turns import in_portions
from magnetar.server.stats.load_metrics import load_metrics
from magnetar.server.stats.topic_metrics import backlog_age_metrics, subscription_metrics, topic_metrics

if TYPE_CHECKING:
    from magnetar.server.broker.broker import Broker
    from magnetar.server.security.security import Security
    from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.subscriptions.base_subscription import BaseSubscription

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

BOOT_CLOCK = time.CLOCK_BOOTTIME if hasattr(time, "CLOCK_BOOTTIME") else time.CLOCK_MONOTONIC


class MetricFamilies:
    """Collects samples by metric name, because the text format requires all samples of a name together."""

    def __init__(self, cluster: str) -> None:
        self._cluster = f'cluster="{escaped(cluster)}"'
        self._samples: dict[str, list[str]] = {}
        self._kinds: dict[str, str] = {}

    def labels(self, **values: str) -> str:
        """Returns the text of a label set, which can be used for many samples. The label `cluster` comes first."""
        return ",".join([self._cluster, *(f'{name}="{escaped(value)}"' for name, value in values.items())])

    def add(self, name: str, labels: str, value: float, kind: str = "gauge") -> None:
        self._kinds.setdefault(name, kind)
        self._samples.setdefault(name, []).append(f"{name}{{{labels}}} {value}\n")

    def add_all(self, labels: str, samples: Iterable[tuple[str, float]]) -> None:
        for name, value in samples:
            self.add(name, labels, value)

    async def text(self) -> list[bytes]:
        """Returns the page in parts, one for each name."""
        parts = []
        async for name, samples in in_portions(self._samples.items()):
            parts.append(f"# TYPE {name} {self._kinds[name]}\n{''.join(samples)}".encode())
        return parts


async def render(broker: "Broker") -> list[bytes]:
    """Returns the whole page in parts, because the page has tens of megabytes when there are thousands of topics."""
    families = MetricFamilies(broker.cluster)
    totals: dict[str, float] = {}
    per_namespace: dict[str, int] = {}
    async for topic in in_portions(broker.service.all_topics):
        per_namespace[topic.name.namespace] = per_namespace.get(topic.name.namespace, 0) + 1
        for name, value in _add_topic(families, topic):
            totals[name] = totals.get(name, 0) + value
    for namespace, count in per_namespace.items():
        families.add("pulsar_topics_count", families.labels(namespace=namespace), count)
    for name, namespace, value in broker.service.schemas.registry.counters.samples():
        families.add(name, families.labels(namespace=namespace), value, "counter")
    _add_broker(families, broker, totals, sum(per_namespace.values()))
    await _add_process(families)
    return await families.text()


def _add_topic(families: MetricFamilies, topic: "BaseTopic") -> list[tuple[str, float]]:
    """Adds the samples of a topic and its subscriptions. Returns (name, value) for the metrics that are summed up over
    the broker."""
    labels = {"namespace": topic.name.namespace, "topic": topic.name.full}
    counters = topic.publishing.counters
    rate_out = throughput_out = 0.0
    for name, subscription in topic.subscriptions.items():
        subscription_labels = families.labels(**labels, subscription=name)
        rate, throughput = _add_out(families, subscription, subscription_labels)
        families.add_all(subscription_labels, subscription_metrics(subscription))
        families.add_all(subscription_labels, backlog_age_metrics(topic, subscription))
        rate_out += rate
        throughput_out += throughput
    sums: list[tuple[str, float]] = [
        ("subscriptions_count", len(topic.subscriptions)),
        ("producers_count", len(topic.producers)),
        ("consumers_count", topic.consumer_count),
        ("rate_in", counters.message_rate.value),
        ("rate_out", rate_out),
        ("throughput_in", counters.byte_rate.value),
        ("throughput_out", throughput_out),
        ("storage_size", topic.stored_bytes),
        ("storage_logical_size", topic.stored_bytes),
        ("msg_backlog", topic.backlog_entries),
    ]
    topic_labels = families.labels(**labels)
    families.add_all(topic_labels, ((f"pulsar_{name}", value) for name, value in sums))
    families.add("pulsar_in_messages_total", topic_labels, counters.messages_in, "counter")
    families.add("pulsar_in_bytes_total", topic_labels, counters.bytes_in, "counter")
    families.add("pulsar_publish_rate_limit_times", topic_labels, topic.publishing.rate_limited_times)
    families.add_all(topic_labels, topic_metrics(topic))
    return sums


def _add_out(families: MetricFamilies, subscription: "BaseSubscription", labels: str) -> tuple[float, float]:
    """Adds the outgoing traffic of a subscription. Returns the subscription's message rate and byte rate."""
    out = subscription.counters_out()
    families.add_all(
        labels,
        (
            ("pulsar_subscription_consumers_count", len(subscription.consumers)),
            ("pulsar_subscription_msg_rate_out", out.message_rate.value),
            ("pulsar_subscription_msg_throughput_out", out.byte_rate.value),
            ("pulsar_subscription_msg_rate_redeliver", out.redelivery_rate.value),
            ("pulsar_subscription_msg_ack_rate", out.ack_rate.value),
            ("pulsar_subscription_last_acked_timestamp", out.last_acked_ms),
            ("pulsar_subscription_last_consumed_timestamp", out.last_sent_ms),
            ("pulsar_subscription_last_consumed_flow_timestamp", out.last_flow_ms),
        ),
    )
    families.add("pulsar_out_messages_total", labels, out.messages_out, "counter")
    families.add("pulsar_out_bytes_total", labels, out.bytes_out, "counter")
    return out.message_rate.value, out.byte_rate.value


def _add_broker(families: MetricFamilies, broker: "Broker", totals: dict[str, float], topics: int) -> None:
    labels = families.labels()
    families.add("pulsar_broker_topics_count", labels, topics)
    families.add_all(labels, ((f"pulsar_broker_{name}", value) for name, value in totals.items()))
    families.add("pulsar_broker_lookup_pending_requests", labels, broker.lookups_in_progress)
    families.add("pulsar_broker_topic_load_pending_requests", labels, broker.service.load_permits.held)
    families.add("pulsar_version_info", families.labels(version=__version__, commit=""), 1)
    families.add("magnetar_unanswered_publish_bytes", labels, broker.clients.unanswered_publish_bytes())
    if broker.metadata_link is not None:
        families.add("magnetar_metadata_connected", labels, int(broker.metadata_link.is_connected))
        families.add("magnetar_metadata_away_seconds", labels, broker.metadata_link.away_seconds)
    host = urlsplit(broker.addresses.urls.broker or broker.addresses.urls.broker_tls).hostname or ""
    clients = broker.clients
    for name, value in (
        ("active_connections", clients.active),
        ("connection_created_total_count", clients.created),
        ("connection_create_success_count", clients.accepted),
        ("connection_create_fail_count", clients.refused),
        ("connection_closed_total_count", clients.closed),
    ):
        families.add(f"pulsar_{name}", families.labels(broker=host, metric="broker_connection"), value)
    if broker.security is not None:
        _add_authentication(families, broker.security)
    if broker.load is not None:
        for sample in load_metrics(broker.load):
            families.add(sample.name, families.labels(broker=host, **sample.labels), sample.value)


def _add_authentication(families: MetricFamilies, security: "Security") -> None:
    """Adds the counts of logins and HTTP calls by authentication method (AuthenticationMetrics). In Apache's broker the
    failures also have a label for the reason; this broker only logs the reason."""
    for provider in security.providers.values():
        labels = families.labels(provider_name=provider.name, auth_method=provider.method)
        families.add("pulsar_authentication_success_total", labels, provider.accepted, "counter")
        families.add("pulsar_authentication_failures_total", labels, provider.rejected, "counter")


async def _add_process(families: MetricFamilies) -> None:
    """Adds the metrics that the Java client library of Prometheus exports about a process. Leaves out values that the
    operating system does not provide."""
    labels = families.labels()
    families.add("process_cpu_seconds_total", labels, time.process_time(), "counter")
    families.add("process_max_fds", labels, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    try:
        # The fields of proc(5) after the command's name, counted from 0: 19 is the start in ticks since boot, 20 the
        # size in bytes, 21 the number of resident pages.
        async with aiofiles.open("/proc/self/stat") as file:
            fields = (await file.read()).rpartition(")")[2].split()
        open_files = len(await aiofiles.os.listdir("/proc/self/fd"))
    except OSError:
        return
    booted_s = time.time() - time.clock_gettime(BOOT_CLOCK)
    families.add("process_start_time_seconds", labels, booted_s + int(fields[19]) / os.sysconf("SC_CLK_TCK"))
    families.add("process_virtual_memory_bytes", labels, int(fields[20]))
    families.add("process_resident_memory_bytes", labels, int(fields[21]) * resource.getpagesize())
    families.add("process_open_fds", labels, open_files)


def escaped(value: str) -> str:
    """Returns a label's value with the escapes that the text format requires."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
