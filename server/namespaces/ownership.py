"""The owners of bundles. All code that loads, serves or looks up topics asks one `Ownership` object.

A broker serves the topics of the bundles that it owns. In a cluster the owner of a bundle has a lock in the metadata
store (`bundle_ownership.py`); a standalone server owns all bundles (`SoleOwner`). The lock decides to which broker
clients go. The lock does not protect the data: a broker that was suspended may believe that it still has a lost lock;
such a broker is stopped by the fencing of the topic's ledger.

Sources: OwnershipCache, NamespaceService.
"""

from collections.abc import Callable
from typing import Protocol

from magnetar.server.namespaces.broker_addresses import BrokerAddresses
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.bundles import BundleCache
from magnetar.server.namespaces.departures import Departures
from pulsar_proto.errors import MetadataFault, ServiceNotReady
from pulsar_proto.names import TopicName

BundleListener = Callable[[BundleName], None]
"""A callback that gets a bundle. The callback must not raise and must not block."""


class Ownership(Protocol):
    """The bundles that this broker owns, and the owners of all others. All calls are made on the loop's thread."""

    @property
    def addresses(self) -> BrokerAddresses:
        """This broker's addresses, for answers of lookups."""

    @property
    def broker_id(self) -> str: ...

    @property
    def is_sole(self) -> bool:
        """Whether this broker is a standalone server, so that there are no other brokers."""

    @property
    def bundles(self) -> BundleCache:
        """The bundles of all namespaces."""

    def start(self) -> None:
        """Begins to watch the records. Called once, before the first client."""

    @property
    def departures(self) -> Departures:
        """The bundles that this broker is giving away."""

    def take_no_more(self) -> None:
        """Called when the broker is about to stop. From now on no bundle is acquired."""

    def close(self) -> None:
        """Ends the watches. From now on no bundle is acquired."""

    def owns(self, topic: TopicName) -> bool:
        """Returns whether this broker, as far as it knows, owns the topic's bundle and is not about to give the bundle
        away. Looks at memory only."""

    def check_now(self, topic: TopicName) -> None:
        """Raises ServiceNotReady, with Apache's text, unless `owns(topic)`. Looks at memory only."""

    async def check(self, topic: TopicName) -> None:
        """Raises ServiceNotReady, with Apache's text, when this broker does not serve the topic. While the topic's
        bundle is being given away, waits first until the bundle is gone. If the bundle's lock is from before a restart
        of this broker, takes the lock over. Raises PulsarError when the metadata store fails."""

    async def bundle_of(self, topic: TopicName) -> BundleName:
        """Returns the topic's bundle. Raises PulsarError when the namespace's bundles cannot be read."""

    def owned_bundles(self) -> list[BundleName]:
        """Returns the bundles that this broker owns, including bundles that it is about to give away."""

    def is_active(self, bundle: BundleName) -> bool:
        """Returns whether this broker owns the bundle and is not about to give the bundle away."""

    async def owner_of(self, bundle: BundleName) -> BrokerAddresses | None:
        """Returns the broker that owns the bundle, or None when no broker does. Raises MetadataFault with the text "is
        being unloaded" when the owner is about to give the bundle away, and PulsarError when the metadata store
        fails."""

    async def acquire(self, bundle: BundleName) -> None:
        """Makes this broker the bundle's owner. Has no effect when this broker owns the bundle already. Raises
        MetadataFault when another broker owns the bundle or the metadata store fails."""

    async def acquire_part(self, bundle: BundleName) -> None:
        """Makes this broker the owner of a bundle that a split is about to make. Raises the errors of `acquire`."""

    def deactivate(self, bundle: BundleName) -> bool:
        """Begins to give a bundle away. From now on the broker accepts no new clients for the bundle's topics. Returns
        False when this broker does not own the bundle or gives it away already."""

    def activate(self, bundle: BundleName) -> None:
        """Reverses `deactivate`: the broker accepts clients for the bundle's topics again."""

    async def release(self, bundle: BundleName) -> None:
        """Gives the bundle away, after its topics were closed. Raises PulsarError when the metadata store fails."""

    def fenced(self, topic: TopicName) -> None:
        """Called when another broker has fenced a loaded topic. While the metadata store cannot be asked, this is the
        only sign that the bundle belongs to another broker now, so this broker gives the bundle up in memory: its other
        topics are closed, and lookups do not name this broker any more."""

    def on_gained(self, listener: BundleListener) -> None:
        """Calls `listener` with each bundle of which this broker becomes the owner."""

    def on_lost(self, listener: BundleListener) -> None:
        """Calls `listener` with each bundle as soon as this broker does not own it any more, also after `release`."""


