"""The settings of a broker of a cluster: metadata stores, ledger client, and the settings that differ from a standalone
server's."""

from dataclasses import dataclass, fields

from magnetar.metadata.zookeeper.connect_string import SCHEME, ConnectString
from magnetar.metadata.zookeeper.service_uri import FROM_THE_CLUSTER, ServiceUri, parse_service_uri
from magnetar.server.config.broker_config import ConfigError, ServerConfig
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.wire_config import WireConfig
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig

QUORUM = 2
"""The default of Apache's broker for the ensemble's size and for both quorums."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The keys of broker.conf about the metadata stores and the process, in snake_case. Apache still reads some older
    keys. An older key `zoo_keeper_…` outranks its successor if its value is positive; any other older key is used when
    its successor is not set (ServiceConfiguration.getMetadataStoreUrl and the methods beside it)."""

    metadata_store_url: str = ""
    """The cluster's own metadata store, as in "zk:h1:2181,h2:2181/chroot"; "zk:" may be left out."""
    zookeeper_servers: str = ""
    """The older key for `metadata_store_url`."""
    configuration_metadata_store_url: str = ""
    """The store of tenants, namespaces, clusters and partitioned topics, which several clusters may share. If this is
    empty, these records are in the cluster's own store."""
    configuration_store_servers: str = ""
    """The older key for `configuration_metadata_store_url`."""
    global_zookeeper_servers: str = ""
    """The oldest key for `configuration_metadata_store_url`."""
    metadata_store_session_timeout_millis: int = 30_000
    """The timeout of the ZooKeeper session. The bundles of a broker that was killed get a new owner after this time."""
    zoo_keeper_session_timeout_millis: int = -1
    """The older key for `metadata_store_session_timeout_millis`."""
    metadata_store_operation_timeout_seconds: int = 30
    """How long a call to ZooKeeper may take."""
    zoo_keeper_operation_timeout_seconds: int = -1
    """The older key for `metadata_store_operation_timeout_seconds`."""
    zookeeper_session_expired_policy: str = "reconnect"
    """The reaction to the loss of the ZooKeeper session: "reconnect", or "shutdown" for a process that ends in this
    case."""
    bookkeeper_metadata_service_uri: str = ""
    """The URI of the bookies' metadata. If this is empty, the bookies use the broker's own metadata store."""
    broker_shutdown_timeout_ms: int = 60_000
    """How long an orderly stop may take."""

    @property
    def local_store(self) -> str:
        """The connect string of the cluster's own store."""
        return (self.metadata_store_url or self.zookeeper_servers).removeprefix(SCHEME)

    @property
    def configuration_store(self) -> str:
        """The connect string of the configuration store, which may be the cluster's own."""
        url = self.configuration_metadata_store_url or self.configuration_store_servers or self.global_zookeeper_servers
        return url.removeprefix(SCHEME) or self.local_store

    @property
    def session_timeout_ms(self) -> int:
        older = self.zoo_keeper_session_timeout_millis
        return older if older > 0 else self.metadata_store_session_timeout_millis

    @property
    def operation_timeout_seconds(self) -> int:
        older = self.zoo_keeper_operation_timeout_seconds
        return older if older > 0 else self.metadata_store_operation_timeout_seconds


def cluster_settings(config: ServerConfig) -> ClusterSettings:
    """Returns the settings of the cluster. Raises ConfigError, which names the key, when the configuration lacks the
    cluster's name or metadata store, or names a store of an unknown kind."""
    settings = config.fill(ClusterSettings)
    if "cluster_name" not in config.values:
        raise ConfigError("clusterName is not set: a broker belongs to the cluster of this name")
    if not settings.local_store:
        raise ConfigError("metadataStoreUrl is not set: a broker of a cluster needs it, as in zk:h1:2181,h2:2181")
    for field in fields(ClusterSettings):
        value = config.values.get(field.name)
        if field.name.endswith(("_url", "_servers")) and isinstance(value, str):
            _check_store(value, config.places[field.name])
    return settings


def _check_store(url: str, place: str) -> None:
    kind, colon, _ = url.removeprefix(SCHEME).partition("://")
    known = not colon and not url.startswith(("rocksdb:", "memory:", "etcd:", "oxia:", "metadata-store:"))
    try:
        if not known:
            raise ValueError(f"{kind.partition(':')[0]} is no kind of store that is known here")
        ConnectString.parse(url)
    except ValueError as error:
        raise ConfigError(f"{place}: {error}; expected zk:host:port,host:port/chroot") from None


def bookkeeper_uri(config: ServerConfig, settings: ClusterSettings) -> ServiceUri:
    """Returns the URI of the bookies' metadata. Raises ConfigError."""
    if not settings.bookkeeper_metadata_service_uri:
        return ServiceUri(settings.local_store, FROM_THE_CLUSTER)
    try:
        return parse_service_uri(settings.bookkeeper_metadata_service_uri)
    except ValueError as error:
        raise ConfigError(f"{config.places['bookkeeper_metadata_service_uri']}: {error}") from None


def ledger_client_settings(config: ServerConfig) -> tuple[LedgerConfig, WireConfig]:
    """Returns the settings of a broker's ledger client. Unless the configuration sets a time for speculative reads, a
    second replica is asked only after the first replica has failed, which is the default of Apache's broker. Raises
    ConfigError."""
    fixed: dict[str, object] = {}
    if "speculative_read_timeout_sec" not in config.values:
        fixed["speculative_read_timeout_sec"] = 0.0
    return config.fill(LedgerConfig, **fixed), config.fill(WireConfig)


def managed_ledger_settings(config: ServerConfig) -> ManagedLedgerConfig:
    """Returns the settings of managed ledgers, with the quorums of Apache's broker unless the configuration sets
    others. Raises ConfigError."""
    quorums = (
        "managed_ledger_default_ensemble_size",
        "managed_ledger_default_write_quorum",
        "managed_ledger_default_ack_quorum",
    )
    return config.fill(ManagedLedgerConfig, **{name: QUORUM for name in quorums if name not in config.values})
