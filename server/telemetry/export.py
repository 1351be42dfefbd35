"""The broker's instruments in OpenTelemetry's SDK, which collects and exports them on a thread.

A collection never touches the broker's objects: it reads a snapshot, which the event loop has gathered in portions.
Source: OpenTelemetryService, PulsarBrokerOpenTelemetry.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.view import View
from opentelemetry.sdk.resources import OTELResourceDetector, Resource

from magnetar import __version__
from magnetar.server.process.collector_pauses import no_collections
from magnetar.server.telemetry.daemon_thread import on_daemon_thread
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
"""How long a page for Prometheus waits for the event loop. After that the page is empty."""

SEEN_MAX = 2 * SETS_MAX
"""How many objects of one kind the SDK may have seen before it is started anew. The SDK never forgets an object, for
instance a consumer that has left, and counts all of them against its limit. After a new start the sums have a new time
of beginning."""

EXPORT_MS = 30_000.0
"""How long the SDK may take to collect the points of an export."""

UNCOLLECTED_SECONDS_MAX = 5.0
"""How long the garbage collector is switched off for an export at most."""

LAST_EXPORT_SECONDS = 0.5
"""How long the last export may take when the broker ends, and then the end of the exporters."""


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
        self._provider = self._started()
        self._periodic = self._loop.create_task(self._export_periodically())
        log.info("metrics are exported by OpenTelemetry: %s", ", ".join(self._exporters.names))

    def _started(self) -> MeterProvider:
        """Returns the SDK, which has seen nothing yet."""
        self._seen: list[set[int]] = [set() for _ in self._tables]
        """For each table, the hashes of the attributes that the SDK has seen."""
        limit = SEEN_MAX + SETS_MAX + 2  # so many that the SDK never makes a point for what is beyond a limit
        views = [View(instrument_name="*", aggregation_cardinality_limit=limit)]
        provider = MeterProvider(self._exporters.make_readers(), resource_of(self._broker.cluster), views=views)
        meter, number = provider.get_meter(SCOPE, __version__), 0
        for table_index, table in enumerate(self._tables):
            for column, instrument in enumerate(table.instruments):
                _create(meter, instrument, partial(self._observe, number, table_index, column))
                number += 1
        return provider

    def _start_anew(self) -> None:
        self._end_provider()
        self._provider = self._started()

    def _end_provider(self) -> None:
        try:
            self._provider.shutdown(1000 * LAST_EXPORT_SECONDS)
        except Exception:  # the SDK raises nothing more precise
            log.warning("the exporters of OpenTelemetry did not end in %g s", LAST_EXPORT_SECONDS)

    async def close(self) -> None:
        """Exports for a last time and ends. What an exporter that hangs has not exported in time is lost."""
        self._periodic.cancel()
        for step in (self._export, partial(on_daemon_thread, self._end_provider)):
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_EXPORT_SECONDS):
                    await step()
        await asyncio.to_thread(self._exporters.close)

    async def _export_periodically(self) -> None:
        while True:
            await asyncio.sleep(self._exporters.interval_s)
            try:
                await self._export()
            except Exception:
                log.exception("an export by OpenTelemetry failed")

    async def _export(self) -> None:
        if any(len(seen) > SEEN_MAX for seen in self._seen):
            await on_daemon_thread(self._start_anew)
        if self._exporters.periodic:
            self._tables = await gather(self._broker)
            self._taken = [False] * len(self._taken)
            await on_daemon_thread(self._flush)

    def _flush(self) -> None:
        """Has the SDK collect and export the snapshot. Python's garbage collector is switched off meanwhile, unless the
        receiver hangs: the SDK makes several objects for each point, which would bring about full garbage collections,
        and each of them stops the event loop for hundreds of milliseconds. The objects of an export have no cycles and
        go without it."""
        with no_collections(UNCOLLECTED_SECONDS_MAX):
            for reader in self._exporters.periodic:
                reader.force_flush(EXPORT_MS)

    def _observe(self, number: int, table: int, column: int, _: CallbackOptions) -> Iterable[Observation]:
        """Yields the points of one instrument. The SDK asks every instrument once in each collection, and does one
        collection after the other (MeasurementConsumer.collect), so an instrument that is asked again begins a new
        collection, which needs a new snapshot. That happens when Prometheus reads a page, on the thread of the page."""
        if self._taken[number]:
            self._tables = self._snapshot()
            self._taken = [False] * len(self._taken)
        self._taken[number] = True
        if column == 0:
            self._seen[table].update(hash(frozenset(each.items())) for each, _ in self._tables[table].points(0))
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
