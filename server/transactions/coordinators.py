"""The transaction coordinators of this broker: coordinator k runs where partition k of the topic
`transaction_coordinator_assign` belongs.

The partitions are never loaded as topics; only their bundles count. A coordinator is loaded as soon as this broker owns
the bundle, so that transactions time out and decided ones are ended although no client asks. (Apache's broker loads a
coordinator when a client connects to it: TransactionMetadataStoreService.handleTcClientConnect.) Only a standalone
server whose coordinators never had a log waits until a client uses transactions, because most servers never have such a
client.
"""

import asyncio
import logging
from collections.abc import Coroutine
from functools import partial
from typing import Any

from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.ownership import Ownership
from magnetar.server.namespaces.partitioned_topics import PartitionedTopics
from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.process.task_failures import log_failure
from magnetar.server.transactions.batch_counters import BatchCounters
from magnetar.server.transactions.coordinator import TransactionCoordinator, coordinator_not_found
from magnetar.server.transactions.end_calls import EndCalls
from magnetar.server.transactions.transaction_log import log_topic
from magnetar.storage.managed.factory import ManagedLedgerFactory
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError, ManagedLedgerFenced
from pulsar_proto.errors import MalformedRecord, MetadataFault, NotAllowed, PulsarError, ServiceNotReady
from pulsar_proto.names import TopicName

log = logging.getLogger(__name__)

ASSIGN_TOPIC = TopicName.parse("persistent://pulsar/system/transaction_coordinator_assign")
"""The partitioned topic whose partitions stand for the coordinators
(SystemTopicNames.TRANSACTION_COORDINATOR_ASSIGN)."""
STANDALONE_COORDINATORS = 1
"""How many coordinators a standalone server makes (PulsarStandalone)."""
COORDINATORS_MAX = 1_000
"""How many coordinators an administrator may ask for. Each has a managed ledger of its own."""
RETRY_SECONDS_MIN, RETRY_SECONDS_MAX = 1.0, 30.0
"""How long the broker waits before it loads a coordinator again after a failure; twice as long after each further
one."""


