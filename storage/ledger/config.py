"""Limits of the ledger client."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LedgerConfig:
    """Field names follow BookKeeper's client keys.

    Both deadlines are seconds, > 0. BookKeeper's default is 5, a Pulsar broker sets both to
    `bookkeeperClientTimeoutInSeconds` = 30.
    """

    add_entry_timeout_sec: float = 30.0
    """addEntryTimeoutSec: a bookie that leaves an add unanswered this long (up to a quarter longer) is replaced."""

    read_entry_timeout_sec: float = 30.0
    """readEntryTimeoutSec: a read left unanswered this long goes to the next replica."""

    lagging_bytes_max: int = 64 * 1024 * 1024
    """With an ack quorum below the write quorum: a bookie further behind the last add than this is replaced. Without
    that, a slow bookie would hold all unanswered entries in memory until its deadline."""

    striped_reads_max: int = 16
    """Entries read at once from a striped ledger (ensemble size above write quorum)."""

    recovery_reads_max: int = 8
    """Entries that recovery reads ahead; the ones beyond the end of the ledger are asked for in vain."""

    recovery_adds_max: int = 256
    """Entries copied by recovery and not yet confirmed; reading ahead waits there."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, is {getattr(self, name)}")
