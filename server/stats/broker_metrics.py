"""The metrics of the broker as a whole: publishing, lookups, loads of topics, connections, logins, metadata, health.

Sources: BrokerOperabilityMetrics, BrokerService (the summaries of lookups and topic loads), AuthenticationMetrics,
MetadataStoreStats, WebExecutorStats; names and labels are those of Pulsar 4.0.7.
"""

import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from magnetar import __version__
from magnetar.metadata.measured_store import MeasuredStore
from magnetar.server.process.metric_summaries import add_histogram, add_summary
from magnetar.server.process.metric_tables import MetricFamilies
from magnetar.server.process.turns import Steps
from magnetar.server.stats.load_metrics import load_metrics
from magnetar.server.stats.transaction_metrics import add_transactions

if TYPE_CHECKING:
    from magnetar.server.broker.broker import Broker
    from magnetar.server.schema.schema_metrics import SchemaCounters
    from magnetar.server.security.security import Security
    from magnetar.server.topics.load_permits import LoadPermits

PUBLISH_QUANTILES = (0.0, 0.5, 0.95, 0.99, 0.999, 0.9999, 1.0)
LOOKUP_QUANTILES = (0.5, 0.99, 0.999, 1.0)
LOAD_QUANTILES = (0.5, 0.75, 0.95, 0.99, 0.999, 0.9999, 1.0)
LOAD_PERCENTILES = (
    (0.5, "median"),
    (0.75, "75percentile"),
    (0.95, "95percentile"),
    (0.99, "99_percentile"),
    (0.999, "99_9_percentile"),
    (0.9999, "99_99_percentile"),
)
SCHEMA_QUANTILES = (0.5, 0.99, 0.999, 1.0)

MILLISECONDS = 1000.0


def add_broker(families: MetricFamilies, broker: "Broker", totals: dict[str, float], topics: int) -> Steps[None]:
    """Adds all metrics of the broker, in steps. `totals` holds the sums over all topics, by what follows
    `pulsar_broker_` in their names, and `topics` is the number of topics."""
    labels = families.labels()
    families.add("pulsar_broker_topics_count", labels, topics)
    families.add_all(labels, ((f"pulsar_broker_{name}", value) for name, value in totals.items()))
    families.add("pulsar_version_info", families.labels(version=__version__, commit=""), 1)
    service = broker.service
    add_summary(
        families,
        "pulsar_broker_publish_latency",
        service.managed_ledgers.write_latency,
        PUBLISH_QUANTILES,
        MILLISECONDS,
    )
    yield
    _add_lookups_and_loads(families, broker)
    yield
    _add_connections(families, broker)
    yield
    if service.quota_checks is not None:
        add_histogram(families, "pulsar_storage_backlog_quota_check_duration_seconds", service.quota_checks)
    if isinstance(service.metadata, MeasuredStore):
        yield from _add_metadata_store(families, service.metadata)
    if broker.metadata_link is not None:
        families.add("magnetar_metadata_connected", labels, int(broker.metadata_link.is_connected))
        families.add("magnetar_metadata_away_seconds", labels, broker.metadata_link.away_seconds)
    if broker.security is not None:
        _add_authentication(families, broker.security)
        yield
    if broker.transactions is not None and service.transactions is not None:
        add_transactions(families, broker.transactions, service.transactions.support, host_of(broker))
    if broker.load is not None:
        host = host_of(broker)
        for sample in load_metrics(broker.load):
            families.add(sample.name, families.labels(broker=host, **sample.labels), sample.value)


def add_schemas(families: MetricFamilies, counters: "SchemaCounters") -> None:
    """Adds the operations of the schema registry by namespace (SchemaRegistryStats)."""
    for (kind, namespace), latency in sorted(counters.operations.items()):
        name = f"pulsar_schema_{kind}_ops_latency"
        add_summary(families, name, latency, SCHEMA_QUANTILES, MILLISECONDS, namespace=namespace)
    for (verdict, namespace), count in sorted(counters.verdicts.items()):
        families.add(f"pulsar_schema_{verdict}_total", families.labels(namespace=namespace), count, "counter")


def host_of(broker: "Broker") -> str:
    """Returns the host in the broker's service URL, which is the value of the label `broker`."""
    return urlsplit(broker.addresses.urls.broker or broker.addresses.urls.broker_tls).hostname or ""


