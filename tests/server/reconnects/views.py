"""Everything in the product that keeps a picture of records by a watch, in one form, so that one test can cut the
connection of each: a `View` makes the picture, somebody else changes a record, and the view says whether the picture
shows it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, cast

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import to_json
from magnetar.metadata.coordination.record_cache import RecordCache
from magnetar.metadata.store import MetadataStore
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.load.cluster_rule_records import ClusterRuleRecords
from magnetar.server.load.registered_brokers import RegisteredBrokers
from magnetar.server.namespaces.partitioned_topics import PartitionedTopic, PartitionedTopics
from magnetar.server.namespaces.topic_catalog import TopicCatalog
from magnetar.server.namespaces.topic_watchers import TopicWatchers, Watcher
from magnetar.server.peers.followed_policies import FollowedPolicies
from magnetar.server.peers.peer_addresses import PeerAddresses
from magnetar.server.policies.namespace_records import NamespaceRecords
from magnetar.server.policies.policies import Policies
from magnetar.storage.ledger.bookie_registry import BookieRegistry
from magnetar.storage.managed.takeover_watch import TakeoverWatch
from magnetar.storage.repair.underreplication import Underreplication
from pulsar_proto.names import TopicName

NAMESPACE = "public/default"
BROKER = "/loadbalance/brokers/broker:8080"
REPORT = {
    "webServiceUrl": "http://broker:8080",
    "pulsarServiceUrl": "pulsar://broker:6650",
    "loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl",
}


class View(ABC):
    """One picture."""

    module: str
    """The file that watches."""

    async def prepare(self, direct: MetadataStore) -> None:  # noqa: B027
        """Makes the records that are there before the picture is made."""

    @abstractmethod
    async def start(self, store: MetadataStore) -> None:
        """Makes the picture."""

    @abstractmethod
    async def change(self, direct: MetadataStore) -> None:
        """Changes a record while the view cannot hear of it."""

    @abstractmethod
    async def sees(self) -> bool:
        """Returns whether the picture shows the change."""

    async def close(self) -> None:  # noqa: B027
        """Ends the watch."""


class NamespacesView(View):
    module = "server/policies/namespace_records.py"

    async def prepare(self, direct: MetadataStore) -> None:
        await direct.create(paths.policies_path(NAMESPACE), b'{"a":1}', make_parents=True)

    async def start(self, store: MetadataStore) -> None:
        self.told: list[str] = []
        self.records = NamespaceRecords(store, self.told.append)
        self.records.start()
        assert await self.records.get(NAMESPACE) == {"a": 1}
        self.told.clear()

    async def change(self, direct: MetadataStore) -> None:
        await direct.put(paths.policies_path(NAMESPACE), b'{"a":2}')

    async def sees(self) -> bool:
        return self.records.cached(NAMESPACE) == {"a": 2} and self.told == [NAMESPACE]

    async def close(self) -> None:
        self.records.close()


class PartitionedTopicsView(View):
    module = "server/namespaces/partitioned_topics.py"
    name = TopicName.parse(f"persistent://{NAMESPACE}/p")

    async def start(self, store: MetadataStore) -> None:
        self.topics = PartitionedTopics(store)
        self.topics.start()
        assert await self.topics.get(self.name) is None

    async def change(self, direct: MetadataStore) -> None:
        await PartitionedTopics(direct).create(self.name, 3)

    async def sees(self) -> bool:
        return await self.topics.get(self.name) == PartitionedTopic(3)

    async def close(self) -> None:
        self.topics.close()


class _Owned:
    """An open managed ledger that counts how often it is asked whose it is."""

    def __init__(self) -> None:
        self.checks = 0

    def changes_seen(self, changes: int | None) -> bool:
        return True

    async def check_ownership(self) -> None:
        self.checks += 1


class TakeoverView(View):
    module = "storage/managed/takeover_watch.py"
    ledger = f"{NAMESPACE}/persistent/t"

    async def prepare(self, direct: MetadataStore) -> None:
        await direct.create(paths.managed_ledger_path(self.ledger), make_parents=True)

    async def start(self, store: MetadataStore) -> None:
        owned = self.owned = _Owned()
        self.watch = TakeoverWatch(store, {self.ledger: owned})
        self.watch.opening(self.ledger)
        self.watch.opened(self.ledger)
        while not owned.checks:
            await store.exists("/")
        owned.checks = 0

    async def change(self, direct: MetadataStore) -> None:
        await direct.put(paths.managed_ledger_path(self.ledger), b"another's")

    async def sees(self) -> bool:
        return self.owned.checks > 0

    async def close(self) -> None:
        await self.watch.close()


class TopicWatchersView(View):
    """Watches the namespace's own list exactly, which hears what it missed."""

    module = "server/namespaces/topic_watchers.py"

    async def prepare(self, direct: MetadataStore) -> None:
        await direct.create(paths.policies_path(NAMESPACE), b"{}", make_parents=True)
        await direct.create(paths.managed_ledger_path(f"{NAMESPACE}/persistent/old"), make_parents=True)

    async def start(self, store: MetadataStore) -> None:
        policies = Policies(store, TopicSettings(), lambda namespace, topic: None)
        watchers = TopicWatchers(TopicCatalog(store, policies, TopicSettings(), lambda: ()), store)
        self.told: list[Any] = []
        self.watcher = Watcher(NAMESPACE, ".*", 1000, self.told.append)
        assert await watchers.add(self.watcher) == [f"persistent://{NAMESPACE}/old"]

    async def change(self, direct: MetadataStore) -> None:
        await direct.create(paths.managed_ledger_path(f"{NAMESPACE}/persistent/new"), make_parents=True)

    async def sees(self) -> bool:
        return len(self.told) == 1 and list(self.told[0].new) == [f"persistent://{NAMESPACE}/new"]


