"""The calls on statistics of this broker as a whole: its loaded topics by bundle, its load report, its metrics as JSON.

Apache answers with a snapshot that is up to a minute old. These calls answer with the present state, and with rates of
the last full period. Sources: BrokerStatsBase, PulsarStats, NamespaceStats, LocalBrokerData; answers recorded from
Pulsar 4.0.7.
"""

import os
import resource
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from magnetar import __version__
from magnetar.server.admin.bundle_calls import bundles_of
from magnetar.server.namespaces.bundle_ranges import bundle_of
from magnetar.server.process.turns import in_portions
from magnetar.server.stats.domain_stats import topic_stats
from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.broker_service import BrokerService
from magnetar.server.topics.counters import now_ms
from magnetar.server.web.calls import Answer, Call, Refusal, Route, Text
from magnetar.server.web.needs import SUPERUSER
from magnetar.server.web.places import Place

Json = dict[str, Any]
Loaded = dict[str, dict[str, list[BaseTopic]]]
"""Loaded topics by namespace and bundle."""

RATES = ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut")
MAXRSS_UNITS_PER_MB = 1 << 20 if sys.platform == "darwin" else 1 << 10
LOAD_MANAGER = "org.apache.pulsar.broker.loadbalance.NoopLoadManager"
"""The load manager that a standalone broker of Apache names."""
WRAPPER = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerWrapper"
NOT_MEASURED: Json = {"usage": -1.0, "limit": -1.0}
"""The value of Java's ResourceUsage before anything was measured."""

PUBLISHER = (
    "msgRateIn", "msgThroughputIn", "averageMsgSize", "address", "producerId", "producerName", "connectedSince",
    "clientVersion", "metadata",
)  # fmt: skip
CONSUMER = (
    "address", "consumerName", "availablePermits", "connectedSince", "msgRateOut", "msgThroughputOut",
    "msgRateRedeliver", "avgMessagesPerEntry", "messageAckRate", "unackedMessages", "blockedConsumerOnUnackedMsgs",
    "clientVersion", "metadata",
)  # fmt: skip
SUBSCRIPTION = (
    "msgBacklog", "msgRateExpired", "msgRateOut", "messageAckRate", "msgThroughputOut", "msgRateRedeliver", "type",
    "filterProcessedMsgCount", "filterAcceptedMsgCount", "filterRejectedMsgCount", "filterRescheduledMsgCount",
    "blockedSubscriptionOnUnackedMsgs", "unackedMessages", "msgDropRate",
)  # fmt: skip
TOPIC = ("averageMsgSize", *RATES, "storageSize", "backlogSize")
COUNTERS = {
    "msgInCount": "msgInCounter",
    "bytesInCount": "bytesInCounter",
    "msgOutCount": "msgOutCounter",
    "bytesOutCount": "bytesOutCounter",
}
"""The counters, by their names in the answers of this module, each with the counter's name in a topic's statistics."""


async def loaded_by_bundle(service: BrokerService) -> Loaded:
    """Returns the loaded topics of both domains by namespace and bundle. Bundles without a loaded topic are left out.
    Raises MetadataError."""
    found: Loaded = {}
    boundaries: dict[str, list[str]] = {}
    async for topic in in_portions(service.all_topics):
        namespace = topic.name.namespace
        if namespace not in boundaries:
            boundaries[namespace] = await bundles_of(service, namespace)
        bundle = bundle_of(boundaries[namespace], topic.name.full)
        found.setdefault(namespace, {}).setdefault(bundle, []).append(topic)
    return found


async def topics(call: Call) -> Answer:
    """Answers with the topics by namespace, bundle and domain. Every bundle has the member `persistent`, and has the
    member `non-persistent` only when it has such topics."""
    answer: Json = {}
    for namespace, bundles in (await loaded_by_bundle(call.broker.service)).items():
        for bundle, loaded in bundles.items():
            domains: Json = {"persistent": {}}
            async for topic in in_portions(loaded):
                domain = "persistent" if topic.name.is_persistent else "non-persistent"
                domains.setdefault(domain, {})[topic.name.full] = topic_summary(topic_stats(topic))
            answer.setdefault(namespace, {})[bundle] = domains
    return answer


def topic_summary(stats: Json) -> Json:
    """Returns those statistics of a topic that the call `topics` shows. The function does no I/O."""
    subscriptions = {
        name: {"consumers": [_of(each, CONSUMER) for each in held["consumers"]], **_of(held, SUBSCRIPTION)}
        for name, held in stats["subscriptions"].items()
    }
    return {
        "publishers": [_of(each, PUBLISHER) for each in stats["publishers"]],
        "replication": {},
        "subscriptions": subscriptions,
        "producerCount": len(stats["publishers"]),
        **_of(stats, TOPIC),
        **{name: stats[counter] for name, counter in COUNTERS.items()},
        "filteredEntriesCount": 0,
    }


def _of(stats: Json, keys: Iterable[str]) -> Json:
    return {key: stats[key] for key in keys if key in stats}


