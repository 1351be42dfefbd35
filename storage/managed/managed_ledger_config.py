"""Settings of managed ledgers. Fields are named like the keys of broker.conf, in snake_case."""

from dataclasses import dataclass

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ManagedLedgerConfig:
    """The settings of one managed ledger, and those of the factory, which are marked "process".

    Defaults are those of broker.conf of Pulsar 4.0, except for the quorums, which are standalone's. Raises ValueError
    that names the field when a value is out of bounds.
    """

    managed_ledger_default_ensemble_size: int = 1
    """The number of bookies over which a ledger is spread."""
    managed_ledger_default_write_quorum: int = 1
    """The number of copies of each entry."""
    managed_ledger_default_ack_quorum: int = 1
    """How many copies must be durable before a message has its receipt."""

    managed_ledger_max_entries_per_ledger: int = 50_000
    """A ledger with this many entries is full, and a topic goes on in a new one."""
    managed_ledger_max_size_per_ledger_mbytes: int = 2_048
    """A ledger of this size is full, too."""
    managed_ledger_min_ledger_rollover_time_minutes: int = 10
    """A full ledger is not closed before it has this age; 0 means that it is closed at once."""
    managed_ledger_max_ledger_rollover_time_minutes: int = 240
    """A ledger of this age is closed even if it is not full."""
    managed_ledger_inactive_ledger_rollover_time_seconds: int = 0
    """A ledger that got no entry for this long is closed; 0 means never for that reason alone."""

    managed_ledger_cursor_max_entries_per_ledger: int = 50_000
    """A cursor's ledger with this many entries is full."""
    managed_ledger_cursor_rollover_time_in_seconds: int = 14_400
    """A cursor's ledger of this age is closed even if it is not full."""
    managed_ledger_default_mark_delete_rate_limit: float = 1.0
    """How often per second a cursor's changes are stored at once. Other changes wait until the cursor has not
    changed for half a second. 0 means no limit."""
    managed_ledger_max_unacked_ranges_to_persist: int = 10_000
    """How many acknowledged ranges are written one by one, which any version of Pulsar reads. If there are more, they
    are written as bitmaps."""
    managed_ledger_max_unacked_ranges_to_persist_in_metadata_store: int = 1_000
    """How many acknowledged ranges a cursor's record in the metadata store may hold. A cursor with more is stored
    in its ledger only."""
    managed_ledger_max_batch_deleted_index_to_persist: int = 10_000
    """How many half-acknowledged batches are stored per cursor, the nearest to the mark-delete. Batches beyond this
    number are redelivered whole."""
    managed_ledger_persist_individual_ack_as_long_array: bool = False
    """Whether bitmaps (field 6 of PositionInfo) are always written, as Pulsar 4.1 and later do."""

    managed_ledger_cache_size_mb: int = 64
    """Process: the size of the tail cache."""
    managed_ledger_cache_eviction_time_threshold_millis: int = 1_000
    """Process: entries that are older than this leave the tail cache at the next tick."""

    auto_skip_non_recoverable_data: bool = False
    """Whether reading passes over entries that are lost on every replica, and subscriptions acknowledge them."""

    retention_time_minutes: int = 0
    """For how long consumed ledgers are kept; -1 means for ever."""
    retention_size_mb: int = 0
    """How much consumed data is kept; -1 means all of it."""
    message_ttl_seconds: int = 0
    """After how many seconds a message expires that nobody has acknowledged; 0 means never. If the retention time is
    longer, the TTL is added to it, so that an expired message is kept as long as an acknowledged one."""

    retention_check_interval_in_seconds: int = 120
    """Process: how often every managed ledger is rolled over by age and trimmed."""

    def __post_init__(self) -> None:
        ensemble, write, ack = self.quorums
        if not 1 <= ack <= write <= ensemble:
            raise ValueError(f"quorums must be 1 <= ack <= write <= ensemble, not {ack} <= {write} <= {ensemble}")
        for field, least in _LEAST.items():
            value = getattr(self, field)
            if value < least:
                raise ValueError(f"{field} is {value}, must be at least {least}")

    @property
    def quorums(self) -> tuple[int, int, int]:
        """Returns (ensemble size, write quorum, ack quorum)."""
        return (
            self.managed_ledger_default_ensemble_size,
            self.managed_ledger_default_write_quorum,
            self.managed_ledger_default_ack_quorum,
        )

    @property
    def size_max(self) -> int:
        """How many bytes a ledger has when it is full."""
        return self.managed_ledger_max_size_per_ledger_mbytes * MEBIBYTE

    @property
    def age_min_s(self) -> int:
        return self.managed_ledger_min_ledger_rollover_time_minutes * 60

    @property
    def age_max_s(self) -> int:
        return self.managed_ledger_max_ledger_rollover_time_minutes * 60

    @property
    def retention_ms(self) -> int:
        """The age at which a consumed ledger may be deleted; negative means never. A message lives for TTL + retention
        time when the TTL is shorter than the retention time, otherwise for the TTL, as Pulsar documents its message
        expiry."""
        retention_ms, ttl_ms = self.retention_time_minutes * 60_000, self.message_ttl_seconds * 1000
        return retention_ms + ttl_ms if ttl_ms < retention_ms else retention_ms

    @property
    def retention_bytes(self) -> int:
        """How many bytes of consumed ledgers may stay; negative means that there is no limit."""
        return self.retention_size_mb * MEBIBYTE


_LEAST: dict[str, int] = {
    "managed_ledger_default_ack_quorum": 1,
    "managed_ledger_max_entries_per_ledger": 1,
    "managed_ledger_max_size_per_ledger_mbytes": 1,
    "managed_ledger_min_ledger_rollover_time_minutes": 0,
    "managed_ledger_max_ledger_rollover_time_minutes": 1,
    "managed_ledger_inactive_ledger_rollover_time_seconds": 0,
    "managed_ledger_cursor_max_entries_per_ledger": 2,
    "managed_ledger_cursor_rollover_time_in_seconds": 1,
    "managed_ledger_default_mark_delete_rate_limit": 0,
    "managed_ledger_max_unacked_ranges_to_persist": 0,
    "managed_ledger_max_unacked_ranges_to_persist_in_metadata_store": 0,
    "managed_ledger_max_batch_deleted_index_to_persist": 0,
    "managed_ledger_cache_size_mb": 0,
    "managed_ledger_cache_eviction_time_threshold_millis": 1,
    "retention_time_minutes": -1,
    "retention_size_mb": -1,
    "message_ttl_seconds": 0,
    "retention_check_interval_in_seconds": 1,
}
