"""The settings that follow from a bookie's configuration: its cluster, its storage, and the settings that a member of a
cluster must not have."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from magnetar.metadata.zookeeper.service_uri import ServiceUri, parse_service_uri
from magnetar.server.config.bookie_process_config import BookieServerConfig
from magnetar.server.config.broker_config import ConfigError, ServerConfig
from magnetar.storage.bookie.bookie_config import BookieConfig

CLUSTER_DEFAULTS: dict[str, Any] = {
    "gc_wait_time": 900_000,
    "disk_usage_threshold": 0.95,
    "disk_usage_lwm_threshold": 0.95,
    "min_usable_size_for_high_priority_writes": 64 << 20,
}
"""Defaults of Apache's bookie that differ from the defaults of a standalone server. Garbage is collected rarely,
because each collection lists all ledgers in ZooKeeper."""

DAMAGE_ADVICE = (
    "Restore the file from a copy, or leave this bookie down and let its ledgers be copied from the others "
    "(magnetar bk decommissionbookie)"
)
"""The advice for a damaged bookie of a cluster. A standalone server may skip damage, but a bookie of a cluster must
not: the recovery of a ledger would conclude that the lost entries never existed, and would close the ledger without
acknowledged entries."""


def service_uri(config: ServerConfig, process: BookieServerConfig) -> ServiceUri:
    """Returns the URI of the cluster's metadata. Raises ConfigError."""
    uri = process.metadata_service_uri
    if "zk_servers" in config.values and "metadata_service_uri" not in config.values:
        uri = f"zk+null://{process.zk_servers.replace(',', ';')}{process.zk_ledgers_root_path}"
    try:
        return parse_service_uri(uri)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def zookeeper_of(config: ServerConfig, process: BookieServerConfig) -> str:
    """Returns the connect string of the cluster's ZooKeeper. Raises ConfigError."""
    return service_uri(config, process).connect


def storage_config(config: ServerConfig, process: BookieServerConfig) -> BookieConfig:
    """Returns the settings of the storage, with the defaults of a cluster's bookie. Raises ConfigError."""
    older = process.journal_directory if "journal_directories" not in config.values else ()
    storage = config.bookie(
        journal_directories=tuple(map(Path, older or process.journal_directories)),
        ledger_directories=tuple(map(Path, process.ledger_directories)),
    )
    if storage.skip_damaged_journal:
        raise ConfigError(f"{config.places['skip_damaged_journal']}: not for a bookie of a cluster. {DAMAGE_ADVICE}")
    defaults = {name: value for name, value in CLUSTER_DEFAULTS.items() if name not in config.values}
    if "disk_usage_threshold" in config.values:
        defaults.pop("disk_usage_lwm_threshold", None)
    return replace(storage, **defaults)
