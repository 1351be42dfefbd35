"""The knowledge of a broker about the load of all brokers: their reports, the averages over these reports, and the
bundles that were promised to brokers but are in no report yet. Does no I/O: reports, stored averages and times are
arguments.

Source: LoadData, BrokerData, and ModularLoadManagerImpl's updateAllBrokerData and updateBundleData. Two things differ.
Java adds a sample to all bundles whenever any broker writes its report; here a report adds one sample to each bundle in
this report. Java keeps an unused preallocation until the broker dies; here a preallocation ends after
PREALLOCATION_SECONDS_MAX.
"""

from collections.abc import Iterable
from typing import NamedTuple

from magnetar.server.load.broker_report import BundleStats, LocalBrokerData
from magnetar.server.load.bundle_averages import BundleData, TimeAverageBrokerData

DEFAULT_STATS = BundleStats(50.0, 50_000.0, 50.0, 50_000.0)
"""The assumed traffic of a bundle without any figures (DEFAULT_MESSAGE_RATE, DEFAULT_MESSAGE_THROUGHPUT)."""

PREALLOCATION_SECONDS_MAX = 20 * 60
"""How long a bundle counts for the broker that it was promised to. A broker that took the bundle has written a report
by then, because a report is never older than a quarter of an hour."""


def namespace_of(bundle: str) -> str:
    """Returns the namespace in a bundle's full name."""
    return bundle.rpartition("/")[0]


class Preallocation(NamedTuple):
    """A bundle that was promised to a broker, with the time of the promise and the bundle's load at that time."""

    since_s: float
    message_rate: float
    topics: int


class BrokerLoad:
    """The load of one registered broker. Sums are kept up to date at each change, because after the loss of a broker
    thousands of bundles are placed one after the other."""

    __slots__ = ("_promised_by_namespace", "average", "by_namespace", "preallocated", "promised", "report")

    def __init__(self, report: LocalBrokerData) -> None:
        self.report = report
        self.average = TimeAverageBrokerData()
        self.by_namespace: dict[str, set[str]] = {}
        """The bundles in the report, by namespace."""
        self.preallocated: dict[str, Preallocation] = {}
        """The bundles that were promised to this broker and that its report does not name yet. `promise` and
        `take_back` change it."""
        self.promised = Promised()
        self._promised_by_namespace: dict[str, set[str]] = {}

    def promise(self, bundle: str, data: BundleData, now_s: float) -> None:
        self.take_back(bundle)
        made = self.preallocated[bundle] = Preallocation(now_s, data.long_term.message_rate, data.topics)
        self._promised_by_namespace.setdefault(namespace_of(bundle), set()).add(bundle)
        self.promised = Promised(self.promised.message_rate + made.message_rate, self.promised.topics + made.topics)

    def take_back(self, bundle: str) -> None:
        """Ends the promise of a bundle. Has no effect when the bundle was not promised to this broker."""
        made = self.preallocated.pop(bundle, None)
        if made is None:
            return
        namespace = namespace_of(bundle)
        bundles = self._promised_by_namespace[namespace]
        bundles.discard(bundle)
        if not bundles:
            del self._promised_by_namespace[namespace]
        self.promised = Promised(self.promised.message_rate - made.message_rate, self.promised.topics - made.topics)
        if not self.preallocated:
            self.promised = Promised()  # so that rounding errors do not outlast the promises

    def bundles_of(self, namespace: str) -> int:
        """Returns how many bundles of a namespace the broker has, including the bundles that were promised to the
        broker."""
        reported, promised = self.by_namespace.get(namespace, _NONE), self._promised_by_namespace.get(namespace, _NONE)
        return len(reported) + sum(bundle not in reported for bundle in promised)

    @property
    def namespaces(self) -> set[str]:
        return {*self.by_namespace, *self._promised_by_namespace}

    @property
    def topics(self) -> int:
        return self.report.topics + self.promised.topics


class Promised(NamedTuple):
    """The sums over the bundles that were promised to a broker."""

    message_rate: float = 0.0
    topics: int = 0


_NONE: frozenset[str] = frozenset()


