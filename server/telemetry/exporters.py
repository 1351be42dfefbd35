"""The exporters that the environment asks for, by the variables of OpenTelemetry's specification."""

from collections.abc import Mapping
from importlib.metadata import entry_points
from threading import Thread
from typing import Any

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics.export import MetricExporter, MetricReader, PeriodicExportingMetricReader
from prometheus_client import CollectorRegistry, start_http_server

from magnetar.server.config.broker_config import ConfigError

GROUP = "opentelemetry_metrics_exporter"
"""The entry points by which packages of exporters make themselves known."""

PROTOCOLS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}

PROMETHEUS_PORT = "OTEL_EXPORTER_PROMETHEUS_PORT"
PROMETHEUS_HOST = "OTEL_EXPORTER_PROMETHEUS_HOST"


class Exporters:
    """The readers for the SDK, which it closes itself, and the pages for Prometheus, which `close` closes."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Raises ConfigError for an exporter that is not there, and for a port that is in use. The exporters read
        their further variables, such as the endpoint, themselves."""
        self._environment = environment
        self._pages: list[tuple[Any, Thread]] = []
        self.readers: list[MetricReader] = []
        asked = environment.get("OTEL_METRICS_EXPORTER", "otlp").split(",")
        self.names = [name for name in map(str.strip, asked) if name and name != "none"]
        for name in self.names:
            self.readers.append(self._prometheus() if name == "prometheus" else _periodic(self._entry_point(name)))

    def close(self) -> None:
        for server, thread in self._pages:
            server.shutdown()
            server.server_close()
            thread.join()

    def _entry_point(self, name: str) -> str:
        if name != "otlp":
            return name
        general = self._environment.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        protocol = self._environment.get("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", general)
        if protocol not in PROTOCOLS:
            raise ConfigError(f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}; there are {', '.join(PROTOCOLS)}")
        return PROTOCOLS[protocol]

    def _prometheus(self) -> MetricReader:
        """Returns a reader whose page is served on a port of its own, as by Java's SDK."""
        text = self._environment.get(PROMETHEUS_PORT, "9464")
        host = self._environment.get(PROMETHEUS_HOST, "0.0.0.0")
        if not text.isdecimal() or int(text) > 65535:
            raise ConfigError(f"{PROMETHEUS_PORT} is {text!r}, which is no port")
        registry = CollectorRegistry()
        try:
            self._pages.append(start_http_server(int(text), host, registry))
        except OSError as error:
            raise ConfigError(f"{PROMETHEUS_PORT}: {host}:{text}: {error.strerror}") from error
        return PrometheusMetricReader(registry=registry)


def _periodic(name: str) -> MetricReader:
    """Returns a reader that exports every OTEL_METRIC_EXPORT_INTERVAL milliseconds, by default every minute."""
    found = list(entry_points(group=GROUP, name=name))
    if not found:
        known = sorted({each.name for each in entry_points(group=GROUP)} | {"otlp", "prometheus", "none"})
        raise ConfigError(f"OTEL_METRICS_EXPORTER: there is no exporter {name!r}; installed are {', '.join(known)}")
    exporter = found[0].load()
    assert issubclass(exporter, MetricExporter)
    return PeriodicExportingMetricReader(exporter())
