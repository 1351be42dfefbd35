"""The settings of auto-recovery, both in a process of its own and inside a bookie."""

from dataclasses import dataclass

from magnetar.server.config.autorecovery_keys import CLIENT, REPAIR
from magnetar.server.config.bookie_keys import PROCESS
from magnetar.server.config.bookie_tls_keys import BOOKIE_TLS
from magnetar.server.config.broker_config import ServerConfig
from magnetar.server.config.key_kinds import Key
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.wire_config import WireConfig
from magnetar.storage.repair.autorecovery_config import AutoRecoveryConfig

BOOKKEEPER_TIMEOUT_SEC = 5.0
"""The default of BookKeeper's addEntryTimeoutSec and readEntryTimeoutSec. A broker's default is longer."""

AUTORECOVERY_KEYS: dict[str, Key] = {
    key.name: key for section in (PROCESS, REPAIR, CLIENT, BOOKIE_TLS) for key in section
}


@dataclass(frozen=True, slots=True)
class AutoRecoverySettings:
    """The settings of one process: of auto-recovery, of the ledger client and of the connections to bookies."""

    recovery: AutoRecoveryConfig
    ledger: LedgerConfig
    wire: WireConfig


def autorecovery_settings(config: ServerConfig) -> AutoRecoverySettings:
    """Returns the settings that follow from the configuration. Raises ConfigError."""
    recovery = config.fill(AutoRecoveryConfig)
    ledger, wire = client_settings(config)
    return AutoRecoverySettings(recovery, ledger, wire)


def client_settings(config: ServerConfig) -> tuple[LedgerConfig, WireConfig]:
    """Returns the settings of the ledger client of a bookie or a tool. The client has BookKeeper's timeouts unless the
    configuration sets others. Raises ConfigError."""
    timeouts = {
        name: BOOKKEEPER_TIMEOUT_SEC
        for name in ("add_entry_timeout_sec", "read_entry_timeout_sec")
        if name not in config.values
    }
    return config.fill(LedgerConfig, **timeouts), config.fill(WireConfig, **timeouts)
