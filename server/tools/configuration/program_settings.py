"""The settings that each program makes of an empty configuration file, from which the defaults of all keys are read."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from magnetar.server.config.autorecovery_settings import AUTORECOVERY_KEYS, autorecovery_settings
from magnetar.server.config.bookie_keys import BOOKIE_KEYS
from magnetar.server.config.bookie_process_config import BookieServerConfig
from magnetar.server.config.bookie_settings import storage_config
from magnetar.server.config.bookie_tls_settings import BookieTls, BrokerBookieTls
from magnetar.server.config.broker_config import ServerConfig, load_config
from magnetar.server.config.broker_keys import BROKER_KEYS
from magnetar.server.config.bundle_settings import BundleSettings
from magnetar.server.config.cluster_settings import ClusterSettings, ledger_client_settings, managed_ledger_settings
from magnetar.server.config.connection_settings import ConnectionSettings
from magnetar.server.config.fault_settings import FaultSettings
from magnetar.server.config.honoured_keys import KEYS
from magnetar.server.config.http_settings import WebSettings
from magnetar.server.config.key_kinds import Key
from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.config.metadata_settings import MetadataSettings
from magnetar.server.config.metrics_settings import MetricsSettings
from magnetar.server.config.peer_settings import PeerSettings
from magnetar.server.config.security_settings import SecuritySettings, TlsSettings
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.config.upkeep_settings import UpkeepSettings
from magnetar.server.config.websocket_settings import WebSocketSettings
from magnetar.server.network.advertised_listeners import ListenerSettings
from magnetar.server.network.bind_addresses import BindSettings
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig

BOTH_BROKERS = (
    TopicSettings,
    UpkeepSettings,
    ConnectionSettings,
    WebSettings,
    WebSocketSettings,
    MetricsSettings,
    SecuritySettings,
    TlsSettings,
    ListenerSettings,
    BindSettings,
    BundleSettings,
)
"""The settings that a standalone server and a broker of a cluster have in common."""

CHANGING = (
    TopicSettings,
    ManagedLedgerConfig,
    ConnectionSettings,
    SecuritySettings,
    BundleSettings,
    PeerSettings,
    LoadSettings,
    TransactionSettings,
)
"""The settings that an administrator may change while a broker runs (`DynamicConfiguration.hold`)."""

NOT_OF_AUTORECOVERY = frozenset(
    {
        "journalDirectory",
        "journalDirectories",
        "ledgerDirectories",
        "readOnlyModeEnabled",
        "autoRecoveryDaemonEnabled",
        "gcOverreplicatedLedgerWaitTime",
        "nettyMaxFrameSizeBytes",
    }
)
"""The keys of a bookie's process that auto-recovery reads for the sake of shared files, and that change nothing
there."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program, the keys that it takes, and its settings when the configuration sets nothing."""

    name: str
    keys: Mapping[str, Key]
    settings: tuple[object, ...]

    def setting_of(self, key: Key) -> tuple[object, str] | None:
        """Returns the settings object that the key sets first, and the field; None for a key without effect."""
        for settings in self.settings:
            for field in key.fields:
                if hasattr(settings, field):
                    return settings, field
        return None


@cache
def programs() -> tuple[Program, ...]:
    """Returns all programs that take a configuration file."""
    nothing = load_config()
    both = (nothing.broker, *map(nothing.fill, BOTH_BROKERS))
    folders = nothing.fill(BookieServerConfig)
    bookie = (folders, storage_config(nothing, folders), nothing.fill(BookieTls))
    recovery = autorecovery_settings(nothing)
    client = (recovery.ledger, recovery.wire)
    standalone = (
        *both,
        nothing.transactions(is_standalone=True),
        nothing.managed_ledgers(bookies=1),
        *_storage(nothing),
        nothing.fill(LedgerConfig),
        nothing.fill(FaultSettings),
    )
    broker = (
        *both,
        nothing.transactions(is_standalone=False),
        managed_ledger_settings(nothing),
        *ledger_client_settings(nothing),
        nothing.fill(ClusterSettings),
        nothing.fill(LoadSettings),
        nothing.fill(PeerSettings),
        nothing.fill(BrokerBookieTls),
    )
    apart = {name: key for name, key in AUTORECOVERY_KEYS.items() if name not in NOT_OF_AUTORECOVERY}
    return (
        Program("standalone", KEYS, standalone),
        Program("broker", BROKER_KEYS, broker),
        Program("bookie", BOOKIE_KEYS, (*bookie, recovery.recovery, *client)),
        Program("autorecovery", apart, (folders, recovery.recovery, *client, nothing.fill(BookieTls))),
    )


def _storage(nothing: ServerConfig) -> tuple[object, ...]:
    """Returns the settings of a standalone server's own bookie and metadata."""
    folder = (Path("data"),)
    return nothing.bookie(journal_directories=folder, ledger_directories=folder), nothing.fill(MetadataSettings)
