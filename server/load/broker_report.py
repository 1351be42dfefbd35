"""A broker's report of its load, as Java's brokers write and read it: the value of the broker's registration.

The bytes are those that Jackson writes: its field order, its numbers, no null fields. Does no I/O. Sources:
LocalBrokerData, SystemResourceUsage, ResourceUsage and NamespaceBundleStats of
`org.apache.pulsar.policies.data.loadbalancer`.
"""

from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from magnetar.server.load import json_fields as fields
from magnetar.server.load.json_fields import Json

LOAD_MANAGER = "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl"
"""The class name that every broker of a cluster has to name. A broker that names another class is no candidate for
Java's leaders (BrokerLoadManagerClassFilter). If such a broker started last, every Java broker redirects all lookups to
brokers of that broker's class (RedirectManager)."""
BROKER_VERSION = "4.0.7"
"""The version of Pulsar whose behaviour Magnetar has. The text has to be a semantic version because of
`preferLaterVersions` (BrokerVersionFilter)."""
REPORT_TYPE = "LocalBrokerData"


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """How much of a resource is used, and the limit of the resource, in the same unit."""

    usage: float = 0.0
    limit: float = 0.0

    @property
    def fraction(self) -> float:
        """The used fraction of the resource, where 1.0 is all of it. The fraction of a resource without a limit is 0
        (ResourceUsage.percentUsage)."""
        return self.usage / self.limit if self.limit > 0 else 0.0

    @classmethod
    def of(cls, record: Json) -> "ResourceUsage":
        return cls(fields.number(record, "usage"), fields.number(record, "limit"))

    def to_json(self) -> Json:
        return {"usage": fields.finite(self.usage), "limit": fields.finite(self.limit)}


_FIGURE_NAMES = (
    "msgRateIn",
    "msgThroughputIn",
    "msgRateOut",
    "msgThroughputOut",
    "consumerCount",
    "producerCount",
    "topics",
    "cacheSize",
)
_FIGURES = itemgetter(*_FIGURE_NAMES)
_FIGURE_TYPES = (float,) * 4 + (int,) * 4


@dataclass(slots=True)
class BundleStats:
    """The traffic and the clients of a bundle (NamespaceBundleStats). Rates are per second."""

    msg_rate_in: float = 0.0
    msg_throughput_in: float = 0.0
    msg_rate_out: float = 0.0
    msg_throughput_out: float = 0.0
    consumers: int = 0
    producers: int = 0
    topics: int = 0
    cache_size: int = 0

    @property
    def is_idle(self) -> bool:
        """Whether the bundle has neither topics nor traffic."""
        return not (self.topics or self.msg_rate_in or self.msg_rate_out)

    @classmethod
    def of(cls, record: Json) -> "BundleStats":
        """Reads the figures. A report may have thousands of bundles, so a bundle whose fields are all well-formed is
        taken at once, and fields are checked one by one only for other bundles."""
        try:
            values: tuple[Any, ...] = _FIGURES(record)
        except KeyError:
            values = ()
        if tuple(map(type, values)) != _FIGURE_TYPES:
            values = (
                *(fields.number(record, name) for name in _FIGURE_NAMES[:4]),
                *(fields.whole(record, name) for name in _FIGURE_NAMES[4:]),
            )
        return cls(*values)

    def to_json(self) -> Json:
        return {
            "msgRateIn": fields.finite(self.msg_rate_in),
            "msgThroughputIn": fields.finite(self.msg_throughput_in),
            "msgRateOut": fields.finite(self.msg_rate_out),
            "msgThroughputOut": fields.finite(self.msg_throughput_out),
            "consumerCount": self.consumers,
            "producerCount": self.producers,
            "topics": self.topics,
            "cacheSize": self.cache_size,
        }


@dataclass(slots=True)
class BrokerUsage:
    """The host's resources as a broker reports them (SystemResourceUsage). `cpu` is in percent of one core, memory in
    MB, bandwidth in kbit/s."""

    cpu: ResourceUsage = field(default_factory=ResourceUsage)
    memory: ResourceUsage = field(default_factory=ResourceUsage)
    direct_memory: ResourceUsage = field(default_factory=ResourceUsage)
    bandwidth_in: ResourceUsage = field(default_factory=ResourceUsage)
    bandwidth_out: ResourceUsage = field(default_factory=ResourceUsage)


