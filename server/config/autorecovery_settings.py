"""The settings of auto-recovery, whether it runs in a process of its own or inside a bookie."""

from dataclasses import dataclass

from magnetar.server.config.autorecovery_keys import CLIENT, REPAIR
from magnetar.server.config.bookie_keys import PROCESS
from magnetar.server.config.broker_config import ServerConfig
from magnetar.server.config.honoured_keys import Key
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.wire_config import WireConfig
from magnetar.storage.repair.autorecovery_config import AutoRecoveryConfig

BOOKKEEPER_TIMEOUT_SEC = 5.0
"""The default of BookKeeper's addEntryTimeoutSec and readEntryTimeoutSec. A broker's default is longer."""

AUTORECOVERY_KEYS: dict[str, Key] = {key.name: key for section in (PROCESS, REPAIR, CLIENT) for key in section}


@dataclass(frozen=True, slots=True)
class AutoRecoverySettings:
    """The settings of one process's auto-recovery, of its ledger client and of its connections to bookies."""

    recovery: AutoRecoveryConfig
    ledger: LedgerConfig
    wire: WireConfig


def autorecovery_settings(config: ServerConfig) -> AutoRecoverySettings:
    """Returns the settings that follow from the configuration. Raises ConfigError."""
    recovery = config.fill(AutoRecoveryConfig)
    ledger, wire = client_settings(config)
    return AutoRecoverySettings(recovery, ledger, wire)


def client_settings(config: ServerConfig) -> tuple[LedgerConfig, WireConfig]:
    """Returns the settings of a ledger client that is not a broker's: it has BookKeeper's timeouts unless they are set.
    Raises ConfigError."""
    timeouts = {
        name: BOOKKEEPER_TIMEOUT_SEC
        for name in ("add_entry_timeout_sec", "read_entry_timeout_sec")
        if name not in config.values
    }
    return config.fill(LedgerConfig, **timeouts), config.fill(WireConfig, **timeouts)
