"""What auto-recovery takes from bk_server.conf, in a process of its own or inside a bookie."""

from dataclasses import dataclass

from magnetar.server.config.autorecovery_keys import CLIENT, REPAIR
from magnetar.server.config.bookie_keys import PROCESS
from magnetar.server.config.broker_config import ServerConfig
from magnetar.server.config.honoured_keys import Key
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.wire_connection import WireConfig
from magnetar.storage.repair.autorecovery_config import AutoRecoveryConfig

BOOKKEEPER_TIMEOUT_SEC = 5.0
"""BookKeeper's addEntryTimeoutSec and readEntryTimeoutSec; a broker's are longer."""

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
