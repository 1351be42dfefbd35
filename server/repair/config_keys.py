"""The keys of bk_server.conf that auto-recovery honours. Units and meanings as in `storage.repair.config`."""

from server.config_keys import DAY_SECONDS, LEDGER_CLIENT, MAX_INT, Key, _switch, _whole


def _rate(name: str) -> Key:
    """Bytes a second; 0 and below mean no limit."""
    whole = _whole(name, -1, MAX_INT, "bytes a second")
    return Key(name, whole.fields, lambda text: whole.parse(text) or -1, f"{whole.expected}; -1: no limit")


REPAIR = (
    _whole("lostBookieRecoveryDelay", 0, MAX_INT, "seconds"),
    _whole("auditorPeriodicBookieCheckInterval", 0, MAX_INT, "seconds"),
    _whole("auditorPeriodicCheckInterval", 0, MAX_INT, "seconds"),
    _whole("auditorPeriodicPlacementPolicyCheckInterval", 0, MAX_INT, "seconds"),
    _whole("auditorLedgerVerificationPercentage", 0, 100, "percent"),
    _whole("auditorMaxNumberOfConcurrentOpenLedgerOperations", 1, 100_000, "ledgers"),
    _whole("minNumRacksPerWriteQuorum", 1, 255, "racks"),
    _whole("openLedgerRereplicationGracePeriod", 0, MAX_INT, "milliseconds"),
    _whole("rwRereplicateBackoffMs", 1, 1000 * DAY_SECONDS, "milliseconds"),
    _whole("lockReleaseOfFailedLedgerGracePeriod", 1, MAX_INT, "milliseconds"),
    _whole("rereplicationEntryBatchSize", 1, 100_000, "entries"),
    _rate("replicationRateByBytes"),
)
CLIENT = (*LEDGER_CLIENT, _switch("useV2WireProtocol"))
