"""The limits and deadlines of the ledger client."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LedgerConfig:
    """The settings of the ledger client. If a description begins with a key, the key is that of BookKeeper's client.
    Times are seconds.

    BookKeeper's default for the deadlines of adds and reads is 5 s; a Pulsar broker sets both to
    `bookkeeperClientTimeoutInSeconds`, which is 30 s.
    """

    add_entry_timeout_sec: float = 30.0
    """addEntryTimeoutSec: a bookie that leaves an add unanswered for this long is replaced. The client may notice this
    up to a quarter of the time later."""

    read_entry_timeout_sec: float = 30.0
    """readEntryTimeoutSec: when a bookie leaves a read unanswered for this long, the next replica is asked."""

    speculative_read_timeout_sec: float = 2.0
    """speculativeReadTimeout: when the first replica is silent for this long, the second is asked as well, and the
    third after twice as long. With 0 the next replica is asked only after a failure, which is a Pulsar broker's
    default."""

    explicit_lac_interval_sec: float = 0.0
    """explicitLacInterval: how often an idle writer tells its bookies the LAC, for readers that follow the ledger; 0
    means never. The bookies must speak protocol v3."""

    bookie_errors_max: int = 5
    """bookieErrorThresholdPerInterval: a bookie with this many errors within `bookie_errors_interval_sec` goes into
    quarantine; 0 turns quarantine off."""

    bookie_errors_interval_sec: float = 60.0
    """The interval of `bookie_errors_max`: a bookie with that many errors within this time goes into quarantine."""

    bookie_health_check: bool = True
    """Whether bookies go into quarantine at all."""

    bookie_quarantine_time_sec: float = 1800.0
    """bookieQuarantineTimeSeconds: for how long a bookie in quarantine gets no new ledgers, provided that other bookies
    are available."""

    rack_aware: bool = True
    """Whether the bookies of an ensemble stand in different racks if possible."""

    region_aware: bool = False
    """Whether the bookies of an ensemble stand in different regions if possible. Different regions count more than
    different racks."""

    isolation_groups: str = ""
    """The groups of bookies, separated by commas, for ledgers that do not ask for groups themselves. An empty text
    stands for all bookies."""

    secondary_isolation_groups: str = ""
    """The groups, separated by commas, whose bookies are taken when `isolation_groups` have too few bookies."""

    min_num_racks_per_write_quorum: int = 2
    """Over how many racks the bookies of a write quorum are spread if possible."""
    enforce_min_num_racks_per_write_quorum: bool = False
    """Whether the client refuses to create a ledger whose write quorums cannot span `min_num_racks_per_write_quorum`
    racks. Otherwise it spreads the bookies over as many racks as possible."""

    lagging_bytes_max: int = 64 * 1024 * 1024
    """With an ack quorum below the write quorum, an entry is confirmed only when no bookie is further behind it than
    this, so that the writer slows down to the pace of a slow bookie. Otherwise all entries that the bookie has not
    answered would stay in memory until their deadline, `add_entry_timeout_sec`, has passed."""

    striped_reads_max: int = 16
    """How many entries of a striped ledger (ensemble size above write quorum) are read at once."""

    skip_given_up_entries: bool = False
    """Whether recovery passes over entries that all their bookies say they have given up (EUNKNOWNLEDGERSTATE) or hold
    damaged, and goes on with the entries after them. True is right only for a standalone server, because nobody can
    repair its single bookie. In a cluster another bookie may be repaired, so recovery fails there instead."""

    recovery_reads_max: int = 8
    """How many entries recovery reads ahead. The reads beyond the end of the ledger find nothing."""

    recovery_adds_max: int = 256
    """How many entries may be copied by recovery and not confirmed yet. Recovery stops reading ahead at this number."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not isinstance(value, int | float):
                continue
            if value < 0 or (value == 0 and name not in _MAY_BE_ZERO):
                raise ValueError(f"{name} must be positive, is {value}")


_MAY_BE_ZERO = {
    "speculative_read_timeout_sec",
    "explicit_lac_interval_sec",
    "bookie_errors_max",
    "skip_given_up_entries",
    "enforce_min_num_racks_per_write_quorum",
    "bookie_health_check",
    "rack_aware",
    "region_aware",
}
