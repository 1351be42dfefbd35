"""The averages that the leader keeps of bundles and brokers, and the quotas that replace missing averages, in the
format of Java's brokers. Does no I/O. Sources: BundleData, TimeAverageMessageData and TimeAverageBrokerData of
`org.apache.pulsar.policies.data.loadbalancer`; ResourceQuota; BrokerServiceUrl, the value of LeaderElectionService.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from magnetar.server.load import json_fields as fields
from magnetar.server.load.broker_report import BundleStats
from magnetar.server.load.json_fields import Json

SHORT_SAMPLES_MAX = 10
LONG_SAMPLES_MAX = 1000
"""How many samples the averages of a bundle remember (ModularLoadManagerImpl.NUM_SHORT_SAMPLES, NUM_LONG_SAMPLES)."""


@dataclass(slots=True)
class AverageData:
    """A moving average of a bundle's traffic (TimeAverageMessageData)."""

    samples_max: int
    samples: int = 0
    msg_throughput_in: float = 0.0
    msg_throughput_out: float = 0.0
    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0

    @property
    def message_rate(self) -> float:
        return self.msg_rate_in + self.msg_rate_out

    @property
    def throughput(self) -> float:
        return self.msg_throughput_in + self.msg_throughput_out

    def add(self, stats: BundleStats) -> None:
        """Adds a sample (TimeAverageMessageData.update). After `samples_max` samples, a new sample has the weight 1 /
        `samples_max`."""
        self.samples = samples = min(self.samples + 1, max(self.samples_max, 1))
        self.msg_throughput_in = _mean(self.msg_throughput_in, stats.msg_throughput_in, samples)
        self.msg_throughput_out = _mean(self.msg_throughput_out, stats.msg_throughput_out, samples)
        self.msg_rate_in = _mean(self.msg_rate_in, stats.msg_rate_in, samples)
        self.msg_rate_out = _mean(self.msg_rate_out, stats.msg_rate_out, samples)

    def assume(self, stats: BundleStats) -> None:
        """Sets the averages to these stats without counting a sample, so that the first real sample replaces them."""
        self.msg_throughput_in, self.msg_throughput_out = stats.msg_throughput_in, stats.msg_throughput_out
        self.msg_rate_in, self.msg_rate_out = stats.msg_rate_in, stats.msg_rate_out

    @classmethod
    def of(cls, record: Json, samples_max: int) -> "AverageData":
        given = fields.whole(record, "maxSamples", samples_max)
        return cls(
            given if given > 0 else samples_max,
            max(0, fields.whole(record, "numSamples")),
            fields.number(record, "msgThroughputIn"),
            fields.number(record, "msgThroughputOut"),
            fields.number(record, "msgRateIn"),
            fields.number(record, "msgRateOut"),
        )

    def to_json(self) -> Json:
        return {
            "maxSamples": self.samples_max,
            "numSamples": self.samples,
            "msgThroughputIn": fields.finite(self.msg_throughput_in),
            "msgThroughputOut": fields.finite(self.msg_throughput_out),
            "msgRateIn": fields.finite(self.msg_rate_in),
            "msgRateOut": fields.finite(self.msg_rate_out),
        }


def _mean(old: float, sample: float, samples: int) -> float:
    return ((samples - 1) * old + sample) / samples


@dataclass(slots=True)
class BundleData:
    """The leader's data of a bundle: the traffic, averaged over a short and a long time, and the number of topics."""

    short_term: AverageData
    long_term: AverageData
    topics: int = 0
    unknown: Json = field(default_factory=dict)
    """The fields of the stored record that this version does not know. They are written back unchanged."""

    @classmethod
    def assuming(cls, stats: BundleStats) -> "BundleData":
        """Returns the data of a bundle that no report has named yet. The averages are set to these stats, which do not
        count as a sample (BundleData's constructor with NamespaceBundleStats)."""
        averages = (AverageData(SHORT_SAMPLES_MAX), AverageData(LONG_SAMPLES_MAX))
        for average in averages:
            average.assume(stats)
        return cls(*averages)

    def add(self, stats: BundleStats) -> None:
        """Adds a sample, taken from a broker's new report (BundleData.update)."""
        self.short_term.add(stats)
        self.long_term.add(stats)
        self.topics = stats.topics

    @classmethod
    def read(cls, value: bytes) -> "BundleData | None":
        """Returns the data in a record, or None when the record does not hold a JSON object."""
        record = fields.parse(value)
        if record is None:
            return None
        known = ("shortTermData", "longTermData", "topics")
        return cls(
            AverageData.of(fields.obj(record, "shortTermData"), SHORT_SAMPLES_MAX),
            AverageData.of(fields.obj(record, "longTermData"), LONG_SAMPLES_MAX),
            fields.whole(record, "topics"),
            {name: value for name, value in record.items() if name not in known and value is not None},
        )

    def to_bytes(self) -> bytes:
        return fields.to_bytes(
            {
                "shortTermData": self.short_term.to_json(),
                "longTermData": self.long_term.to_json(),
                "topics": self.topics,
                **self.unknown,
            }
        )


