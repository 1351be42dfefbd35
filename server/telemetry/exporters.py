"""The exporters that the environment asks for, by the variables of OpenTelemetry's specification."""

import math
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

GRPC = "otlp_proto_grpc"
PROTOCOLS = {"http/protobuf": "otlp_proto_http", "grpc": GRPC}

BATCH_POINTS_MAX = 5_000
"""How many points one request of OTLP holds. To encode them takes one call, during which no other thread runs."""

INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
PROMETHEUS_PORT = "OTEL_EXPORTER_PROMETHEUS_PORT"
PROMETHEUS_HOST = "OTEL_EXPORTER_PROMETHEUS_HOST"


class Exporters:
    """Makes readers for the SDK, which closes them itself, and serves the page for Prometheus until `close`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Raises ConfigError for an exporter that is not there, and for a port that is in use. The exporters read
        their further variables, such as the endpoint, themselves."""
        self._environment = environment
        self._registry = CollectorRegistry()
        self._page: tuple[Any, Thread] | None = None
        self.periodic: list[MetricReader] = []
        """Those of the readers that export when `force_flush` is called."""
        self.interval_s = self._interval_s()
        asked = environment.get("OTEL_METRICS_EXPORTER", "otlp").split(",")
        self.names = [name for name in map(str.strip, asked) if name and name != "none"]
        if "prometheus" in self.names:
            self._page = self._served()

    def make_readers(self) -> list[MetricReader]:
        """Returns new readers, of which those in `periodic` export. Raises ConfigError for an exporter that is not
        there."""
        self.periodic = [_exporting(self._entry_point(name)) for name in self.names if name != "prometheus"]
        if self._page is None:
            return self.periodic
        return [*self.periodic, PrometheusMetricReader(registry=self._registry)]

    def close(self) -> None:
        if self._page is not None:
            server, thread = self._page
            server.shutdown()
            server.server_close()
            thread.join()

    def _interval_s(self) -> float:
        text = self._environment.get(INTERVAL, "60000")
        if not text.isdecimal() or int(text) == 0:
            raise ConfigError(f"{INTERVAL} is {text!r}, which is no number of milliseconds")
        return int(text) / 1000

    def _entry_point(self, name: str) -> str:
        if name != "otlp":
            return name
        general = self._environment.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        protocol = self._environment.get("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", general)
        if protocol not in PROTOCOLS:
            raise ConfigError(f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}; there are {', '.join(PROTOCOLS)}")
        return PROTOCOLS[protocol]

    def _served(self) -> tuple[Any, Thread]:
        """Serves the page on a port of its own, as Java's SDK does. Returns the HTTP server and its thread."""
        text = self._environment.get(PROMETHEUS_PORT, "9464")
        host = self._environment.get(PROMETHEUS_HOST, "0.0.0.0")
        if not text.isdecimal() or int(text) > 65535:
            raise ConfigError(f"{PROMETHEUS_PORT} is {text!r}, which is no port")
        try:
            return start_http_server(int(text), host, self._registry)
        except OSError as error:
            raise ConfigError(f"{PROMETHEUS_PORT}: {host}:{text}: {error.strerror}") from error


def _exporting(name: str) -> MetricReader:
    """Returns a reader that has no thread of its own: it exports when it is told to."""
    found = list(entry_points(group=GROUP, name=name))
    if not found and name == GRPC:
        package = "opentelemetry-exporter-otlp-proto-grpc"
        raise ConfigError(f"OTLP over grpc needs a package that is not installed: pip install {package}")
    if not found:
        known = sorted({each.name for each in entry_points(group=GROUP)} | {"otlp", "prometheus", "none"})
        raise ConfigError(f"OTEL_METRICS_EXPORTER: there is no exporter {name!r}; installed are {', '.join(known)}")
    exporter = found[0].load()
    assert issubclass(exporter, MetricExporter)
    further = {"max_export_batch_size": BATCH_POINTS_MAX} if name in PROTOCOLS.values() else {}
    return PeriodicExportingMetricReader(exporter(**further), export_interval_millis=math.inf)
