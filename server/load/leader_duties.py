"""Does the periodic work of the leader: moves bundles away from overloaded brokers, splits bundles that became too
large, and stores the averages.

Sources: ModularLoadManagerImpl.doLoadShedding, checkNamespaceBundleSplit, writeBundleDataOnZooKeeper; LoadSheddingTask,
LoadResourceQuotaUpdaterTask; MetadataStore notifications in PulsarService.startLeaderElectionService.
"""

import asyncio
import logging
from typing import Protocol

from magnetar.metadata.errors import MetadataError, StoreClosedError
from magnetar.metadata.store import MetadataStore
from magnetar.server.load import duty_rules, split_rules
from magnetar.server.load.duty_rules import Duty, Timetable
from magnetar.server.load.load_manager import LoadManager
from magnetar.server.load.load_view import namespace_of
from magnetar.server.load.shedding_rules import Move
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.bundles import BundleCache
from pulsar_proto.errors import PulsarError

log = logging.getLogger(__name__)


class BundleRequestError(Exception):
    """A broker refused or failed to unload or to split a bundle."""


class BundleRequests(Protocol):
    """Sends requests to the owners of bundles. Both methods raise BundleRequestError when the owner does not do what
    was asked, and PulsarError."""

    async def unload(self, bundle: BundleName, destination: str) -> None:
        """Asks the owner to unload the bundle. The leader has noted before to which broker the bundle goes."""

    async def split(self, bundle: BundleName, *, unload: bool) -> None:
        """Asks the owner to split the bundle."""