def _add_lookups_and_loads(families: MetricFamilies, broker: "Broker") -> None:
    labels = families.labels()
    lookups, loads = broker.lookups.counters, broker.service.load_permits
    add_summary(families, "pulsar_broker_lookup", lookups.latency, LOOKUP_QUANTILES)
    for outcome, count in (
        ("answers", lookups.answers),
        ("redirects", lookups.redirects),
        ("failures", lookups.failures),
    ):
        families.add(f"pulsar_broker_lookup_{outcome}_total", labels, count, "counter")
    families.add("pulsar_broker_lookup_pending_requests", labels, broker.lookups_in_progress)
    families.add("pulsar_broker_topic_load_pending_requests", labels, loads.held)
    add_summary(families, "pulsar_topic_load_times", loads.load_times, LOAD_QUANTILES, MILLISECONDS)
    families.add("topic_load_failed_total", labels, loads.loads_failed, "counter")
    _add_load_times(families, loads, host_of(broker))


def _add_load_times(families: MetricFamilies, loads: "LoadPermits", host: str) -> None:
    """Adds the times of topic loads once more, by the names that they have in BrokerOperabilityMetrics."""
    times = loads.load_times
    quantiles = times.quantiles([quantile for quantile, _ in LOAD_PERCENTILES], time.monotonic())
    values = {f"{name}_ms": MILLISECONDS * each for (_, name), each in zip(LOAD_PERCENTILES, quantiles, strict=True)}
    values["mean_ms"] = MILLISECONDS * times.seconds / times.count if times.count else 0.0
    labels = families.labels(broker=host, metric="topic_load_times")
    families.add_all(labels, ((f"pulsar_topic_load_time_{name}", value) for name, value in values.items()))
    failed = families.labels(broker=host, metric="topic_load_failed")
    families.add("pulsar_topic_load_failed_count", failed, loads.loads_failed)


def _add_connections(families: MetricFamilies, broker: "Broker") -> None:
    labels, host, clients = families.labels(), host_of(broker), broker.clients
    for name, value in (
        ("active_connections", clients.active),
        ("connection_created_total_count", clients.created),
        ("connection_create_success_count", clients.accepted),
        ("connection_create_fail_count", clients.refused),
        ("connection_closed_total_count", clients.closed),
    ):
        families.add(f"pulsar_{name}", families.labels(broker=host, metric="broker_connection"), value)
    families.add("pulsar_health", families.labels(broker=host, metric="broker_health"), broker.health)
    families.add("pulsar_broker_throttled_connections", labels, clients.throttled())
    families.add("pulsar_broker_pending_bytes_to_dispatch", labels, clients.unsent_bytes())
    families.add("magnetar_unanswered_publish_bytes", labels, clients.unanswered_publish_bytes())
    http = broker.http_calls
    families.add("pulsar_web_executor_max_threads", labels, http.calls_max)
    families.add("pulsar_web_executor_min_threads", labels, 0)
    families.add("pulsar_web_executor_active_threads", labels, http.in_progress)
    families.add("pulsar_web_executor_current_threads", labels, http.in_progress)
    families.add("pulsar_web_executor_idle_threads", labels, http.calls_max - http.in_progress)
    families.add("jetty_requests_total", labels, http.began, "counter")


def _add_metadata_store(families: MetricFamilies, store: MeasuredStore) -> Steps[None]:
    name = "pulsar_metadata_store_ops_latency_ms"
    for (kind, status), calls in list(store.latencies.items()):
        add_histogram(families, name, calls, name="metadata-store", type=kind, status=status)
        yield
    put_bytes = families.labels(name="metadata-store")
    families.add("pulsar_metadata_store_put_bytes_total", put_bytes, store.put_bytes, "counter")


def _add_authentication(families: MetricFamilies, security: "Security") -> None:
    """Adds the counts of logins and HTTP calls by authentication method (AuthenticationMetrics). In Apache's broker the
    failures also have a label for the reason; this broker only logs the reason."""
    for provider in security.providers.values():
        labels = families.labels(provider_name=provider.name, auth_method=provider.method)
        families.add("pulsar_authentication_success_total", labels, provider.accepted, "counter")
        families.add("pulsar_authentication_failures_total", labels, provider.rejected, "counter")