async def load_report(call: Call) -> Answer:
    """Answers with the report by which the leader of a cluster spreads bundles over brokers. A standalone broker has no
    leader that reads the report, but the report's sums still tell an administrator how much the broker has to do."""
    broker = call.broker
    if broker.load is not None and broker.load.reporter is not None:
        return Text(broker.load.reporter.report.to_bytes())
    urls = broker.addresses.urls
    bundles = {
        f"{namespace}/{bundle}": await _bundle_load(loaded)
        for namespace, held in (await loaded_by_bundle(broker.service)).items()
        for bundle, loaded in held.items()
    }

    def total(key: str) -> Any:
        return sum(each[key] for each in bundles.values())

    load = _machine_load()
    ports = {"webServiceUrl": urls.web, "webServiceUrlTls": urls.web_tls}
    ports |= {"pulsarServiceUrl": urls.broker, "pulsarServiceUrlTls": urls.broker_tls}
    return {
        **{name: url for name, url in ports.items() if url},
        "persistentTopicsEnabled": True,
        "nonPersistentTopicsEnabled": True,
        **load,
        **{key: total(key) for key in RATES},
        "lastUpdate": now_ms(),
        "lastStats": bundles,
        "numTopics": total("topics"),
        "numBundles": len(bundles),
        "numConsumers": total("consumerCount"),
        "numProducers": total("producerCount"),
        "bundles": list(bundles),
        "lastBundleGains": [],
        "lastBundleLosses": [],
        "brokerVersionString": __version__,
        "protocols": {},
        "advertisedListeners": {},
        "loadManagerClassName": LOAD_MANAGER,
        "startTimestamp": broker.started_ms,
        "maxResourceUsage": max(each["usage"] / each["limit"] for each in load.values() if each["limit"] > 0),
        "loadReportType": "LocalBrokerData",
    }


@dataclass(slots=True)
class _Sums:
    """The sums of statistics over some topics."""

    topics: int = 0
    rates: tuple[float, ...] = (0.0,) * len(RATES)
    backlog: int = 0
    consumers: int = 0
    producers: int = 0
    subscriptions: int = 0
    stored_bytes: int = 0

    def add(self, topic: BaseTopic) -> None:
        self.topics += 1
        self.rates = tuple(map(sum, zip(self.rates, _rates(topic), strict=True)))
        self.backlog += topic.backlog_entries
        self.consumers += topic.consumer_count
        self.producers += len(topic.producers)
        self.subscriptions += len(topic.subscriptions)
        self.stored_bytes += topic.stored_bytes


async def _sums_of(loaded: list[BaseTopic]) -> _Sums:
    sums = _Sums()
    async for topic in in_portions(loaded):
        sums.add(topic)
    return sums


async def _bundle_load(loaded: list[BaseTopic]) -> Json:
    sums = await _sums_of(loaded)
    return {
        **dict(zip(RATES, sums.rates, strict=True)),
        "consumerCount": sums.consumers,
        "producerCount": sums.producers,
        "topics": sums.topics,
        "cacheSize": 0,
    }


def _rates(topic: BaseTopic) -> tuple[float, float, float, float]:
    """Returns the rates of a topic in the order of RATES."""
    out = topic.counters_out()
    return (
        topic.publishing.counters.message_rate.value,
        topic.publishing.counters.byte_rate.value,
        out.message_rate.value,
        out.byte_rate.value,
    )


def _machine_load() -> Json:
    """Returns the load of the machine's processors, where 100 is one processor, and the most memory in MB that this
    process has ever used."""
    cores = os.cpu_count() or 1
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    used_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MAXRSS_UNITS_PER_MB
    return {
        "cpu": {"usage": min(os.getloadavg()[0], cores) * 100.0, "limit": cores * 100.0},
        "memory": {"usage": used_mb, "limit": pages / (1 << 20)},
        "directMemory": NOT_MEASURED,
        "bandwidthIn": NOT_MEASURED,
        "bandwidthOut": NOT_MEASURED,
    }


async def metrics(call: Call) -> Answer:
    """Answers with metrics of the namespaces and of the connections. The path /metrics has more metrics, and has them
    for each topic."""
    by_namespace: dict[str, _Sums] = {}
    async for topic in in_portions(call.broker.service.all_topics):
        by_namespace.setdefault(topic.name.namespace, _Sums()).add(topic)
    clients = call.broker.clients
    connections = {
        "brk_active_connections": clients.active,
        "brk_connection_closed_total_count": clients.closed,
        "brk_connection_create_fail_count": clients.refused,
        "brk_connection_create_success_count": clients.accepted,
        "brk_connection_created_total_count": clients.created,
    }
    where = {"broker": call.broker.broker_id.rpartition(":")[0], "cluster": call.broker.cluster}
    return [
        *({"metrics": _figures(sums), "dimensions": {"namespace": name}} for name, sums in by_namespace.items()),
        {"metrics": connections, "dimensions": {**where, "metric": "broker_connection"}},
    ]


def _figures(sums: _Sums) -> Json:
    rate_in, throughput_in, rate_out, throughput_out = sums.rates
    return {
        "brk_in_rate": rate_in,
        "brk_in_tp_rate": throughput_in,
        "brk_max_replication_delay_second": 0.0,
        "brk_msg_backlog": sums.backlog,
        "brk_no_of_consumers": sums.consumers,
        "brk_no_of_producers": sums.producers,
        "brk_no_of_replicators": 0,
        "brk_no_of_subscriptions": sums.subscriptions,
        "brk_out_rate": rate_out,
        "brk_out_tp_rate": throughput_out,
        "brk_replication_backlog": 0.0,
        "brk_storage_size": sums.stored_bytes,
    }


async def resource_availability(call: Call) -> Answer:
    """Refuses the call, as the load manager of Apache's brokers does (ModularLoadManagerWrapper)."""
    raise Refusal(409, f"{WRAPPER} does not support this operation")


STATS = "/admin/v2/broker-stats"

ROUTES = (
    Route("GET", f"{STATS}/topics", topics, SUPERUSER, Place.ASKED_BROKER),
    Route("GET", f"{STATS}/load-report", load_report, SUPERUSER, Place.ASKED_BROKER),
    Route("GET", f"{STATS}/metrics", metrics, SUPERUSER, Place.ASKED_BROKER),
    Route(
        "GET",
        f"{STATS}/broker-resource-availability/{{tenant}}/{{namespace}}",
        resource_availability,
        SUPERUSER,
        Place.ANY_BROKER,
    ),
)
