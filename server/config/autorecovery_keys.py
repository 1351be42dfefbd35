"""The keys of bk_server.conf that auto-recovery honours. `AutoRecoveryConfig` describes the keys of REPAIR, and the
settings of the ledger client describe those of CLIENT."""

from dataclasses import replace

from magnetar.server.config.honoured_keys import LEDGER_CLIENT
from magnetar.server.config.key_kinds import DAY_SECONDS, MAX_INT, Key, switch, whole


def _rate(name: str) -> Key:
    """Returns the key of a rate in bytes a second. The values 0 and -1 mean "no limit"."""
    each = whole(name, -1, MAX_INT, "bytes a second")
    return replace(each, parse=lambda text: each.parse(text) or -1, expected=f"{each.expected}; -1: no limit")


REPAIR = (
    whole("lostBookieRecoveryDelay", 0, MAX_INT, "seconds"),
    whole("auditorPeriodicBookieCheckInterval", 0, MAX_INT, "seconds"),
    whole("auditorPeriodicCheckInterval", 0, MAX_INT, "seconds"),
    whole("auditorPeriodicPlacementPolicyCheckInterval", 0, MAX_INT, "seconds"),
    whole("auditorLedgerVerificationPercentage", 0, 100, "percent"),
    whole("auditorMaxNumberOfConcurrentOpenLedgerOperations", 1, 100_000, "ledgers"),
    whole("minNumRacksPerWriteQuorum", 1, 255, "racks"),
    whole("openLedgerRereplicationGracePeriod", 0, MAX_INT, "milliseconds"),
    whole("rwRereplicateBackoffMs", 1, 1000 * DAY_SECONDS, "milliseconds"),
    whole("lockReleaseOfFailedLedgerGracePeriod", 1, MAX_INT, "milliseconds"),
    whole("rereplicationEntryBatchSize", 1, 100_000, "entries"),
    _rate("replicationRateByBytes"),
)
CLIENT = (*LEDGER_CLIENT, switch("useV2WireProtocol"))