class LoadView:
    """The load of the cluster. All calls are made on one thread. A caller that changes the view must read it again
    after each await."""

    def __init__(self) -> None:
        self.brokers: dict[str, BrokerLoad] = {}
        self.bundles: dict[str, BundleData] = {}
        """The averages of every bundle that a report names."""
        self.unloaded_s: dict[str, float] = {}
        """The bundles that were moved lately, with the time of the move by the monotonic clock."""
        self.split_s: dict[str, float] = {}
        """The bundles that were split lately, with the time of the split. An old report may still name them."""
        self._destinations: dict[str, str] = {}
        self._new_bundles: set[str] = set()

    # --- reports -----------------------------------------------------------------------------------------------------

    def set_report(self, broker: str, report: LocalBrokerData) -> bool:
        """Takes a broker's report. Returns False when this report is known already."""
        load = self.brokers.get(broker)
        if load is not None and load.report == report:
            return False
        if load is None:
            load = self.brokers[broker] = BrokerLoad(report)
        load.report = report
        for bundle, stats in report.last_stats.items():
            data = self.bundles.get(bundle)
            if data is None:
                data = self.bundles[bundle] = BundleData.assuming(DEFAULT_STATS)
                self._new_bundles.add(bundle)
            data.add(stats)
        load.by_namespace = _by_namespace((*report.bundles, *report.last_stats))
        for bundle in (*report.bundles, *report.last_stats):
            load.take_back(bundle)
        self._sum_up(load)
        return True

    def take_new_bundles(self) -> set[str]:
        """Returns the bundles that a report has named for the first time since the last call. The metadata store may
        have averages of these bundles."""
        new, self._new_bundles = self._new_bundles, set()
        return new & self.bundles.keys()

    def learn(self, bundle: str, stored: BundleData) -> None:
        """Takes the averages that the metadata store has of a bundle. The bundle's figures in a broker's present report
        are added to these averages as a sample."""
        own = self.bundles.get(bundle)
        if own is None or own.long_term.samples > stored.long_term.samples:
            return
        for broker in self.brokers.values():
            stats = broker.report.last_stats.get(bundle)
            if stats is not None:
                stored.add(stats)
                self.bundles[bundle] = stored
                self._sum_up(broker)

    def _sum_up(self, load: BrokerLoad) -> None:
        load.average = TimeAverageBrokerData.total(load.report.last_stats, self.bundles, DEFAULT_STATS)

    def keep_brokers(self, alive: Iterable[str]) -> set[str]:
        """Forgets the brokers that are not registered any more, and the promises to them. Returns the ids of these
        brokers."""
        gone = self.brokers.keys() - set(alive)
        for broker in gone:
            del self.brokers[broker]
        self._destinations = {bundle: broker for bundle, broker in self._destinations.items() if broker not in gone}
        return gone

    def forget_unreported(self) -> set[str]:
        """Forgets the averages of bundles that no report names, unless the bundles were promised to a broker. Returns
        the forgotten bundles."""
        known = {bundle for load in self.brokers.values() for bundle in (*load.report.last_stats, *load.preallocated)}
        gone = self.bundles.keys() - known
        for bundle in gone:
            del self.bundles[bundle]
        return gone

    # --- promises ----------------------------------------------------------------------------------------------------

    def preallocated_to(self, bundle: str) -> str | None:
        return next((broker for broker, load in self.brokers.items() if bundle in load.preallocated), None)

    def preallocate(self, bundle: str, broker: str, data: BundleData, now_s: float) -> None:
        """Promises the bundle to a broker: from now on the bundle counts for this broker, and for no other broker."""
        self.release(bundle)
        self.brokers[broker].promise(bundle, data, now_s)

    def release(self, bundle: str) -> None:
        """Ends the promise of a bundle."""
        for load in self.brokers.values():
            load.take_back(bundle)

    def note_destination(self, bundle: str, broker: str) -> None:
        """Makes the next placement of the bundle choose this broker."""
        self._destinations[bundle] = broker

    def take_destination(self, bundle: str) -> str | None:
        """Returns the broker that was noted for a bundle, and forgets the note. Returns None when there is no note, or
        when the broker is not registered."""
        broker = self._destinations.pop(bundle, None)
        return broker if broker in self.brokers else None

    def expire(self, now_s: float, unloaded_s_max: float, split_s_max: float) -> None:
        """Forgets promises, moves and splits that are older than their time limits."""
        for load in self.brokers.values():
            for bundle, promise in list(load.preallocated.items()):
                if now_s - promise.since_s > PREALLOCATION_SECONDS_MAX:
                    load.take_back(bundle)
        self.unloaded_s = {name: at for name, at in self.unloaded_s.items() if now_s - at < unloaded_s_max}
        self.split_s = {name: at for name, at in self.split_s.items() if now_s - at < split_s_max}

    def forget_bundle(self, bundle: str) -> None:
        """Forgets a bundle that was split."""
        self.bundles.pop(bundle, None)
        self.release(bundle)


def _by_namespace(bundles: Iterable[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for bundle in bundles:
        found.setdefault(namespace_of(bundle), set()).add(bundle)
    return found