class BookiesView(View):
    module = "storage/ledger/bookie_registry.py"

    async def start(self, store: MetadataStore) -> None:
        self.registry = BookieRegistry(store)
        await self.registry.start()

    async def change(self, direct: MetadataStore) -> None:
        await direct.create(paths.bookie_path("b:3181"), make_parents=True)

    async def sees(self) -> bool:
        return self.registry.writable() == ["b:3181"]

    async def close(self) -> None:
        await self.registry.stop()


class UnderreplicationView(View):
    module = "storage/repair/underreplication.py"

    async def start(self, store: MetadataStore) -> None:
        self.heard = False
        self.book = Underreplication(store, now_ms=lambda: 1)
        await self.book.prepare()
        self.cancel = self.book.watch(lambda _: self._hear())
        await store.exists("/")  # what was heard of `prepare` has come before this answer
        self.heard = False

    def _hear(self) -> None:
        self.heard = True

    async def change(self, direct: MetadataStore) -> None:
        await Underreplication(direct, now_ms=lambda: 1).mark(7, ["b:3181"])

    async def sees(self) -> bool:
        return self.heard

    async def close(self) -> None:
        self.cancel()


class RegisteredBrokersView(View):
    module = "server/load/registered_brokers.py"

    async def start(self, store: MetadataStore) -> None:
        self.brokers = RegisteredBrokers(store)
        await self.brokers.start()
        assert not self.brokers.reports

    async def change(self, direct: MetadataStore) -> None:
        await direct.create(BROKER, to_json(REPORT), make_parents=True)

    async def sees(self) -> bool:
        return list(self.brokers.reports) == ["broker:8080"]

    async def close(self) -> None:
        self.brokers.close()


class FailureDomainsView(View):
    module = "server/load/cluster_rule_records.py"
    domains = f"{paths.cluster_path('c')}/failureDomain"

    async def prepare(self, direct: MetadataStore) -> None:
        group = {"namespaceAntiAffinityGroup": "g", "bundles": {"boundaries": ["0x00000000", "0xffffffff"]}}
        await direct.create(paths.local_policies_path(NAMESPACE), to_json(group), make_parents=True)
        await direct.create(f"{self.domains}/d", b'{"brokers":["old:8080"]}', make_parents=True)

    async def start(self, store: MetadataStore) -> None:
        self.records = ClusterRuleRecords(store, "c")
        self.records.start()
        assert await self._domains() == {"old:8080": "d"}

    async def _domains(self) -> Mapping[str, str]:
        return (await self.records.rules_for(NAMESPACE, set, domains=True)).domains

    async def change(self, direct: MetadataStore) -> None:
        await direct.put(f"{self.domains}/d", b'{"brokers":["new:8080"]}')

    async def sees(self) -> bool:
        return await self._domains() == {"new:8080": "d"}

    async def close(self) -> None:
        self.records.close()


