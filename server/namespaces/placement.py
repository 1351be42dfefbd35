"""The interface of the load manager: the choice of a broker for a bundle that no broker owns. One broker of a cluster,
the leader, makes this choice.

Sources: LoadManager, LeaderElectionService, RedirectManager.
"""

from typing import Protocol

from magnetar.server.namespaces.broker_addresses import BrokerAddresses
from magnetar.server.namespaces.bundle_name import BundleName


class Placement(Protocol):
    """Lookups and unloads use the load manager through this interface."""

    @property
    def is_leader(self) -> bool:
        """Whether this broker is the leader now, as far as it knows."""

    async def leader(self) -> BrokerAddresses | None:
        """Returns the leader, or None when there is no leader or the leader is not registered as a broker. Raises
        PulsarError when the metadata store fails."""

    async def choose(self, bundle: BundleName) -> BrokerAddresses | None:
        """Returns the broker that shall own the bundle, or None when no broker may own it. Called on the leader, or on
        a broker that finds no leader. Raises PulsarError when the metadata store fails."""

    async def broker(self, broker_id: str) -> BrokerAddresses | None:
        """Returns the addresses of a broker, or None when it is not registered. Raises PulsarError when the metadata
        store fails."""

    async def brokers(self) -> list[str]:
        """Returns the ids of all registered brokers, sorted. Raises PulsarError when the metadata store fails."""

    async def newer_make(self) -> BrokerAddresses | None:
        """Returns a broker to which this broker redirects all lookups, or None when it redirects no lookups. It
        redirects them while the broker that was started last has another load manager than this broker: the cluster is
        then being moved to that other load manager (RedirectManager.findRedirectLookupResultAsync). Raises PulsarError
        when the metadata store fails."""

    def throughput_of(self, bundle: BundleName) -> float:
        """Returns the long-term average of the bundle's bytes per second, in and out together, or 0 when the traffic is
        not known."""

    def note_destination(self, bundle: BundleName, broker_id: str) -> None:
        """Makes the next `choose` for the bundle return this broker (setNamespaceBundleAffinity)."""


class SolePlacement:
    """The placement of a standalone server, which is always the leader and gets every bundle."""

    is_leader = True

    def __init__(self, own: BrokerAddresses) -> None:
        self._own = own

    async def leader(self) -> BrokerAddresses | None:
        return self._own

    async def choose(self, bundle: BundleName) -> BrokerAddresses | None:
        return self._own

    async def broker(self, broker_id: str) -> BrokerAddresses | None:
        return self._own if broker_id == self._own.broker_id else None

    async def brokers(self) -> list[str]:
        return [self._own.broker_id]

    async def newer_make(self) -> BrokerAddresses | None:
        return None

    def throughput_of(self, bundle: BundleName) -> float:
        return 0.0

    def note_destination(self, bundle: BundleName, broker_id: str) -> None:
        """Has no effect, because there is only one broker."""
