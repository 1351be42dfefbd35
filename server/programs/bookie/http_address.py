"""Where the HTTP port of a bookie or of auto-recovery is."""

from magnetar.server.config.bookie_process_config import BookieServerConfig


def http_address(process: BookieServerConfig) -> tuple[str, int] | None:
    """Returns host and port of the HTTP server (httpServerEnabled), or else of the metrics alone, as
    PrometheusMetricsProvider.start opens it. Returns None if neither is switched on."""
    if process.http_server_enabled:
        return process.http_server_host, process.http_server_port
    if process.wants_metrics_port:
        return process.prometheus_stats_http_address, process.prometheus_stats_http_port
    return None
