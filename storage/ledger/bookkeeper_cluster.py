"""A process's access to a BookKeeper cluster: its records, its bookies, connections to them, and the ledger client.

The programs of a cluster use this module: broker, bookie, auto-recovery and the operator's tools. `magnetar.bookkeeper`
and `storage/repair` use it, too.
"""

from collections.abc import Callable, Sequence
from random import Random

from magnetar.metadata.store import MetadataStore
from magnetar.metadata.unique_ids import LedgerIdGenerator
from magnetar.storage.ledger.bookie_registry import BookieRegistry
from magnetar.storage.ledger.channel_lookup import ChannelOf
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.isolation_rules import BookieGroups, PlacementByGroups
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.metadata_driver import LedgerMetadataDriver
from magnetar.storage.ledger.placement_rules import AnyBookies, Placement
from magnetar.storage.ledger.rack_placement_rules import RackAwareBookies
from magnetar.storage.ledger.rack_table import RackTable
from magnetar.storage.ledger.wire_channel import WireChannel, WireChannels
from magnetar.storage.ledger.wire_config import WireConfig


class BookKeeperCluster:
    """Access to one BookKeeper cluster. `connect` creates it. The metadata store belongs to the caller, who closes
    it."""

    def __init__(
        self,
        store: MetadataStore,
        *,
        config: LedgerConfig,
        rng: Random,
        wire: WireConfig | None = None,
        channel_of: ChannelOf | None = None,
    ) -> None:
        """A caller gives `channel_of` to reach the bookies in another way than by TCP."""
        self.store = store
        self.config = config
        self.rng = rng
        self.registry = BookieRegistry(store)
        self.racks = RackTable(store)
        self._wire = WireChannels(self.registry.address_of, wire, self.registry.is_registered)
        self.channels: ChannelOf = channel_of or self._wire
        # Ids are drawn one by one, because a tool that drew a block would throw most of it away.
        self._ids = LedgerIdGenerator(store, block_ids=1)
        self.driver = LedgerMetadataDriver(store, self._ids.next_id)
        groups = BookieGroups(config.isolation_groups, config.secondary_isolation_groups)
        self.placement_of = PlacementByGroups(
            self._placement_among,
            self.registry.writable,
            self.racks.groups,
            groups if config.isolation_groups else None,
        )
        self.bookkeeper = BookKeeper(
            store,
            self.channels,
            bookies=self.registry.writable,
            next_ledger_id=self._ids.next_id,
            rng=rng,
            config=config,
            read_only_bookies=lambda: self.registry.bookies.read_only,
            placement_of=self.placement_of,
        )

    def _placement_among(self, writable: Callable[[], Sequence[str]]) -> Placement:
        config = self.config
        if not config.rack_aware and not config.region_aware:
            return AnyBookies(writable, self.rng)
        return RackAwareBookies(
            writable,
            self.racks.rack_of,
            self.rng,
            min_racks=config.min_num_racks_per_write_quorum,
            enforce=config.enforce_min_num_racks_per_write_quorum,
            regions_first=config.region_aware,
        )

    def wire_channel(self, bookie_id: str) -> WireChannel:
        """Returns the bookie's channel as a `WireChannel`, which has all requests of the protocol, not only those of
        `BookieChannel`. Raises LookupError when nobody knows the bookie's address."""
        return self._wire(bookie_id)

    @classmethod
    async def connect(
        cls,
        store: MetadataStore,
        *,
        config: LedgerConfig | None = None,
        wire: WireConfig | None = None,
        rng: Random | None = None,
    ) -> "BookKeeperCluster":
        """Reads the registered bookies and the racks, and returns the cluster. Raises MetadataError."""
        cluster = cls(store, config=config or LedgerConfig(), wire=wire, rng=rng or Random())
        await cluster.registry.start()
        await cluster.racks.start()
        return cluster

    async def close(self) -> None:
        """Ends all writers without closing their ledgers, and ends all connections."""
        await self.registry.stop()
        await self.racks.stop()
        await self.bookkeeper.close()
        await self._wire.close()