@dataclass(slots=True)
class LocalBrokerData:
    """A broker's report, the value of its registration. An absent URL is empty."""

    web_service_url: str = ""
    web_service_url_tls: str = ""
    pulsar_service_url: str = ""
    pulsar_service_url_tls: str = ""
    persistent_topics_enabled: bool = True
    non_persistent_topics_enabled: bool = True
    usage: BrokerUsage = field(default_factory=BrokerUsage)
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    last_update_ms: int = 0
    last_stats: dict[str, BundleStats] = field(default_factory=dict)
    """The figures of each bundle, by its full name, such as "tenant/namespace/0x00000000_0xffffffff"."""
    topics: int = 0
    bundle_count: int = 0
    consumers: int = 0
    producers: int = 0
    bundles: tuple[str, ...] = ()
    gains: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    """The bundles that the broker got and lost since it last wrote its report."""
    version: str = BROKER_VERSION
    protocols: Json = field(default_factory=dict)
    advertised_listeners: Json = field(default_factory=dict)
    """For each listener, by its name: `{brokerServiceUrl, brokerServiceUrlTls?, brokerHttpUrl?, brokerHttpsUrl?}`."""
    load_manager: str = LOAD_MANAGER
    start_ms: int = 0
    max_resource_usage: float = 0.0
    """The largest weighted usage of a resource, where 1.0 is all of it. Only the reporting broker reads this field; the
    leader weighs the resources by itself."""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """The four URLs. Two reports with equal URLs are reports of the same broker (LocalBrokerData.equals)."""
        return (self.web_service_url, self.web_service_url_tls, self.pulsar_service_url, self.pulsar_service_url_tls)

    @property
    def message_rate(self) -> float:
        return self.msg_rate_in + self.msg_rate_out

    @property
    def throughput(self) -> float:
        return self.msg_throughput_in + self.msg_throughput_out

    @classmethod
    def read(cls, value: bytes) -> "LocalBrokerData | None":
        """Returns the report in a record, or None when the record does not hold one."""
        record = fields.parse(value)
        if record is None:
            return None
        stats = {
            name: BundleStats.of(each)
            for name, each in fields.obj(record, "lastStats").items()
            if isinstance(each, dict)
        }
        usages = (fields.obj(record, name) for name in ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut"))
        return cls(
            web_service_url=fields.text(record, "webServiceUrl"),
            web_service_url_tls=fields.text(record, "webServiceUrlTls"),
            pulsar_service_url=fields.text(record, "pulsarServiceUrl"),
            pulsar_service_url_tls=fields.text(record, "pulsarServiceUrlTls"),
            persistent_topics_enabled=fields.flag(record, "persistentTopicsEnabled", True),
            non_persistent_topics_enabled=fields.flag(record, "nonPersistentTopicsEnabled", True),
            usage=BrokerUsage(*map(ResourceUsage.of, usages)),
            msg_throughput_in=fields.number(record, "msgThroughputIn"),
            msg_throughput_out=fields.number(record, "msgThroughputOut"),
            msg_rate_in=fields.number(record, "msgRateIn"),
            msg_rate_out=fields.number(record, "msgRateOut"),
            last_update_ms=fields.whole(record, "lastUpdate"),
            last_stats=stats,
            topics=fields.whole(record, "numTopics"),
            bundle_count=fields.whole(record, "numBundles"),
            consumers=fields.whole(record, "numConsumers"),
            producers=fields.whole(record, "numProducers"),
            bundles=fields.texts(record, "bundles"),
            gains=fields.texts(record, "lastBundleGains"),
            losses=fields.texts(record, "lastBundleLosses"),
            version=fields.text(record, "brokerVersionString"),
            protocols=fields.obj(record, "protocols"),
            advertised_listeners=fields.obj(record, "advertisedListeners"),
            load_manager=fields.text(record, "loadManagerClassName"),
            start_ms=fields.whole(record, "startTimestamp"),
            max_resource_usage=fields.number(record, "maxResourceUsage"),
        )

    def to_bytes(self) -> bytes:
        return fields.to_bytes(
            {
                "webServiceUrl": self.web_service_url or None,
                "webServiceUrlTls": self.web_service_url_tls or None,
                "pulsarServiceUrl": self.pulsar_service_url or None,
                "pulsarServiceUrlTls": self.pulsar_service_url_tls or None,
                "persistentTopicsEnabled": self.persistent_topics_enabled,
                "nonPersistentTopicsEnabled": self.non_persistent_topics_enabled,
                "cpu": self.usage.cpu.to_json(),
                "memory": self.usage.memory.to_json(),
                "directMemory": self.usage.direct_memory.to_json(),
                "bandwidthIn": self.usage.bandwidth_in.to_json(),
                "bandwidthOut": self.usage.bandwidth_out.to_json(),
                "msgThroughputIn": fields.finite(self.msg_throughput_in),
                "msgThroughputOut": fields.finite(self.msg_throughput_out),
                "msgRateIn": fields.finite(self.msg_rate_in),
                "msgRateOut": fields.finite(self.msg_rate_out),
                "lastUpdate": self.last_update_ms,
                "lastStats": {name: each.to_json() for name, each in self.last_stats.items()},
                "numTopics": self.topics,
                "numBundles": self.bundle_count,
                "numConsumers": self.consumers,
                "numProducers": self.producers,
                "bundles": self.bundles,
                "lastBundleGains": self.gains,
                "lastBundleLosses": self.losses,
                "brokerVersionString": self.version or None,
                "protocols": self.protocols,
                "advertisedListeners": self.advertised_listeners,
                "loadManagerClassName": self.load_manager or None,
                "startTimestamp": self.start_ms,
                "maxResourceUsage": fields.finite(self.max_resource_usage),
                "loadReportType": REPORT_TYPE,
            }
        )
