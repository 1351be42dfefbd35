"""Limits of the ledger client."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LedgerConfig:
    """Field names follow BookKeeper's client keys.

    Times are seconds. BookKeeper's default of both deadlines is 5, a Pulsar broker sets them to
    `bookkeeperClientTimeoutInSeconds` = 30.
    """

    add_entry_timeout_sec: float = 30.0
    """addEntryTimeoutSec: a bookie that leaves an add unanswered this long (up to a quarter longer) is replaced."""

    read_entry_timeout_sec: float = 30.0
    """readEntryTimeoutSec: a read left unanswered this long goes to the next replica."""

    speculative_read_timeout_sec: float = 2.0
    """speculativeReadTimeout: the next replica is asked as well when the first is silent so long, then after twice as
    long; 0: only after a failure (a Pulsar broker's default)."""

    explicit_lac_interval_sec: float = 0.0
    """explicitLacInterval: how often an idle writer tells its bookies its LAC, for readers that tail the ledger; 0:
    never. Needs bookies that speak v3."""

    bookie_errors_max: int = 5
    """bookieErrorThresholdPerInterval, in a minute: more put the bookie into quarantine; 0 turns that off."""

    bookie_quarantine_time_sec: float = 1800.0
    """bookieQuarantineTimeSeconds: so long it gets no new ledgers while there are others."""

    min_num_racks_per_write_quorum: int = 2
    enforce_min_num_racks_per_write_quorum: bool = False
    """Whether a ledger that cannot span so many racks is refused rather than placed as well as can be."""

    lagging_bytes_max: int = 64 * 1024 * 1024
    """With an ack quorum below the write quorum: a bookie further behind the last add than this is replaced. Without
    that, a slow bookie would hold all unanswered entries in memory until its deadline."""

    striped_reads_max: int = 16
    """Entries read at once from a striped ledger (ensemble size above write quorum)."""

    skip_given_up_entries: bool = False
    """Recovery passes over entries that all their bookies say to have given up (EUNKNOWNLEDGERSTATE), or hold damaged,
    and goes on with what stands behind them. Right for a standalone server only, whose one bookie nobody can complete;
    in a cluster another one may be repaired, so there recovery fails instead."""

    recovery_reads_max: int = 8
    """Entries that recovery reads ahead; the ones beyond the end of the ledger are asked for in vain."""

    recovery_adds_max: int = 256
    """Entries copied by recovery and not yet confirmed; reading ahead waits there."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value < 0 or (value == 0 and name not in _MAY_BE_ZERO):
                raise ValueError(f"{name} must be positive, is {value}")


_MAY_BE_ZERO = {
    "speculative_read_timeout_sec",
    "explicit_lac_interval_sec",
    "bookie_errors_max",
    "skip_given_up_entries",
    "enforce_min_num_racks_per_write_quorum",
}