class TransactionCoordinators:
    """The coordinators that this broker runs. Every method is called on the event loop's thread."""

    def __init__(
        self,
        settings: TransactionSettings,
        factory: ManagedLedgerFactory,
        partitioned: PartitionedTopics,
        ownership: Ownership,
        calls: EndCalls,
    ) -> None:
        self.settings = settings
        self.calls = calls
        self.batches = BatchCounters()
        """The batches of the logs of this broker's coordinators."""
        self.are_in_use = True
        """False in a standalone server until its first coordinator is loaded: there is no log of a coordinator, so
        no transaction exists, and topics have nothing to recover."""
        self.loaded: dict[int, TransactionCoordinator] = {}
        self._factory = factory
        self._partitioned = partitioned
        self._ownership = ownership
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._attempts: dict[int, asyncio.Future[None]] = {}
        """The present attempt to load a coordinator, or the last one that failed."""
        self._closing: dict[int, asyncio.Task[None]] = {}
        self._work: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    async def start(self) -> None:
        """Begins to load the coordinators of the bundles that this broker owns, now and from now on. A standalone
        server makes the record that says how many coordinators there are if it is missing, and loads coordinators only
        if one of them has a log. Raises PulsarError when the metadata store fails."""
        if self._ownership.is_sole:
            with storage_faults_told():
                if await self._partitioned.get(ASSIGN_TOPIC) is None:
                    await self._partitioned.create(ASSIGN_TOPIC, STANDALONE_COORDINATORS)
                self.are_in_use = await self._has_log()
        self._ownership.on_gained(self._bundle_changed)
        self._ownership.on_lost(self._bundle_changed)
        await self._follow_ownership()

    async def close(self) -> None:
        """Ends all coordinators of this broker. Whoever opens their logs next goes on with the transactions."""
        self._is_closed = True
        tasks = {*self._work, *self._loading.values()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for coordinator in list(self.loaded.values()):
            self._begin_to_close(coordinator)
        if self._closing:
            await asyncio.wait(self._closing.values())
        self.calls.close()

    # --- for clients -------------------------------------------------------------------------------------------------

    async def count(self) -> int:
        """Returns how many coordinators the cluster has. Raises PulsarError when the metadata store fails."""
        with storage_faults_told():
            record = await self._partitioned.get(ASSIGN_TOPIC)
        return 0 if record is None else record.partitions

    async def scale(self, count: int) -> None:
        """Sets how many coordinators the cluster has. A number that is not larger than the present one has no effect.
        Raises NotAllowed for more than COORDINATORS_MAX, and PulsarError when the metadata store fails."""
        if count > COORDINATORS_MAX:
            raise NotAllowed(f"A cluster has {COORDINATORS_MAX} transaction coordinators at most")
        with storage_faults_told():
            if await self._partitioned.update(ASSIGN_TOPIC, partitions=count) is None:
                await self._partitioned.create(ASSIGN_TOPIC, count)
        await self._follow_ownership()

    def get(self, coordinator_id: int) -> TransactionCoordinator:
        """Returns a coordinator of this broker. Raises TransactionCoordinatorNotFound when the coordinator is not
        loaded here."""
        coordinator = self.loaded.get(coordinator_id)
        if coordinator is None:
            raise coordinator_not_found(coordinator_id)
        return coordinator

    async def connect(self, coordinator_id: int) -> TransactionCoordinator:
        """Returns a coordinator of this broker, and waits until it is loaded. Raises
        TransactionCoordinatorNotFound when the cluster has no such coordinator, ServiceNotReady when another broker
        runs it, and the PulsarError of the attempt to load it."""
        if coordinator_id >= await self.count():
            raise coordinator_not_found(coordinator_id)
        await self._ownership.check(ASSIGN_TOPIC.partition(coordinator_id))
        self._load(coordinator_id)
        attempt = self._attempts.get(coordinator_id)
        if attempt is not None and coordinator_id not in self.loaded:
            await asyncio.shield(attempt)
        return self.get(coordinator_id)

    async def get_to_begin(self, coordinator_id: int) -> TransactionCoordinator:
        """Returns the coordinator that is to begin a transaction. A standalone server loads it if no client has
        connected to it before, which older clients never do (ProtocolVersion.v19). Raises as `get` or `connect`."""
        if self._ownership.is_sole and coordinator_id not in self.loaded:
            return await self.connect(coordinator_id)
        return self.get(coordinator_id)

    async def reload(self, coordinator_id: int) -> None:
        """Closes a coordinator of this broker, if it is loaded, and begins to load it again."""
        coordinator = self.loaded.get(coordinator_id)
        if coordinator is not None:
            await self._load_after(self._begin_to_close(coordinator), coordinator_id)

    # --- loading -----------------------------------------------------------------------------------------------------

    def _bundle_changed(self, bundle: BundleName) -> None:
        if bundle.namespace == ASSIGN_TOPIC.namespace:
            self._spawn(self._follow_ownership(), "the coordinators of the owned bundles")

    async def _has_log(self) -> bool:
        for coordinator_id in range(await self.count()):
            if await self._factory.exists(log_topic(coordinator_id).managed_ledger_name):
                return True
        return False

    async def _follow_ownership(self) -> None:
        """Loads the coordinators that this broker has to run now, and closes those that it must not run any more."""
        for coordinator_id in range(await self.count()):
            if self.are_in_use and self.runs_here(coordinator_id):
                self._load(coordinator_id)
        for coordinator_id, coordinator in list(self.loaded.items()):
            if not self.runs_here(coordinator_id):
                self._begin_to_close(coordinator)

    def runs_here(self, coordinator_id: int) -> bool:
        """Returns whether this broker runs the coordinator, or is about to."""
        return self._ownership.owns(ASSIGN_TOPIC.partition(coordinator_id))

    def _load(self, coordinator_id: int) -> None:
        if self._is_closed or coordinator_id in self.loaded or coordinator_id in self._loading:
            return
        self.are_in_use = True
        task = asyncio.get_running_loop().create_task(self._keep_loading(coordinator_id))
        self._loading[coordinator_id] = task
        task.add_done_callback(partial(log_failure, f"loading transaction coordinator {coordinator_id}"))
        self._begin_attempt(coordinator_id)

    def _begin_attempt(self, coordinator_id: int) -> "asyncio.Future[None]":
        attempt = self._attempts[coordinator_id] = asyncio.get_running_loop().create_future()
        attempt.add_done_callback(lambda done: done.cancelled() or done.exception())  # possibly nobody waits
        return attempt

    async def _keep_loading(self, coordinator_id: int) -> None:
        """Loads a coordinator, and tries again until that succeeds or the bundle is lost."""
        pause = RETRY_SECONDS_MIN
        attempt = self._attempts[coordinator_id]
        try:
            while self.runs_here(coordinator_id):
                try:
                    coordinator = await self._open(coordinator_id)
                except PulsarError as error:
                    log.warning("transaction coordinator %d cannot be loaded yet: %s", coordinator_id, error)
                    attempt.set_exception(error)
                else:
                    self.loaded[coordinator_id] = coordinator
                    attempt.set_result(None)
                    return
                await asyncio.sleep(pause)
                pause = min(2 * pause, RETRY_SECONDS_MAX)
                attempt = self._begin_attempt(coordinator_id)
        finally:
            # From here on a bundle that is gained again begins a new task.
            del self._loading[coordinator_id]
            if not attempt.done():
                attempt.set_exception(coordinator_not_found(coordinator_id))

    async def _open(self, coordinator_id: int) -> TransactionCoordinator:
        """Raises PulsarError, also when the bundle is lost meanwhile."""
        closing = self._closing.get(coordinator_id)
        if closing is not None:
            await asyncio.wait([closing])
        try:
            with storage_faults_told():
                coordinator = await TransactionCoordinator.open(
                    coordinator_id, self._factory, self.settings, self.calls, self._ended, self.batches
                )
        except MalformedRecord as error:
            raise MetadataFault(f"the log of transaction coordinator {coordinator_id}: {error}") from error
        if self._is_closed or not self.runs_here(coordinator_id) or not coordinator.is_ready:
            await _close_log(coordinator)
            raise ServiceNotReady(f"transaction coordinator {coordinator_id} was lost while it was loaded")
        return coordinator

    # --- closing -----------------------------------------------------------------------------------------------------

    def _ended(self, coordinator: TransactionCoordinator, error: ManagedLedgerError) -> None:
        """Called when a coordinator cannot go on. Unless another broker runs it now, it is loaded again, which finds
        out what is in its log."""
        coordinator_id = coordinator.coordinator_id
        if isinstance(error, ManagedLedgerFenced):
            self._ownership.fenced(ASSIGN_TOPIC.partition(coordinator_id))
        if self.loaded.get(coordinator_id) is coordinator:
            closing = self._begin_to_close(coordinator)
            self._spawn(self._load_after(closing, coordinator_id), f"closing {coordinator}")

    async def _load_after(self, closing: "asyncio.Task[None]", coordinator_id: int) -> None:
        await asyncio.wait([closing])
        if self.runs_here(coordinator_id):
            self._load(coordinator_id)

    def _begin_to_close(self, coordinator: TransactionCoordinator) -> "asyncio.Task[None]":
        """Takes a coordinator out of use at once, and returns the task that closes it. Until the end of that task the
        coordinator is not loaded again, because one object at a time appends to the log."""
        coordinator_id = coordinator.coordinator_id
        del self.loaded[coordinator_id]
        self._attempts.pop(coordinator_id, None)
        task = self._closing[coordinator_id] = asyncio.get_running_loop().create_task(_close_log(coordinator))
        task.add_done_callback(lambda _: self._closing.pop(coordinator_id))
        task.add_done_callback(partial(log_failure, f"closing {coordinator}"))
        return task

    def _spawn(self, work: Coroutine[Any, Any, None], what: str) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        task.add_done_callback(partial(log_failure, what))


async def _close_log(coordinator: TransactionCoordinator) -> None:
    """Closes a coordinator; a log that cannot be closed properly is only logged, because its next owner recovers it."""
    try:
        await coordinator.close()
        log.info("%s: closed", coordinator)
    except ManagedLedgerError as error:
        log.warning("%s: closed with a failure: %s", coordinator, error)
