"""The strategy that pairs the fullest broker with the idlest one, the second fullest with the second idlest, and so on,
and moves bundles within a pair. The strategy both sheds and places, so that a bundle goes to the broker for which the
shedding selected it. Does no I/O; randomness is an argument. Source: AvgShedder.
"""

from collections.abc import Iterable, Sequence
from random import Random

from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.load.load_view import LoadView
from magnetar.server.load.shedding_rules import Move, by_message_rate, by_throughput, movable
from magnetar.server.load.usage_rules import weighted_usage


class AvgShedder:
    """Sheds when the usages of the two brokers of a pair have differed by the low or the high threshold for a number of
    checks in a row. Each threshold has its own number of checks."""

    def __init__(self) -> None:
        self._meant: dict[str, str] = {}
        """For each bundle that was or is to be moved, the broker that shall get the bundle."""
        self._hits_high: dict[str, int] = {}
        self._hits_low: dict[str, int] = {}
        """For how many checks in a row each broker was in a pair whose usages differ by the low threshold. `_hits_high`
        counts these checks for the high threshold."""

    # --- shedding ----------------------------------------------------------------------------------------------------

    def find(self, view: LoadView, settings: LoadSettings) -> list[Move]:
        scores = {broker: 100 * weighted_usage(load.report.usage, settings) for broker, load in view.brokers.items()}
        ranked = sorted(scores, key=lambda broker: (scores[broker], broker))
        pairs = [(ranked[at], ranked[-1 - at]) for at in range(len(ranked) // 2)]
        self.keep_brokers(view.brokers)
        self._meant = {bundle: broker for bundle, broker in self._meant.items() if bundle in view.bundles}
        moves: list[Move] = []
        apart = [(idle, full) for idle, full in pairs if self._count(idle, full, scores[full] - scores[idle], settings)]
        if not apart:
            self._hits_high.clear()
            self._hits_low.clear()
        for idle, full in apart:
            if self._is_due(idle, full, settings):
                for broker in (idle, full):
                    self._hits_high.pop(broker, None)
                    self._hits_low.pop(broker, None)
                moves += self._moves(idle, full, view, settings)
        return moves

    def _count(self, idle: str, full: str, difference: float, settings: LoadSettings) -> bool:
        """Counts a check of the pair. Returns whether the usages of the pair differ by the low threshold at least."""
        if difference < settings.load_balancer_avg_shedder_low_threshold:
            for broker in (idle, full):
                self._hits_high.pop(broker, None)
                self._hits_low.pop(broker, None)
            return False
        far = difference >= settings.load_balancer_avg_shedder_high_threshold
        for broker in (idle, full):
            self._hits_low[broker] = self._hits_low.get(broker, 0) + 1
            if far:
                self._hits_high[broker] = self._hits_high.get(broker, 0) + 1
            else:
                self._hits_high.pop(broker, None)
        return True

    def _is_due(self, idle: str, full: str, settings: LoadSettings) -> bool:
        high = settings.load_balancer_avg_shedder_hit_count_high_threshold
        low = settings.load_balancer_avg_shedder_hit_count_low_threshold
        return any(
            self._hits_high.get(broker, 0) >= high or self._hits_low.get(broker, 0) >= low for broker in (idle, full)
        )

    def _moves(self, idle: str, full: str, view: LoadView, settings: LoadSettings) -> list[Move]:
        """Returns moves of bundles that make up a part of the difference between the two brokers: of the difference in
        messages if it is large enough, otherwise of the difference in bytes."""
        less, more = view.brokers[idle].report, view.brokers[full].report
        if len(more.bundles) < 2:
            return []
        messages = (more.message_rate - less.message_rate) * settings.max_unload_percentage
        bytes_ = (more.throughput - less.throughput) * settings.max_unload_percentage
        candidates = movable(view, full)
        if messages > settings.min_unload_message:
            wanted, ordered = messages, by_message_rate(view, candidates)
        elif bytes_ > settings.min_unload_message_throughput:
            wanted, ordered = bytes_, by_throughput(view, candidates)
        else:
            return []
        moves = []
        for traffic, bundle in ordered:
            if 0 < traffic <= wanted:
                moves.append(Move(bundle, full))
                self._meant[bundle] = idle
                wanted -= traffic
        return moves

    def keep_brokers(self, alive: Iterable[str]) -> None:
        kept = set(alive)
        for hits in (self._hits_high, self._hits_low):
            for broker in hits.keys() - kept:
                del hits[broker]

    # --- placement ---------------------------------------------------------------------------------------------------

    def select(
        self, candidates: Sequence[str], bundle: str, view: LoadView, settings: LoadSettings, random: Random
    ) -> str | None:
        """Returns the broker for which the shedding meant the bundle. If this broker is no candidate, returns a random
        candidate; the next shedding takes the bundle's load there into account."""
        if not candidates:
            return None
        meant = self._meant.get(bundle)
        if meant not in candidates:
            meant = self._meant[bundle] = candidates[random.randrange(len(candidates))]
        return meant
