"""Settings of the bookie's process: names are the snake_case of bk_server.conf's keys, units as there."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BookieServerConfig:
    """What concerns the process; its storage's settings are `magnetar.storage.bookie.bookie_config.BookieConfig`."""

    metadata_service_uri: str = "zk+hierarchical://localhost:2181/ledgers"
    zk_servers: str = ""
    """The older way to name ZooKeeper, "h1:2181,h2:2181"; used when metadataServiceUri is not set."""
    zk_ledgers_root_path: str = "/ledgers"
    """With `zk_servers`."""
    zk_timeout: int = 10_000
    """zkTimeout, ms: the session's. A bookie that was killed is in the list of available ones for so long."""

    bookie_port: int = 3181
    """0 picks a free port; without `bookie_id` the bookie's id then changes with each start."""
    listening_interface: str = ""
    """A network interface such as eth0: listen on its address only. Empty: on all."""
    advertised_address: str = ""
    """The host that clients connect to, and that the bookie's id is made of."""
    bookie_id: str = ""
    """The id in ledgers' records; empty: HOST:PORT."""
    use_host_name_as_bookie_id: bool = False
    use_short_host_name: bool = False
    allow_loopback: bool = False
    """Without it, a bookie that would make its id of a loopback address does not start (Apache)."""

    journal_directories: tuple[str, ...] = ("data/bookkeeper/journal",)
    journal_directory: tuple[str, ...] = ()
    """The older key, used when `journal_directories` is not set."""
    ledger_directories: tuple[str, ...] = ("data/bookkeeper/ledgers",)

    gc_overreplicated_ledger_wait_time: int = 86_400_000
    """gcOverreplicatedLedgerWaitTime, ms, between two looks for ledgers that this bookie need not have any more."""

    read_only_mode_enabled: bool = True
    """Off: a bookie whose disk is full ends instead of serving reads."""
    auto_recovery_daemon_enabled: bool = True
    """Stand for auditor and heal ledgers in this process too."""
    http_server_enabled: bool = False
    http_server_host: str = "0.0.0.0"
    http_server_port: int = 8080
    """0 picks a free port."""
    enable_statistics: bool = True
    stats_provider_class: str = ""
    """PrometheusMetricsProvider opens a port with /metrics alone, unless the HTTP server, which has it too, is on."""
    prometheus_stats_http_enable: bool = True
    prometheus_stats_http_address: str = "0.0.0.0"
    prometheus_stats_http_port: int = 8000
    netty_max_frame_size_bytes: int = 5 * 1024 * 1024 + 10_240
    """nettyMaxFrameSizeBytes: longest request. Apache's bookie 5 MiB; Pulsar's brokers need 10 KiB more."""

    @property
    def wants_metrics_port(self) -> bool:
        """As PrometheusMetricsProvider.start of 4.17 decides."""
        provider = self.stats_provider_class.endswith("PrometheusMetricsProvider")
        return (
            provider and self.enable_statistics and self.prometheus_stats_http_enable and not self.http_server_enabled
        )