class LeaderDuties:
    """A task that runs as long as this broker, and does the duties only while this broker is the leader. All calls are
    made on the loop's thread."""

    def __init__(
        self, store: MetadataStore, manager: LoadManager, bundles: BundleCache, requests: BundleRequests
    ) -> None:
        self._store = store
        self._manager = manager
        self._bundles = bundles
        self._requests = requests
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._timetable = Timetable(manager.clock_s())
        self._led = False
        self._alive: set[str] = set()
        """The brokers that were registered when the averages of dead brokers were last deleted."""
        self.bundles_unloaded = 0
        self.brokers_unloaded = 0
        self.bundles_split = 0
        manager.on_changed(self._changed)

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """Ends the work. A request that is under way is cancelled."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    def _changed(self) -> None:
        self._timetable.reports_changed()
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wait()
            if not self._manager.is_leader:
                self._led = False
                continue
            if not self._led:
                self._led = True
                self._timetable.took_over(self._manager.clock_s())
            for duty in self._timetable.due(self._manager.clock_s(), self._manager.settings):
                try:
                    await self.do(duty)
                except StoreClosedError:
                    return
                except (MetadataError, PulsarError, BundleRequestError) as error:
                    log.warning("the leader could not %s: %s", duty.value, error)
                except Exception:
                    log.exception("the leader could not %s", duty.value)
                self._timetable.done(duty, self._manager.clock_s())

    async def _wait(self) -> None:
        """Waits until a duty is due, or until reports, the leader or the settings have changed."""
        now_s = self._manager.clock_s()
        seconds = self._timetable.seconds_left(now_s, self._manager.settings) if self._manager.is_leader else None
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    async def do(self, duty: Duty) -> None:
        """Does one duty now. Raises MetadataError, PulsarError, or BundleRequestError when the duty fails."""
        if not self._store.is_connected:
            return
        manager, settings = self._manager, self._manager.settings
        manager.view.expire(
            manager.clock_s(),
            settings.load_balancer_shedding_grace_period_minutes * 60,
            settings.load_balancer_report_update_max_interval_minutes * 60,
        )
        match duty:
            case Duty.LEARN:
                await self._learn()
            case Duty.SPLIT:
                await self._split()
            case Duty.SHED:
                await self._shed()
            case Duty.WRITE:
                await self._write()

    # --- averages ----------------------------------------------------------------------------------------------------

    async def _learn(self) -> None:
        """Reads the stored averages of the bundles that are new to this broker, because an earlier leader may have
        written them. Deletes the averages of brokers that are gone."""
        new = self._manager.view.take_new_bundles()
        for bundle, stored in (await self._manager.records.read_all(new)).items():
            self._manager.view.learn(bundle, stored)
        alive = set(await self._manager.brokers())
        if alive and alive != self._alive and self._manager.is_leader:
            dead = await self._manager.records.delete_dead_brokers(alive)
            self._alive = alive
            if dead:
                log.info("the averages of %s are deleted: not registered", ", ".join(dead))

    async def _write(self) -> None:
        """Writes the averages of the busiest bundles and of all brokers, and deletes the averages of bundles that are
        gone."""
        view = self._manager.view
        gone = view.forget_unreported()
        chosen = duty_rules.worth_writing(view, self._manager.settings)
        bundles = {bundle: view.bundles[bundle].to_bytes() for bundle in chosen}
        brokers = {broker: load.average for broker, load in view.brokers.items()}
        await self._manager.records.delete_bundles(gone)
        await self._manager.records.write(bundles, brokers)

    # --- shedding ----------------------------------------------------------------------------------------------------

    async def _shed(self) -> None:
        manager = self._manager
        if len(manager.view.brokers) < 2:
            return
        brokers = set()
        for move in manager.shedder.find(manager.view, manager.settings):
            if not manager.is_leader:
                return
            if await self._moved(move):
                brokers.add(move.broker)
        self.brokers_unloaded += len(brokers)

    async def _moved(self, move: Move) -> bool:
        """Moves a bundle, unless the bundle would come back or no other broker may own it. Returns whether the bundle
        was moved."""
        manager, bundle = self._manager, BundleName.parse(move.bundle)
        rules = await manager.rules_for(move.bundle)
        view = manager.view
        if move.broker not in view.brokers or not manager.may_leave(move.bundle, move.broker, rules):
            return False
        target = manager.placer.select(move.bundle, view, manager.settings, rules, random=manager.random)
        if target is None or target == move.broker:
            return False
        view.note_destination(move.bundle, target)
        data = view.bundles.get(move.bundle)
        if data is not None:
            view.preallocate(move.bundle, target, data, manager.clock_s())
        log.info("moving %s from %s to %s, which has less to do", bundle, move.broker, target)
        try:
            await self._requests.unload(bundle, target)
        except (BundleRequestError, PulsarError) as error:
            log.warning("%s could not be moved to %s: %s", bundle, target, error)
            view.take_destination(move.bundle)
            view.release(move.bundle)
            return False
        view.unloaded_s[move.bundle] = manager.clock_s()
        self.bundles_unloaded += 1
        return True

    # --- splits ------------------------------------------------------------------------------------------------------

    async def _split(self) -> None:
        manager = self._manager
        if len(manager.view.brokers) < 2:
            return
        candidates = split_rules.too_large(manager.view, manager.settings)
        counts = {}
        for namespace in {namespace_of(bundle) for bundle in candidates}:
            counts[namespace] = len((await self._bundles.get(namespace)).all)
        for name in split_rules.within_limit(candidates, counts, manager.settings):
            if not manager.is_leader:
                return
            await self._split_one(name)

    async def _split_one(self, name: str) -> None:
        manager, bundle = self._manager, BundleName.parse(name)
        unload = manager.settings.load_balancer_auto_unload_split_bundles_enabled
        manager.view.forget_bundle(name)
        manager.view.split_s[name] = manager.clock_s()
        await manager.records.delete_bundles([name])
        log.info("splitting %s, which has become too large%s", bundle, ", and unloading it" if unload else "")
        try:
            await self._requests.split(bundle, unload=unload)
        except (BundleRequestError, PulsarError) as error:
            log.warning("%s could not be split: %s", bundle, error)
            return
        self.bundles_split += 1