class PeerAddressesView(View):
    module = "server/peers/peer_addresses.py"

    async def start(self, store: MetadataStore) -> None:
        self.addresses = PeerAddresses(store, "c")
        assert await self.addresses.brokers() == []

    async def change(self, direct: MetadataStore) -> None:
        await direct.create(BROKER, to_json(REPORT), make_parents=True)

    async def sees(self) -> bool:
        return [each.broker_id for each in await self.addresses.brokers()] == ["broker:8080"]

    async def close(self) -> None:
        self.addresses.close()


class _PeerClient:
    """A client of other brokers that notes whether it was told to look for owners again."""

    def __init__(self) -> None:
        self.nudges: list[str | None] = []

    def nudge(self, namespace: str | None = None) -> None:
        self.nudges.append(namespace)


class _OwnsNothing:
    def owned_bundles(self) -> tuple[()]:
        return ()

    def on_gained(self, listener: object) -> None:
        """Nothing is ever gained."""

    def on_lost(self, listener: object) -> None:
        """Nothing is ever lost."""


class FollowedPoliciesView(View):
    """It hears of the session that the link is back, and looks for every owner again."""

    module = "server/peers/followed_policies.py"

    async def start(self, store: MetadataStore) -> None:
        self.client = _PeerClient()
        anything = cast(Any, None)
        self.policies = FollowedPolicies(
            cast(Any, self.client),
            store,
            anything,
            anything,
            cast(Any, _OwnsNothing()),
            cluster="c",
            on_change=lambda topic: None,
        )
        self.policies.start()

    async def change(self, direct: MetadataStore) -> None:
        path = paths.bundle_owner_path(NAMESPACE, "0x00000000_0xffffffff")
        await direct.create(path, b"{}", make_parents=True)
        self.client.nudges.clear()

    async def sees(self) -> bool:
        return None in self.client.nudges

    async def close(self) -> None:
        await self.policies.close()


class RecordCacheView(View):
    """What every user of `RecordCache` gets: bundles, owners, dynamic configuration and more."""

    module = "metadata/coordination/record_cache.py"

    async def prepare(self, direct: MetadataStore) -> None:
        for number in range(3):
            await direct.create(f"/copies/{number}", b"old", make_parents=True)

    async def start(self, store: MetadataStore) -> None:
        self.told: set[str] = set()
        self.eager = RecordCache(store, "/copies", lambda _, value: value, on_change=self.told.add)
        self.lazy = RecordCache(store, "/copies", lambda _, value: value)
        for cache in (self.eager, self.lazy):
            cache.start()
            for number in range(4):
                await cache.get(f"/copies/{number}")
        self.told.clear()

    async def change(self, direct: MetadataStore) -> None:
        await direct.put("/copies/1", b"new")
        await direct.delete("/copies/2")
        await direct.create("/copies/3", b"made")

    async def sees(self) -> bool:
        if self.told != {"/copies/1", "/copies/2", "/copies/3"}:
            return False
        wanted = [b"old", b"new", None, b"made"]
        eager = [self.eager.cached(f"/copies/{number}") for number in range(4)]
        lazy = [await self.lazy.get(f"/copies/{number}") for number in range(4)]
        return all([copy and copy.value for copy in copies] == wanted for copies in (eager, lazy))

    async def close(self) -> None:
        self.eager.close()
        self.lazy.close()


VIEWS = cast(
    tuple[type[View], ...],
    (
        NamespacesView,
        PartitionedTopicsView,
        TakeoverView,
        TopicWatchersView,
        BookiesView,
        UnderreplicationView,
        RegisteredBrokersView,
        FailureDomainsView,
        PeerAddressesView,
        FollowedPoliciesView,
        RecordCacheView,
    ),
)
