"""The keys of bk_server.conf that auto-recovery honours, in a process of its own or inside a bookie.

Names, units and meanings as in `storage.repair.config`; those of the process (ZooKeeper, bookie id) are the bookie's.
"""

from dataclasses import dataclass

from server.bookie.config_keys import PROCESS
from server.config import ServerConfig
from server.config_keys import DAY_SECONDS, LEDGER_CLIENT, MAX_INT, Key, _switch, _whole
from storage.ledger.config import LedgerConfig
from storage.ledger.wire_connection import WireConfig
from storage.repair.config import AutoRecoveryConfig

BOOKKEEPER_TIMEOUT_SEC = 5.0
"""BookKeeper's addEntryTimeoutSec and readEntryTimeoutSec; a broker's are longer."""


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

AUTORECOVERY_KEYS: dict[str, Key] = {key.name: key for section in (PROCESS, REPAIR, CLIENT) for key in section}


@dataclass(frozen=True, slots=True)
class AutoRecoverySettings:
    """What one process's auto-recovery needs."""

    recovery: AutoRecoveryConfig
    ledger: LedgerConfig
    wire: WireConfig


def autorecovery_settings(config: ServerConfig) -> AutoRecoverySettings:
    """Raises ConfigError."""
    recovery = config.fill(AutoRecoveryConfig)
    ledger, wire = client_settings(config)
    return AutoRecoverySettings(recovery, ledger, wire)


def client_settings(config: ServerConfig) -> tuple[LedgerConfig, WireConfig]:
    """Of a ledger client that is no broker's: BookKeeper's timeouts unless they are set. Raises ConfigError."""
    timeouts = {
        name: BOOKKEEPER_TIMEOUT_SEC
        for name in ("add_entry_timeout_sec", "read_entry_timeout_sec")
        if name not in config.values
    }
    return config.fill(LedgerConfig, **timeouts), config.fill(WireConfig, **timeouts)