class SoleOwner:
    """The ownership of a standalone server, which owns all bundles without locks."""

    is_sole = True

    def __init__(self, bundles: BundleCache, addresses: BrokerAddresses | None = None) -> None:
        self.bundles = bundles
        self.addresses = addresses or BrokerAddresses()
        self.departures = Departures()
        self._gained: list[BundleListener] = []
        self._lost: list[BundleListener] = []

    @property
    def broker_id(self) -> str:
        return self.addresses.broker_id

    def start(self) -> None:
        self.bundles.start()

    def take_no_more(self) -> None:
        """Has no effect, because there is no other broker."""

    def close(self) -> None:
        self.bundles.close()

    def owns(self, topic: TopicName) -> bool:
        return not self.departures or self._departing(topic) is None

    def check_now(self, topic: TopicName) -> None:
        if not self.owns(topic):
            raise being_unloaded_topic(topic)

    async def check(self, topic: TopicName) -> None:
        departing = self._departing(topic) if self.departures else None
        if departing is not None:
            await self.departures.wait(departing)
            self.check_now(topic)

    async def bundle_of(self, topic: TopicName) -> BundleName:
        return await self.bundles.of_topic(topic)

    def owned_bundles(self) -> list[BundleName]:
        known = [self.bundles.cached(namespace) for namespace in self.bundles.namespaces]
        return [bundle for bundles in known if bundles is not None for bundle in bundles.all]

    def is_active(self, bundle: BundleName) -> bool:
        return bundle not in self.departures

    async def owner_of(self, bundle: BundleName) -> BrokerAddresses | None:
        if bundle in self.departures:
            raise being_unloaded(bundle)
        return self.addresses

    async def acquire(self, bundle: BundleName) -> None:
        """Has no effect: the bundle is ours."""

    async def acquire_part(self, bundle: BundleName) -> None:
        """Has no effect: the bundle is ours."""

    def deactivate(self, bundle: BundleName) -> bool:
        if bundle in self.departures:
            return False
        self.departures.begin(bundle)
        return True

    def activate(self, bundle: BundleName) -> None:
        self.departures.end(bundle)

    async def release(self, bundle: BundleName) -> None:
        """Ends the unloading. This broker owns the bundle again at once."""
        self.departures.end(bundle)

    def fenced(self, topic: TopicName) -> None:
        """Has no effect: nobody else can own the bundle."""

    def on_gained(self, listener: BundleListener) -> None:
        """The listener is never called."""
        self._gained.append(listener)

    def on_lost(self, listener: BundleListener) -> None:
        """The listener is never called."""
        self._lost.append(listener)

    def _departing(self, topic: TopicName) -> BundleName | None:
        """Returns the topic's bundle if the bundle is being unloaded, otherwise None."""
        bundles = self.bundles.cached(topic.namespace)
        bundle = None if bundles is None else bundles.of_topic(topic.full)
        return bundle if bundle is not None and bundle in self.departures else None


def not_served(bundle: BundleName, topic: TopicName, broker_id: str) -> ServiceNotReady:
    """Returns the error for clients of a topic that this broker does not own (BrokerService.checkTopicNsOwnership).
    After this error clients look the topic up again."""
    return ServiceNotReady(
        f"Namespace bundle ({bundle}) for topic ({topic.full}) not served by this instance:{broker_id}. "
        "Please redo the lookup."
    )


def being_unloaded_topic(topic: TopicName) -> ServiceNotReady:
    """Returns the error for clients of a topic whose bundle is being unloaded (BrokerService.addTopicToStatsMaps)."""
    return ServiceNotReady(f"Namespace is being unloaded, cannot add topic {topic.full}")


def being_unloaded(bundle: BundleName) -> MetadataFault:
    """Returns the answer to a lookup while the owner gives the bundle away (NamespaceService.findBrokerServiceUrl
    raises an IllegalStateException, and TopicLookupBase answers MetadataError)."""
    return MetadataFault(f"Namespace bundle {bundle} is being unloaded")
