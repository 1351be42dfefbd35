"""The bookie's settings. If a description begins with a key of Apache's `bk_server.conf`, the setting has the unit of
that key. The other settings exist only here.

Sizes in megabytes may be fractions, which tests use. The description of a setting says why its default differs from
Apache's default.
"""

from dataclasses import dataclass

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieConfig:
    """The settings. The constructor checks them: a bad setting raises a ValueError that names the field."""

    journal_directories: tuple[str, ...]
    """journalDirectories: the folders of the journals. Each journal has a thread of its own, and the id of a ledger
    decides to which journal the ledger's adds go."""
    ledger_directories: tuple[str, ...]
    """ledgerDirectories: the folders of the entry logs. A new entry log goes to the folder with the most room; the
    first folder holds the index and the mark."""

    journal_max_size_mb: float = 128
    """journalMaxSizeMB: beyond this size a journal goes on in a new file. Apache's default is 2048; smaller files can
    be deleted sooner."""
    journal_max_backups: int = 0
    """journalMaxBackups: how many journals older than the mark are kept. Apache's default is 5, though only Apache's
    tools ever read such journals."""
    journal_reuse_files: bool = True
    """journalReuseFiles: up to two journals older than the mark are kept to be written over, which saves half of the
    kernel's work for a batch. These files are kept besides `journal_max_backups`, and only while the disk has room.
    Apache's default is false."""
    journal_batch_max_kb: float = 2048
    """The size at which a batch is full; a batch is one write and one fdatasync. A larger group of adds forms a batch
    of its own."""
    journal_queue_max_mb: float = 64
    """How many bytes that are not durable yet the journal's queue may hold. Further adds wait."""

    db_storage_write_cache_max_size_mb: float = 48
    """dbStorage_writeCacheMaxSizeMb: the size of both halves of the write cache together. A full half starts a
    checkpoint."""
    db_storage_read_ahead_cache_max_size_mb: float = 16
    """dbStorage_readAheadCacheMaxSizeMb: how much data that was read ahead is kept. Beyond this size the data that was
    unused for longest is dropped."""
    read_ahead_kb: float = 512
    """How much the bookie reads from an entry log at once for a client that reads in order. Apache's setting is a
    number of entries, 100."""
    db_storage_max_throttle_time_ms: int = 10_000
    """dbStorage_maxThrottleTimeMs: how long an add waits for room in the write cache. After this time the add fails
    with ETOOMANYREQUESTS."""
    waiting_adds_max_mb: float = 256
    """The size of the adds that may wait for room in the write cache; further adds fail with ETOOMANYREQUESTS at once.
    The bound may be large: callers in this process keep their entries until the answer anyway, and what peers may have
    under way is bounded by `WireLimits`."""
    max_pending_read_requests: int = 10_000
    """maxPendingReadRequestsPerThread: how many reads may be under way. Further reads wait in order, for at most
    `db_storage_max_throttle_time_ms`, and then fail with ETOOMANYREQUESTS. When ten times as many reads are waiting,
    further reads fail at once. In Apache's bookie further reads always fail at once."""
    num_read_worker_threads: int = 2
    """numReadWorkerThreads: how many threads read entry logs. Apache's default is 8, but one Python interpreter gains
    nothing from more than 2."""

    flush_interval: int = 10_000
    """flushInterval, ms: the longest time from an add to the checkpoint that writes it."""
    log_size_limit: int = 256 * _MIB
    """logSizeLimit, bytes: beyond this size an entry log is closed. Apache's default is 1 GiB; smaller logs give space
    back sooner."""
    entry_block_kb: float = 64
    """The approximate size of a block of an entry log. A block holds entries of one ledger, and is read and checked as
    a whole."""
    open_entry_logs: int = 64
    """How many entry logs are kept open for reading. Beyond this number the log that was not read for longest is
    closed."""

    gc_wait_time: int = 60_000
    """gcWaitTime, ms: the time between two garbage collections. Apache's default is 900,000; here a collection costs
    only one listing of the metadata and a few look-ups."""
    minor_compaction_threshold: float = 0.2
    """minorCompactionThreshold: minor compaction copies the live entries of closed logs whose live share is below this
    threshold; 0 turns minor compaction off."""
    minor_compaction_interval: int = 60
    """minorCompactionInterval, s: the time between two compactions by the minor threshold. Apache's default is 3,600;
    copying a fifth of a log is a low price for the space of the whole log."""
    major_compaction_threshold: float = 0.8
    """majorCompactionThreshold: the threshold of the compaction that runs at the major interval."""
    major_compaction_interval: int = 86_400
    """majorCompactionInterval, s: the time between two compactions by the major threshold."""
    compaction_rate_by_bytes: int = 32 * _MIB
    """compactionRateByBytes: how many bytes a second compaction copies. Apache's default limit is a number of
    entries."""

    disk_check_interval: int = 10_000
    """diskCheckInterval, ms: how often the bookie measures the room on its disks."""
    disk_usage_threshold: float = 0.99
    """diskUsageThreshold: above this share the bookie turns read-only. Apache's bookie has 0.95, Pulsar's
    standalone.conf 0.99."""
    disk_usage_lwm_threshold: float = 0.97
    """diskUsageLwmThreshold: below this share the bookie turns writable again."""
    disk_usage_warn_threshold: float = 0.90
    """diskUsageWarnThreshold: above this share major compaction pauses, because it needs room, and
    the operator is warned."""
    min_usable_size_for_writes_mb: float = 16
    """How much must be free, besides the low-water mark, before a full disk counts as usable again."""
    min_usable_size_for_high_priority_writes: int = _MIB
    """minUsableSizeForHighPriorityWrites: how many bytes must be free for a read-only bookie to take the adds of ledger
    recovery. Apache's bookie has 64 MiB. A standalone server has less, because after a crash it reads no topic before
    the topic's last ledger is recovered, and there is no other bookie for that."""

    allow_storage_expansion: bool = False
    """allowStorageExpansion: whether ledger directories may be appended to the list that the cookies hold."""
    force_read_only_bookie: bool = False
    """forceReadOnlyBookie: the bookie stays read-only, even if there is room."""
    skip_damaged_journal: bool = False
    """Whether to start despite damage in the journal. The undamaged batches are replayed, and the damaged parts are
    given up and logged."""

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
