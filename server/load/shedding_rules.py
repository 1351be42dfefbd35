"""Decides which bundles are moved away from overloaded brokers. Does no I/O.

Sources: ThresholdShedder, OverloadShedder and UniformLoadShedder of Pulsar 4.0; the fourth strategy, AvgShedder, is in
`average_shedder_rules.py`. One thing differs. Java's ThresholdShedder and OverloadShedder move their largest bundle
even if the receiving broker then has more load than the giving broker had: such a bundle moves back after the grace
period, and so on for ever. Here a bundle is passed over when moving it to the idlest broker would not lower the larger
of the two loads.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.load.bundle_averages import AverageData
from magnetar.server.load.load_view import BrokerLoad, LoadView, namespace_of
from magnetar.server.load.usage_rules import weighted_usage
from magnetar.server.namespaces.lookup_rules import is_bound

MB = 1 << 20
MARGIN = 0.05
"""How far below the threshold the usage of a broker shall get, as a fraction of the broker's capacity
(ADDITIONAL_THRESHOLD_PERCENT_MARGIN)."""
DELTA = 1000
"""By how much the traffic of a bundle may exceed the traffic that UniformLoadShedder wants to move."""
ALMOST_NOTHING = 1e-6


@dataclass(frozen=True, slots=True)
class Move:
    """A bundle that shall be moved away from a broker."""

    bundle: str
    broker: str


class SheddingStrategy(Protocol):
    """The interface of a shedding strategy."""

    def find(self, view: LoadView, settings: LoadSettings) -> list[Move]:
        """Returns the bundles that shall be moved now. Called once for each interval, because some strategies count the
        intervals with an imbalance."""

    def keep_brokers(self, alive: Iterable[str]) -> None:
        """Forgets the brokers that are gone (onActiveBrokersChange)."""


def movable(view: LoadView, broker: str) -> list[str]:
    """Returns the bundles of a broker that may be moved, that is, bundles that were not moved lately and whose
    namespaces are not reserved for this broker (`is_bound`)."""
    load = view.brokers[broker]
    return [
        bundle
        for bundle in load.report.bundles
        if bundle in view.bundles and bundle not in view.unloaded_s and not is_bound(namespace_of(bundle))
    ]


def by_throughput(view: LoadView, bundles: Iterable[str]) -> list[tuple[float, str]]:
    """Returns the bundles with their short-term throughput, the largest first."""
    return sorted(((_short(view, each).throughput, each) for each in bundles), key=_largest_first)


def by_message_rate(view: LoadView, bundles: Iterable[str]) -> list[tuple[float, str]]:
    """Returns the bundles with their short-term message rate, the largest first."""
    return sorted(((_short(view, each).message_rate, each) for each in bundles), key=_largest_first)


def _largest_first(each: tuple[float, str]) -> tuple[float, str]:
    return -each[0], each[1]


def _short(view: LoadView, bundle: str) -> AverageData:
    return view.bundles[bundle].short_term


class ThresholdShedder:
    """Moves bundles away from brokers whose usage, averaged over some time, is well above the average of all
    brokers."""

    def __init__(self) -> None:
        self._usage: dict[str, float] = {}

    def find(self, view: LoadView, settings: LoadSettings) -> list[Move]:
        self.keep_brokers(view.brokers)
        for broker, load in view.brokers.items():
            self._usage[broker] = self._averaged(broker, load, settings)
        mean = sum(self._usage.values()) / len(self._usage) if self._usage else 0.0
        if mean == 0:
            return []
        threshold = settings.load_balancer_broker_threshold_shedder_percentage / 100
        moves: list[Move] = []
        for broker, load in view.brokers.items():
            above = self._usage[broker] - mean
            if above >= threshold:
                wanted = load.report.throughput * (above - threshold + MARGIN)
                moves += self._from(broker, wanted, view, settings)
        if not moves and settings.lower_boundary_shedding_enabled:
            return self._for_idle_broker(mean, threshold, view, settings)
        return moves

    def keep_brokers(self, alive: Iterable[str]) -> None:
        kept = set(alive)
        self._usage = {broker: usage for broker, usage in self._usage.items() if broker in kept}

    def _averaged(self, broker: str, load: BrokerLoad, settings: LoadSettings) -> float:
        now = weighted_usage(load.report.usage, settings)
        history = settings.load_balancer_history_resource_percentage
        old = self._usage.get(broker)
        return now if old is None else old * history + (1 - history) * now

    def _from(self, broker: str, wanted: float, view: LoadView, settings: LoadSettings) -> list[Move]:
        if wanted < settings.load_balancer_bundle_unload_min_throughput_threshold * MB:
            return []
        return largest_moves(view, broker, wanted, self._usage)

    def _for_idle_broker(self, mean: float, threshold: float, view: LoadView, settings: LoadSettings) -> list[Move]:
        """Returns moves away from the fullest broker if another broker is far below the average. In a large cluster
        this can happen without any broker far above the average (tryLowerBoundaryShedding)."""
        if min(self._usage.values()) >= mean - threshold:
            return []
        full = [broker for broker, load in view.brokers.items() if len(load.report.bundles) > 1]
        if not full:
            return []
        fullest = max(sorted(full), key=lambda broker: self._usage[broker])
        return self._from(fullest, view.brokers[fullest].report.throughput * threshold * 0.5, view, settings)


class OverloadShedder:
    """Moves bundles away from overloaded brokers, whatever the load of the other brokers is."""

    def find(self, view: LoadView, settings: LoadSettings) -> list[Move]:
        threshold = settings.load_balancer_broker_overloaded_threshold_percentage / 100
        usage = {broker: weighted_usage(load.report.usage, settings) for broker, load in view.brokers.items()}
        moves: list[Move] = []
        for broker, load in view.brokers.items():
            above = usage[broker] - threshold
            if above >= 0:
                moves += largest_moves(view, broker, load.report.throughput * (above + MARGIN), usage)
        return moves

    def keep_brokers(self, alive: Iterable[str]) -> None:
        """Has no effect, because this strategy remembers nothing."""


def largest_moves(view: LoadView, broker: str, wanted: float, usage: dict[str, float]) -> list[Move]:
    """Returns the bundles with the largest throughput, until their sum reaches `wanted`. Returns at least one bundle if
    any bundle is worth moving. The only bundle of a broker is never moved. `usage` has the usage of every broker."""
    load = view.brokers[broker]
    if len(load.report.bundles) < 2:
        return []
    idlest = min((each for name, each in usage.items() if name != broker), default=1.0)
    total = load.report.throughput
    moves: list[Move] = []
    moved = 0.0
    for throughput, bundle in by_throughput(view, movable(view, broker)):
        if moves and moved >= wanted:
            break
        share = usage[broker] * min(1.0, (moved + throughput) / total) if total else 0.0
        if idlest + share >= usage[broker]:
            continue
        moves.append(Move(bundle, broker))
        moved += throughput
    return moves


@dataclass(frozen=True, slots=True)
class _Gap:
    """The broker with the most of one kind of traffic, and the largest and the smallest traffic of a broker. `least` is
    1 instead of almost nothing, so that others can be divided by it."""

    most_broker: str
    most: float
    least: float


class UniformLoadShedder:
    """Moves bundles from the busiest broker when the idlest one has far less traffic, in messages or in bytes."""

    def find(self, view: LoadView, settings: LoadSettings) -> list[Move]:
        if not view.brokers:
            return []
        reports = {broker: load.report for broker, load in view.brokers.items()}
        rate = _gap({broker: report.message_rate for broker, report in reports.items()})
        throughput = _gap({broker: report.throughput for broker, report in reports.items()})
        rate_limit = settings.load_balancer_msg_rate_difference_shedder_threshold
        factor = settings.load_balancer_msg_throughput_multiplier_difference_shedder_threshold
        part = settings.max_unload_percentage
        if rate_limit > 0 and (rate.most - rate.least) * 100 / rate.least > rate_limit:
            wanted = int((rate.most - rate.least) * part)
            if wanted < settings.min_unload_message:
                return []
            return _fitting(view, rate.most_broker, wanted, by_message_rate, settings)
        if factor > 0 and throughput.most / throughput.least > factor:
            wanted = int((throughput.most - throughput.least) * part)
            if wanted < settings.min_unload_message_throughput:
                return []
            return _fitting(view, throughput.most_broker, wanted, by_throughput, settings)
        return []

    def keep_brokers(self, alive: Iterable[str]) -> None:
        """Has no effect, because this strategy remembers nothing."""


def _gap(values: dict[str, float]) -> _Gap:
    most_broker = max(sorted(values), key=lambda broker: values[broker])
    least = min(values.values())
    return _Gap(most_broker, values[most_broker], 1.0 if abs(least) <= ALMOST_NOTHING else least)


class _Order(Protocol):
    def __call__(self, view: LoadView, bundles: Iterable[str]) -> list[tuple[float, str]]: ...


def _fitting(view: LoadView, broker: str, wanted: float, order: _Order, settings: LoadSettings) -> list[Move]:
    """Returns the moves of the largest bundles whose traffic fits into the wanted traffic. A bundle may exceed the rest
    of the wanted traffic by DELTA."""
    if len(view.brokers[broker].report.bundles) < 2:
        return []
    most = settings.max_unload_bundle_num_per_shedding
    moves: list[Move] = []
    for traffic, bundle in order(view, movable(view, broker)):
        if most != -1 and len(moves) >= most:
            break
        if 0 < traffic <= wanted + DELTA:
            moves.append(Move(bundle, broker))
            wanted -= traffic
    return moves
