"""The broker's instruments in OpenTelemetry's SDK, whose readers collect them on threads of their own.

A collection never touches the broker's objects: it asks the event loop for a snapshot, which the loop gathers in
portions, and waits for it. Source: OpenTelemetryService, PulsarBrokerOpenTelemetry.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.view import View
from opentelemetry.sdk.resources import OTELResourceDetector, Resource

from magnetar import __version__
from magnetar.server.telemetry.exporters import Exporters
from magnetar.server.telemetry.gathering import Points, gather
from magnetar.server.telemetry.instruments import Instrument, Kind
from magnetar.server.telemetry.points import SETS_MAX, PointTable

if TYPE_CHECKING:
    from magnetar.server.broker.broker import Broker

log = logging.getLogger(__name__)

SCOPE = "org.apache.pulsar.broker"
SERVICE = "pulsar-broker"

GATHER_SECONDS = 30.0
"""How long a collection waits for the event loop. After that the collection is empty."""

SHUTDOWN_MS = 500.0
"""How long the last export may take when the broker ends."""


class Telemetry:
    """The export of one broker's metrics from `__init__`, which is called on the event loop, to `close`."""

    def __init__(self, broker: "Broker", environment: Mapping[str, str]) -> None:
        """Begins to export as the environment says. Raises ConfigError for an exporter that is not there, and for a
        port that is in use."""
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        self._tables: Sequence[PointTable] = Points().tables
        count = sum(len(table.instruments) for table in self._tables)
        self._taken = [True] * count
        """Which instruments have taken their points of the present snapshot."""
        self._exporters = Exporters(environment)
        # One more than the limit, because the points beyond it are one point more.
        views = [View(instrument_name="*", aggregation_cardinality_limit=SETS_MAX + 2)]
        self._provider = MeterProvider(self._exporters.readers, resource_of(broker.cluster), views=views)
        meter, number = self._provider.get_meter(SCOPE, __version__), 0
        for table_index, table in enumerate(self._tables):
            for column, instrument in enumerate(table.instruments):
                _create(meter, instrument, partial(self._observe, number, table_index, column))
                number += 1
        log.info("metrics are exported by OpenTelemetry: %s", ", ".join(self._exporters.names))

    async def close(self) -> None:
        """Exports for a last time and ends."""
        await asyncio.to_thread(self._provider.shutdown, SHUTDOWN_MS)
        await asyncio.to_thread(self._exporters.close)

    def _observe(self, number: int, table: int, column: int, _: CallbackOptions) -> Iterable[Observation]:
        """Yields the points of one instrument. The SDK calls this on the thread of a reader. It asks every instrument
        once in each collection, and does one collection after the other (MeasurementConsumer.collect), so an instrument
        that is asked again begins a new collection, which needs a new snapshot."""
        if self._taken[number]:
            self._tables = self._snapshot()
            self._taken = [False] * len(self._taken)
        self._taken[number] = True
        for attributes, value in self._tables[table].points(column):
            yield Observation(value, attributes)

    def _snapshot(self) -> Sequence[PointTable]:
        """Returns the points of this moment, or no points when the loop does not gather them in time."""
        gathering = asyncio.run_coroutine_threadsafe(gather(self._broker), self._loop)
        try:
            return gathering.result(GATHER_SECONDS)
        except TimeoutError:
            gathering.cancel()
            log.warning("an export by OpenTelemetry is empty: the broker gathered no metrics in %g s", GATHER_SECONDS)
            return Points().tables


def resource_of(cluster: str) -> Resource:
    """Returns what the exports say about this process. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` have
    precedence."""
    own = {"service.name": SERVICE, "service.version": __version__, "pulsar.cluster": cluster}
    return Resource.create({**own, **OTELResourceDetector().detect().attributes})


def _create(meter: Meter, instrument: Instrument, observe: Callable[[CallbackOptions], Iterable[Observation]]) -> None:
    create = {
        Kind.COUNTER: meter.create_observable_counter,
        Kind.SUM: meter.create_observable_up_down_counter,
        Kind.GAUGE: meter.create_observable_gauge,
    }[instrument.kind]
    create(instrument.name, [observe], instrument.unit, instrument.description)
