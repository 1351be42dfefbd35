"""The settings of auto-recovery. Each name except `ledgers_at_once` is the snake_case form of a key in Apache's
`bk_server.conf` and has the unit of that key."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoRecoveryConfig:
    """The settings. The constructor checks them: a bad setting raises a ValueError that names the field. An interval of
    0 turns its check off."""

    lost_bookie_recovery_delay: int = 0
    """lostBookieRecoveryDelay, s: how long a single lost bookie may take to come back. Only the first auditor of a
    cluster writes this value into the cluster's record; from then on the record counts."""
    auditor_periodic_bookie_check_interval: int = 86_400
    """auditorPeriodicBookieCheckInterval, s: how often the auditor audits even if no bookie was lost meanwhile."""
    auditor_periodic_check_interval: int = 604_800
    """auditorPeriodicCheckInterval, s: how often a sample of every ledger is read from each of its bookies."""
    auditor_periodic_placement_policy_check_interval: int = 0
    """auditorPeriodicPlacementPolicyCheckInterval, s: how often ledgers that are not spread over racks are counted."""
    auditor_ledger_verification_percentage: int = 0
    """auditorLedgerVerificationPercentage: the percentage of a bookie's entries of a fragment that a check reads
    besides the first and the last entry."""
    auditor_max_number_of_concurrent_open_ledger_operations: int = 64
    """auditorMaxNumberOfConcurrentOpenLedgerOperations: how many ledgers the auditor checks at once. Apache's default
    is 500."""
    min_num_racks_per_write_quorum: int = 2
    """minNumRacksPerWriteQuorum: the number of racks over which the placement check expects each write set to be
    spread."""

    ledgers_at_once: int = 4
    """How many ledgers one worker heals at the same time. Apache's worker heals one."""
    open_ledger_rereplication_grace_period: int = 30_000
    """openLedgerRereplicationGracePeriod, ms: how long the writer of an open ledger may take to replace a lost bookie.
    After this time a worker recovers the ledger, which ends the ledger's writer."""
    rw_rereplicate_backoff_ms: int = 5_000
    """rwRereplicateBackoffMs: the pause before the next look for work, and after the first failure of a ledger."""
    lock_release_of_failed_ledger_grace_period: int = 300_000
    """lockReleaseOfFailedLedgerGracePeriod, ms: the longest pause of a ledger that fails again and again."""
    rereplication_entry_batch_size: int = 256
    """rereplicationEntryBatchSize: how many entries are copied at once. Apache's default is 10, and Apache's worker
    reads the entries one by one."""
    replication_rate_by_bytes: int = -1
    """replicationRateByBytes: how many bytes a second one worker copies; -1 means that there is no limit."""

    def __post_init__(self) -> None:
        may_be_zero = {
            "lost_bookie_recovery_delay",
            "auditor_periodic_bookie_check_interval",
            "auditor_periodic_check_interval",
            "auditor_periodic_placement_policy_check_interval",
            "auditor_ledger_verification_percentage",
            "open_ledger_rereplication_grace_period",
        }
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if name == "replication_rate_by_bytes" and value == -1:
                continue
            if value < 0 or (value == 0 and name not in may_be_zero):
                raise ValueError(f"{name} must be positive, not {value}")
        if self.auditor_ledger_verification_percentage > 100:
            raise ValueError("auditor_ledger_verification_percentage must be at most 100")
