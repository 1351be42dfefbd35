"""Keeps this broker's registration in the cluster. The value of the registration is the report of the broker's load.

Source: ModularLoadManagerImpl.start, updateLocalBrokerData and writeBrokerDataOnZooKeeper.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from magnetar.metadata.compare_and_set import update_record
from magnetar.metadata.coordination.lock_errors import LockBusyError, LockNotHeldError
from magnetar.metadata.coordination.lock_manager import LockManager
from magnetar.metadata.coordination.resource_lock import ResourceLock
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.store import MetadataStore
from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.load import report_rules
from magnetar.server.load.broker_report import BrokerUsage, BundleStats, LocalBrokerData
from magnetar.server.load.bundle_averages import TimeAverageBrokerData
from magnetar.server.load.registered_brokers import broker_path
from magnetar.server.load.usage_rules import weighted_usage
from magnetar.server.namespaces.broker_addresses import BrokerAddresses, listeners_value
from pulsar_proto.errors import PulsarError

log = logging.getLogger(__name__)

BROKER_AVERAGES = "/loadbalance/broker-time-average"

COLLECT_SECONDS = 60
"""How often the figures of the bundles are read again from the topics."""

Measure = Callable[[float], Awaitable[BrokerUsage]]
"""Measures the usage of the host. The argument is the speed of its network interfaces in Gbit/s, or 0 for the speed
that the system knows."""


class StatsSource(Protocol):
    """The source of the figures of the bundles (`BundleStatsSource`)."""

    async def collect(self) -> dict[str, BundleStats]: ...

    def current(self) -> dict[str, BundleStats]: ...


def is_same_broker(one: bytes, other: bytes) -> bool:
    """Returns whether two registrations belong to the same broker, before and after a restart
    (LocalBrokerData.equals)."""
    first, second = LocalBrokerData.read(one), LocalBrokerData.read(other)
    return first is not None and second is not None and first.identity == second.identity


class LoadReporter:
    """Registers this broker and keeps the report in the registration current. All calls are made on the loop's
    thread."""

    def __init__(
        self,
        store: MetadataStore,
        locks: LockManager,
        own: BrokerAddresses,
        settings: LoadSettings,
        stats: StatsSource,
        measure: Measure,
    ) -> None:
        self.settings = settings
        self._store = store
        self._locks = locks
        self._own = own
        self._stats = stats
        self._measure = measure
        self._lock: ResourceLock | None = None
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._is_forced = False
        self.report = _first_report(own)
        """The present report. The leader knows the report that was written last."""
        self._written = self.report
        self._written_at_s = 0.0
        self._measured_at_s: float | None = None
        self._collected_at_s: float | None = None

    @property
    def is_registered(self) -> bool:
        return self._lock is not None and self._lock.is_held

    async def start(self) -> None:
        """Registers the broker. Called when its ports listen. Raises MetadataError when the store fails, and
        LockBusyError when another live broker has the same id."""
        await self._refresh()
        await self._register()
        path = f"{BROKER_AVERAGES}/{self._own.broker_id}"
        zeros = TimeAverageBrokerData().to_bytes()
        await update_record(self._store, path, lambda _: zeros)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Deletes the registration, so that no more bundles are placed here. Raises MetadataError when the store
        fails."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        if self._lock is not None:
            await self._lock.release()

    def report_now(self) -> None:
        """Has the report written soon, even if little has changed."""
        self._is_forced = True
        self._wake.set()

    async def _run(self) -> None:
        while True:
            seconds = self.settings.load_balancer_report_update_min_interval_millis / 1000
            try:
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                await self._tick()
            except (LockBusyError, LockNotHeldError) as error:
                log.error("this broker is not registered, another one has its name: %s", error)
            except (MetadataError, PulsarError) as error:
                log.warning("the report of this broker was not written: %s", error)

    async def _tick(self) -> None:
        """Writes the report if it is due. If the registration was lost, because another broker has taken this broker's
        id, tries to register again."""
        if not self._store.is_connected:
            return
        if self._lock is None or not self._lock.is_held:
            await self._refresh()
            await self._register()
            return
        if not self.settings.load_balancer_enabled:
            return
        await self._refresh()
        age_s = time.monotonic() - self._written_at_s
        why = report_rules.why_write(self._written, age_s, self.report, self.settings)
        if why is None and self._is_forced:
            why = report_rules.Reason.ASKED
        if why is not None:
            log.debug("writing the report of this broker: %s", why.value)
            await self._write()

    async def _register(self) -> None:
        report = self._stamped()
        self._lock = await self._locks.acquire(
            broker_path(self._own.broker_id), report.to_bytes(), is_same=is_same_broker
        )
        self._wrote(report)
        log.info("registered as broker %s", self._own.broker_id)

    async def _write(self) -> None:
        report = self._stamped()
        if self._lock is not None:
            await self._lock.update(report.to_bytes())
            self._wrote(report)

    def _stamped(self) -> LocalBrokerData:
        return replace(self.report, last_update_ms=time.time_ns() // 1_000_000)

    def _wrote(self, report: LocalBrokerData) -> None:
        self._is_forced = False
        self._written, self._written_at_s = report, time.monotonic()
        self.report = replace(self.report, gains=(), losses=(), last_update_ms=report.last_update_ms)

    async def _refresh(self) -> None:
        """Brings the report up to date. The host is measured, and the topics are read, only as often as their figures
        change; the list of owned bundles is read each time. Raises PulsarError when the bundles cannot be read."""
        now_s = time.monotonic()
        settings = self.settings
        if _is_due(self._measured_at_s, now_s, settings.load_balancer_host_usage_check_interval_minutes * 60):
            usage = await self._measure(settings.load_balancer_override_broker_nic_speed_gbps)
            self._measured_at_s = now_s
            self.report = replace(self.report, usage=usage, max_resource_usage=weighted_usage(usage, settings))
        if _is_due(self._collected_at_s, now_s, COLLECT_SECONDS):
            stats = await self._stats.collect()
            self._collected_at_s = now_s
        else:
            stats = self._stats.current()
        self.report = report_rules.with_bundles(self.report, report_rules.fitted(stats))


def _is_due(last_s: float | None, now_s: float, interval_s: float) -> bool:
    return last_s is None or now_s - last_s >= interval_s


def _first_report(own: BrokerAddresses) -> LocalBrokerData:
    urls = own.urls
    return LocalBrokerData(
        web_service_url=urls.web,
        web_service_url_tls=urls.web_tls,
        pulsar_service_url=urls.broker,
        pulsar_service_url_tls=urls.broker_tls,
        advertised_listeners=listeners_value(own.listeners),
        start_ms=time.time_ns() // 1_000_000,
    )
