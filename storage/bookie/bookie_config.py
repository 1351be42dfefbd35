"""The bookie's settings: names are the snake_case of the keys in Apache's `bk_server.conf`, units as there.

Sizes in megabytes may be fractions (a test's cache of half a megabyte). A default that differs from Apache's says why.
"""

from dataclasses import dataclass

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieConfig:
    """Validated when it is made; raises ValueError that names the field."""

    journal_directories: tuple[str, ...]
    """journalDirectories; each has a thread of its own, and a ledger's id says which journal its adds go to."""
    ledger_directories: tuple[str, ...]
    """ledgerDirectories; entry logs go to the one with the most room, the index and the mark live in the first."""

    journal_max_size_mb: float = 128
    """journalMaxSizeMB: a journal file is left for a new one beyond this. Apache 2048."""
    journal_max_backups: int = 0
    """journalMaxBackups: how many journals older than the mark stay. Apache 5, which only its tools ever read."""
    journal_reuse_files: bool = True
    """journalReuseFiles: up to two journals older than the mark stay to be written over, which saves half of the
    kernel's work for a batch; beside `journal_max_backups`, and only while the disk has room. Apache false."""
    journal_batch_max_kb: float = 2048
    """Upper bound of what one journal write and fdatasync carries (a single larger group of adds goes alone)."""
    journal_queue_max_mb: float = 64
    """Upper bound of entries handed to the journal and not yet durable; adds beyond it wait."""

    db_storage_write_cache_max_size_mb: float = 48
    """dbStorage_writeCacheMaxSizeMb: both halves together; a full half starts a checkpoint."""
    db_storage_read_ahead_cache_max_size_mb: float = 16
    """dbStorage_readAheadCacheMaxSizeMb."""
    read_ahead_kb: float = 512
    """How much a sequential read takes from the entry log at once (Apache counts 100 entries)."""
    db_storage_max_throttle_time_ms: int = 10_000
    """dbStorage_maxThrottleTimeMs: an add waits this long for room in the write cache, then fails ETOOMANYREQUESTS."""
    waiting_adds_max_mb: float = 256
    """Upper bound of the adds that wait so; beyond it they fail ETOOMANYREQUESTS at once. Callers in this process keep
    their entries until the answer anyway, and what callers on the wire may have under way is bounded before."""
    max_pending_read_requests: int = 10_000
    """maxPendingReadRequestsPerThread: reads under way. Further ones wait in order, at most for
    `db_storage_max_throttle_time_ms`; then they fail ETOOMANYREQUESTS (Apache's at once), or when ten times as many
    wait."""
    num_read_worker_threads: int = 2
    """numReadWorkerThreads; Apache 8, but one interpreter gains nothing from more."""

    flush_interval: int = 10_000
    """flushInterval, ms: longest time from an add to the checkpoint that contains it."""
    log_size_limit: int = 256 * _MIB
    """logSizeLimit, bytes: an entry log is closed beyond this. Apache 1 GiB; smaller ones give space back sooner."""
    entry_block_kb: float = 64
    """An entry log's block, the unit of checksum and read, holds entries of one ledger up to about this size."""
    open_entry_logs: int = 64
    """Upper bound of entry logs kept open for reading."""

    gc_wait_time: int = 60_000
    """gcWaitTime, ms, between two collections. Apache 900,000; ours is one listing and a few lookups."""
    minor_compaction_threshold: float = 0.2
    """minorCompactionThreshold: a closed log with a smaller live share is compacted; 0 turns it off."""
    minor_compaction_interval: int = 60
    """minorCompactionInterval, s. Apache 3,600; copying a fifth of a log is little for the space of all of it."""
    major_compaction_threshold: float = 0.8
    """majorCompactionThreshold."""
    major_compaction_interval: int = 86_400
    """majorCompactionInterval, s."""
    compaction_rate_by_bytes: int = 32 * _MIB
    """compactionRateByBytes: bytes a second that compaction copies at most. Apache counts entries by default."""

    disk_check_interval: int = 10_000
    """diskCheckInterval, ms; also how often a full or failed disk is tried again."""
    disk_usage_threshold: float = 0.99
    """diskUsageThreshold: read-only above it. Apache's bookie 0.95, its standalone.conf 0.99."""
    disk_usage_lwm_threshold: float = 0.97
    """diskUsageLwmThreshold: writable again below it."""
    disk_usage_warn_threshold: float = 0.90
    """diskUsageWarnThreshold: major compaction, which needs room, pauses above it."""
    min_usable_size_for_writes_mb: float = 16
    """A full disk counts as usable again when this much is free (and the low-water mark is met)."""
    min_usable_size_for_high_priority_writes: int = 64 * _MIB
    """minUsableSizeForHighPriorityWrites, bytes free for recovery adds while read-only."""

    allow_storage_expansion: bool = False
    """allowStorageExpansion: ledger directories may be added behind those that the cookies name."""
    force_read_only_bookie: bool = False
    """forceReadOnlyBookie: takes no writes, whatever room there is."""
    skip_damaged_journal: bool = False
    """Start despite damage inside the journal: what can still be read is replayed, the rest is given up and logged."""

    def __post_init__(self) -> None:
        for name in ("journal_directories", "ledger_directories"):
            directories = getattr(self, name)
            if not directories or not all(directories):
                raise ValueError(f"{name} must be named")
            if len(set(directories)) != len(directories):
                raise ValueError(f"{name} names a directory twice")
        may_be_zero = {"journal_max_backups", "minor_compaction_threshold", "major_compaction_threshold"}
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                if value < 0 or (value == 0 and name not in may_be_zero):
                    raise ValueError(f"{name} must be positive, not {value}")
                if "threshold" in name and value > 1:
                    raise ValueError(f"{name} is a share and must be at most 1, not {value}")
        if self.disk_usage_lwm_threshold > self.disk_usage_threshold:
            raise ValueError("disk_usage_lwm_threshold must not exceed disk_usage_threshold")

    @property
    def write_cache_half_bytes(self) -> int:
        return int(self.db_storage_write_cache_max_size_mb * _MIB / 2)

    @property
    def read_ahead_cache_bytes(self) -> int:
        return int(self.db_storage_read_ahead_cache_max_size_mb * _MIB)

    @property
    def read_ahead_bytes(self) -> int:
        return int(self.read_ahead_kb * 1024)

    @property
    def waiting_adds_bytes(self) -> int:
        return int(self.waiting_adds_max_mb * _MIB)

    @property
    def journal_file_bytes(self) -> int:
        return int(self.journal_max_size_mb * _MIB)

    @property
    def journal_batch_bytes(self) -> int:
        return int(self.journal_batch_max_kb * 1024)

    @property
    def journal_queue_bytes(self) -> int:
        return int(self.journal_queue_max_mb * _MIB)

    @property
    def entry_block_bytes(self) -> int:
        return int(self.entry_block_kb * 1024)

    @property
    def min_usable_bytes_for_writes(self) -> int:
        return int(self.min_usable_size_for_writes_mb * _MIB)
