"""The strategies that choose one of several candidates for a bundle. The strategies do no I/O. Randomness is an
argument, so that equal calls with equal seeds choose equal brokers.

Sources: ModularLoadManagerStrategy and its implementations LeastLongTermMessageRate, LeastResourceUsageWithWeight,
RoundRobinBrokerSelector. The fourth strategy, AvgShedder, is in `average_shedder_rules.py`.
"""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Protocol

from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.load.load_view import BrokerLoad, LoadView
from magnetar.server.load.usage_rules import is_overloaded, weighted_usage


class PlacementStrategy(Protocol):
    """The interface of a placement strategy."""

    def select(
        self, candidates: Sequence[str], bundle: str, view: LoadView, settings: LoadSettings, random: Random
    ) -> str | None:
        """Returns one of the candidates, or None when there are no candidates. The caller passes the candidates sorted,
        and the view has all of them."""

    def keep_brokers(self, alive: Iterable[str]) -> None:
        """Forgets the brokers that are gone (onActiveBrokersChange)."""


class LeastLongTermMessageRate:
    """Chooses the broker with the lowest long-term message rate; the rate includes the bundles that were promised to
    the broker. Overloaded brokers are chosen only when all candidates are overloaded. (Java chooses at random when all
    brokers are overloaded.)"""

    def select(
        self, candidates: Sequence[str], bundle: str, view: LoadView, settings: LoadSettings, random: Random
    ) -> str | None:
        scores = {broker: _score(view.brokers[broker], settings) for broker in candidates}
        best = min(scores.values(), default=None)
        return _any_of([broker for broker in candidates if scores[broker] == best], random)

    def keep_brokers(self, alive: Iterable[str]) -> None:
        """Has no effect, because this strategy remembers nothing."""


def _score(load: BrokerLoad, settings: LoadSettings) -> tuple[bool, float]:
    rate = load.promised.message_rate + load.average.long_message_rate
    return is_overloaded(load.report.usage, settings), rate


class LeastResourceUsageWithWeight:
    """Chooses at random among the brokers whose usage, averaged over some time, is well below the average of all
    candidates. When there is no such broker, chooses at random among all candidates."""

    def __init__(self) -> None:
        self._usage: dict[str, float] = {}

    def select(
        self, candidates: Sequence[str], bundle: str, view: LoadView, settings: LoadSettings, random: Random
    ) -> str | None:
        if not candidates:
            return None
        for broker in candidates:
            self._usage[broker] = self._averaged(broker, view.brokers[broker], settings)
        mean = sum(self._usage[broker] for broker in candidates) / len(candidates)
        below = settings.load_balancer_average_resource_usage_difference_threshold_percentage / 100
        best = [broker for broker in candidates if self._usage[broker] + below <= mean]
        return _any_of(best or candidates, random)

    def keep_brokers(self, alive: Iterable[str]) -> None:
        kept = set(alive)
        self._usage = {broker: usage for broker, usage in self._usage.items() if broker in kept}

    def _averaged(self, broker: str, load: BrokerLoad, settings: LoadSettings) -> float:
        now = weighted_usage(load.report.usage, settings)
        old = self._usage.get(broker)
        if old is None or not load.report.bundles or not load.report.message_rate:
            return now  # a broker without load was just started, so its former usage does not count
        history = settings.load_balancer_history_resource_percentage
        return old * history + (1 - history) * now


class RoundRobinBrokerSelector:
    """Chooses one candidate after the other."""

    def __init__(self) -> None:
        self._count = 0

    def select(
        self, candidates: Sequence[str], bundle: str, view: LoadView, settings: LoadSettings, random: Random
    ) -> str | None:
        if not candidates:
            return None
        chosen = candidates[self._count % len(candidates)]
        self._count += 1
        return chosen

    def keep_brokers(self, alive: Iterable[str]) -> None:
        """Has no effect, because this strategy remembers only a number."""


def _any_of(brokers: Sequence[str], random: Random) -> str | None:
    return brokers[random.randrange(len(brokers))] if brokers else None
