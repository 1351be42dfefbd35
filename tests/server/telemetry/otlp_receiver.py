"""A receiver of OpenTelemetry's metrics over HTTP with protobuf (OTLP), which keeps what it got."""

import gzip
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

WAIT_SECONDS = 60.0

Attributes = dict[str, Any]


class Point(NamedTuple):
    attributes: Attributes
    value: float


class Received(NamedTuple):
    """One metric: its kind (`sum`, `counter` for a sum that only grows, `gauge`, `histogram`), unit and points."""

    kind: str
    unit: str
    points: list[Point]


class Export(NamedTuple):
    """What one request of an exporter held."""

    resource: Attributes
    metrics: dict[str, Received]

    def value(self, name: str, **attributes: Any) -> float | None:
        """Returns the value of the only point that has these attributes, whose names have `_` for a dot."""
        wanted = {key.replace("_", "."): value for key, value in attributes.items()}
        found = [
            point.value
            for point in (self.metrics[name].points if name in self.metrics else ())
            if wanted.items() <= point.attributes.items()
        ]
        assert len(found) <= 1, f"{len(found)} points of {name} have {wanted}"
        return found[0] if found else None


class OtlpReceiver:
    """The receiver on a port of 127.0.0.1. Use it as a context manager."""

    def __init__(self) -> None:
        self.exports: list[Export] = []
        self._changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver._keep(self.path, body)
                answer = ExportMetricsServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: Any) -> None:
                """Writes nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def wait_for(self, holds: Callable[[Export], object]) -> Export:
        """Returns the first export that comes from now on for which `holds` is true."""
        with self._changed:
            seen = len(self.exports)

            def found() -> Export | None:
                nonlocal seen
                fresh, seen = self.exports[seen:], len(self.exports)
                return next((each for each in fresh if holds(each)), None)

            export = self._changed.wait_for(found, WAIT_SECONDS)
            last = self.exports[-1:] if export is None else ()
        assert export is not None, f"no such export; the last one: {last}"
        return export

    def _keep(self, path: str, body: bytes) -> None:
        assert path == "/v1/metrics", path
        request = ExportMetricsServiceRequest.FromString(body)
        exports = [
            Export(
                _attributes(of_resource.resource.attributes),
                {
                    metric.name: _received(metric)
                    for of_scope in of_resource.scope_metrics
                    for metric in of_scope.metrics
                },
            )
            for of_resource in request.resource_metrics
        ]
        with self._changed:
            self.exports += exports
            self._changed.notify_all()


def _attributes(pairs: Iterable[KeyValue]) -> Attributes:
    return {pair.key: _value(pair) for pair in pairs}


def _value(pair: KeyValue) -> Any:
    kind = pair.value.WhichOneof("value")
    if kind == "array_value":
        return [getattr(each, each.WhichOneof("value") or "") for each in pair.value.array_value.values]
    return getattr(pair.value, kind) if kind else None


def _received(metric: Metric) -> Received:
    kind = metric.WhichOneof("data") or ""
    if kind == "histogram":
        points = [Point(_attributes(each.attributes), each.count) for each in metric.histogram.data_points]
        return Received(kind, metric.unit, points)
    data = metric.sum if kind == "sum" else metric.gauge
    values = [Point(_attributes(each.attributes), each.as_double or each.as_int) for each in data.data_points]
    only_grows = kind == "sum" and metric.sum.is_monotonic
    return Received("counter" if only_grows else kind, metric.unit, values)