@dataclass(slots=True)
class TimeAverageBrokerData:
    """The traffic of a broker: the sums over the averages of its bundles."""

    short_throughput_in: float = 0.0
    short_throughput_out: float = 0.0
    short_rate_in: float = 0.0
    short_rate_out: float = 0.0
    long_throughput_in: float = 0.0
    long_throughput_out: float = 0.0
    long_rate_in: float = 0.0
    long_rate_out: float = 0.0

    @property
    def long_message_rate(self) -> float:
        return self.long_rate_in + self.long_rate_out

    @classmethod
    def total(
        cls, bundles: Iterable[str], known: Mapping[str, BundleData], default: BundleStats
    ) -> "TimeAverageBrokerData":
        """Returns the sums over these bundles. A bundle that is not in `known` counts with the default stats
        (TimeAverageBrokerData.reset)."""
        total = cls()
        for bundle in bundles:
            data = known.get(bundle) or BundleData.assuming(default)
            short, long = data.short_term, data.long_term
            total.short_throughput_in += short.msg_throughput_in
            total.short_throughput_out += short.msg_throughput_out
            total.short_rate_in += short.msg_rate_in
            total.short_rate_out += short.msg_rate_out
            total.long_throughput_in += long.msg_throughput_in
            total.long_throughput_out += long.msg_throughput_out
            total.long_rate_in += long.msg_rate_in
            total.long_rate_out += long.msg_rate_out
        return total

    @classmethod
    def read(cls, value: bytes) -> "TimeAverageBrokerData | None":
        """Returns the data in a record, or None when the record does not hold a JSON object."""
        record = fields.parse(value)
        if record is None:
            return None
        return cls(*(fields.number(record, name) for name in _BROKER_AVERAGES))

    def to_bytes(self) -> bytes:
        values = (
            self.short_throughput_in,
            self.short_throughput_out,
            self.short_rate_in,
            self.short_rate_out,
            self.long_throughput_in,
            self.long_throughput_out,
            self.long_rate_in,
            self.long_rate_out,
        )
        return fields.to_bytes(dict(zip(_BROKER_AVERAGES, map(fields.finite, values), strict=True)))


_BROKER_AVERAGES = tuple(
    f"{term}TermMsg{what}"
    for term in ("short", "long")
    for what in ("ThroughputIn", "ThroughputOut", "RateIn", "RateOut")
)


@dataclass(frozen=True, slots=True)
class ResourceQuota:
    """The resources that an operator expects a bundle to need. Bandwidth is in bytes per second, memory in MB."""

    msg_rate_in: float = 40.0
    msg_rate_out: float = 120.0
    bandwidth_in: float = 100_000.0
    bandwidth_out: float = 300_000.0
    memory: float = 80.0
    is_dynamic: bool = True

    @classmethod
    def read(cls, value: bytes) -> "ResourceQuota | None":
        """Returns the quota in a record, or None when the record does not hold a JSON object. A missing field is 0; if
        the field `dynamic` is missing, the quota is dynamic (ResourceQuota's constructor)."""
        record = fields.parse(value)
        if record is None:
            return None
        in_, out, bytes_in, bytes_out, memory = (fields.number(record, name) for name in _QUOTA_NUMBERS)
        return cls(in_, out, bytes_in, bytes_out, memory, fields.flag(record, "dynamic", True))

    def to_bytes(self) -> bytes:
        values = (self.msg_rate_in, self.msg_rate_out, self.bandwidth_in, self.bandwidth_out, self.memory)
        numbers: dict[str, Any] = dict(zip(_QUOTA_NUMBERS, map(fields.finite, values), strict=True))
        return fields.to_bytes({**numbers, "dynamic": self.is_dynamic})

    def as_bundle_data(self) -> BundleData:
        """Returns the data of a bundle that is as busy as its quota says, as if there were a full history of samples
        (ModularLoadManagerImpl.getBundleDataOrDefault)."""
        data = BundleData.assuming(
            BundleStats(self.msg_rate_in, self.bandwidth_in, self.msg_rate_out, self.bandwidth_out)
        )
        data.short_term.samples, data.long_term.samples = SHORT_SAMPLES_MAX, LONG_SAMPLES_MAX
        return data


_QUOTA_NUMBERS = ("msgRateIn", "msgRateOut", "bandwidthIn", "bandwidthOut", "memory")


@dataclass(frozen=True, slots=True)
class LeaderRecord:
    """The record of the leader, which is the value of /loadbalance/leader."""

    broker_id: str
    service_url: str

    @classmethod
    def read(cls, value: bytes) -> "LeaderRecord | None":
        """Returns the leader in a record, or None when the record names no leader."""
        record = fields.parse(value)
        if record is None or not fields.text(record, "brokerId"):
            return None
        return cls(fields.text(record, "brokerId"), fields.text(record, "serviceUrl"))

    def to_bytes(self) -> bytes:
        return fields.to_bytes({"brokerId": self.broker_id, "serviceUrl": self.service_url})
