"""The settings of a bookie's process: its cluster, addresses, folders and ports."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BookieServerConfig:
    """The settings of a bookie's process. The fields are the snake_case of bk_server.conf's keys, in the same units.
    The storage has settings of its own, in `magnetar.storage.bookie.bookie_config.BookieConfig`."""

    metadata_service_uri: str = "zk+hierarchical://localhost:2181/ledgers"
    zk_servers: str = ""
    """The older way to name ZooKeeper, "h1:2181,h2:2181"; used when metadataServiceUri is not set."""
    zk_ledgers_root_path: str = "/ledgers"
    """The path of the ledgers' records, used together with `zk_servers`."""
    zk_timeout: int = 10_000
    """The timeout of the ZooKeeper session in ms. A bookie that was killed stays in the list of available bookies for
    this long."""

    bookie_port: int = 3181
    """0 picks a free port. The bookie's id then changes with each start, unless `bookie_id` is set."""
    listening_interface: str = ""
    """A network interface such as eth0, on whose address alone the bookie listens. If empty, it listens on all."""
    advertised_address: str = ""
    """The host that clients connect to; the bookie's id is made of it."""
    bookie_id: str = ""
    """The bookie's id in the records of ledgers. If empty, the id is HOST:PORT."""
    use_host_name_as_bookie_id: bool = False
    use_short_host_name: bool = False
    allow_loopback: bool = False
    """Unless this is set, a bookie does not start if its id would be made of a loopback address, as Apache's does
    not."""

    journal_directories: tuple[str, ...] = ("data/bookkeeper/journal",)
    journal_directory: tuple[str, ...] = ()
    """The older name of the key, used when `journal_directories` is not set."""
    ledger_directories: tuple[str, ...] = ("data/bookkeeper/ledgers",)

    gc_overreplicated_ledger_wait_time: int = 86_400_000
    """Milliseconds between two looks for ledgers that this bookie need not hold any more."""

    read_only_mode_enabled: bool = True
    """If this is off, a bookie whose disk is full ends instead of serving reads."""
    auto_recovery_daemon_enabled: bool = True
    """Whether this process also runs auto-recovery: it stands for auditor and heals ledgers."""
    http_server_enabled: bool = False
    http_server_host: str = "0.0.0.0"
    http_server_port: int = 8080
    """0 picks a free port."""
    enable_statistics: bool = True
    stats_provider_class: str = ""
    """Apache's PrometheusMetricsProvider opens a port for /metrics alone, unless the HTTP server is on, which has that
    page too."""
    prometheus_stats_http_enable: bool = True
    prometheus_stats_http_address: str = "0.0.0.0"
    prometheus_stats_http_port: int = 8000
    netty_max_frame_size_bytes: int = 5 * 1024 * 1024 + 10_240
    """The longest request in bytes. Apache's bookie has 5 MiB, and Pulsar's brokers need 10 KiB more than that."""

    @property
    def wants_metrics_port(self) -> bool:
        """Whether a port for metrics alone is opened, as PrometheusMetricsProvider.start of BookKeeper 4.17 decides
        it."""
        provider = self.stats_provider_class.endswith("PrometheusMetricsProvider")
        return (
            provider and self.enable_statistics and self.prometheus_stats_http_enable and not self.http_server_enabled
        )
