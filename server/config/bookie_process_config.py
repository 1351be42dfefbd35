"""The settings of a bookie's process: its cluster, addresses, folders and ports."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BookieServerConfig:
    """The settings of a bookie's process. Each field has the snake_case name of a key in bk_server.conf, and the key's
    unit. The storage has settings of its own, in `magnetar.storage.bookie.bookie_config.BookieConfig`."""

    metadata_service_uri: str = "zk+hierarchical://localhost:2181/ledgers"
    """Where the cluster's metadata is: ZooKeeper's servers, separated by semicolons, and the path of the ledgers'
    records."""
    zk_servers: str = ""
    """The older key that names ZooKeeper, as in "h1:2181,h2:2181". This key is used when metadataServiceUri is not
    set."""
    zk_ledgers_root_path: str = "/ledgers"
    """The path of the ledgers' records, used together with `zk_servers`."""
    zk_timeout: int = 10_000
    """The timeout of the ZooKeeper session in ms. A bookie that was killed stays in the list of available bookies for
    this long."""

    bookie_port: int = 3181
    """The port for clients. 0 picks a free port; in that case the bookie's id changes with each start, unless
    `bookie_id` is set."""
    listening_interface: str = ""
    """The network interface, such as eth0, on which the bookie listens. If this is empty, the bookie listens on all
    interfaces."""
    advertised_address: str = ""
    """The host to which clients connect. The host becomes a part of the bookie's id."""
    bookie_id: str = ""
    """The bookie's id in the records of ledgers. If this is empty, the id is HOST:PORT."""
    use_host_name_as_bookie_id: bool = False
    """Whether the bookie's id has the machine's name instead of its address."""
    use_short_host_name: bool = False
    """Whether that name is the part before the first dot."""
    allow_loopback: bool = False
    """Whether a bookie may start with a loopback address in its id. The default is that of Apache's bookie."""

    journal_directories: tuple[str, ...] = ("data/bookkeeper/journal",)
    journal_directory: tuple[str, ...] = ()
    """The older key for the journals' folders. This key is used when `journal_directories` is not set."""
    ledger_directories: tuple[str, ...] = ("data/bookkeeper/ledgers",)

    gc_overreplicated_ledger_wait_time: int = 86_400_000
    """The time in milliseconds between two searches for ledgers that this bookie need not hold any more."""

    read_only_mode_enabled: bool = True
    """Whether a bookie whose disk is full goes on serving reads. If this is off, such a bookie ends."""
    auto_recovery_daemon_enabled: bool = True
    """Whether this process also runs auto-recovery, which takes part in the auditor's election and heals ledgers."""
    http_server_enabled: bool = False
    """Whether the HTTP server is on, which tells the bookie's state and has /metrics. Callers do not log in."""
    http_server_host: str = "0.0.0.0"
    """The address on which the HTTP server listens."""
    http_server_port: int = 8080
    """The port of the HTTP server; 0 picks a free port."""
    enable_statistics: bool = True
    """Whether there are metrics at all."""
    stats_provider_class: str = ""
    """The Java class that provides metrics. Apache's PrometheusMetricsProvider opens a port for /metrics alone, unless
    the HTTP server is on, which has that page too."""
    prometheus_stats_http_enable: bool = True
    """Whether the port for metrics may be opened."""
    prometheus_stats_http_address: str = "0.0.0.0"
    """The address on which the port for metrics listens."""
    prometheus_stats_http_port: int = 8000
    """The port for metrics; 0 picks a free port."""
    netty_max_frame_size_bytes: int = 5 * 1024 * 1024 + 10_240
    """The longest request in bytes. Apache's bookie has 5 MiB, and Pulsar's brokers need 10 KiB more than that."""

    @property
    def wants_metrics_port(self) -> bool:
        """Whether the bookie opens a port for metrics alone, by the rule of PrometheusMetricsProvider.start in
        BookKeeper 4.17."""
        provider = self.stats_provider_class.endswith("PrometheusMetricsProvider")
        return (
            provider and self.enable_statistics and self.prometheus_stats_http_enable and not self.http_server_enabled
        )
