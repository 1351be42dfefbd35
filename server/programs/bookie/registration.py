"""Keeps a bookie registered as long as it runs, with the bookie's present mode and in its present session.

One task changes the records to the wanted state, and checks them again whenever the bookie's mode, the session or a
record changes. The task never gives up: a bookie that has lost ZooKeeper continues to serve, and is registered again as
soon as it has a session."""

import asyncio
import contextlib
import logging

from magnetar.metadata import paths
from magnetar.metadata.errors import MetadataError, NodeExistsError, NoNodeError
from magnetar.metadata.store import SessionEvent
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.server.programs.bookie.registration_rules import SeenRecord, Step, Wanted, next_step

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
"""Seconds to wait after a call that was refused or lost, unless the session or the mode changes before."""
CLOSE_SECONDS = 0.5


class Registration:
    """The registration of one bookie. The object is made on the loop's thread; `start()` is called once, then `close()`
    once."""

    def __init__(self, store: ZooKeeperStore, bookie_id: str, service_info: bytes, wanted: Wanted) -> None:
        self._store = store
        self._bookie_id = bookie_id
        self._service_info = service_info
        self._wanted = wanted
        self._changed = asyncio.Event()
        self._registered_as: Wanted | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._awaiting_end = False
        self._task: asyncio.Task[None] | None = None
        self._cancels = [
            store.on_session(self._session_changed),
            *(store.watch(self._path(each), lambda _: self._changed.set()) for each in Wanted),
        ]

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def registered_as(self) -> Wanted | None:
        """The mode in which the cluster's records list this bookie, as far as this process knows, or None while the
        bookie is not registered."""
        return self._registered_as

    @property
    def awaits_former_session(self) -> bool:
        """Whether a record of an earlier session of this bookie stands in the way."""
        return self._awaiting_end

    def want(self, wanted: Wanted) -> None:
        if wanted is not self._wanted:
            self._wanted = wanted
            self._changed.set()

    async def registered(self) -> None:
        """Returns when the records have the wanted state."""
        while self._registered_as is not self._wanted:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    async def close(self) -> None:
        """Deletes the bookie's registration if ZooKeeper answers soon. Otherwise the records end with the session."""
        for cancel in self._cancels:
            cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))
        registered, self._registered_as = self._registered_as, None
        if registered is not None and self._store.is_connected:
            with contextlib.suppress(MetadataError, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._store.delete(self._path(registered))

    def _path(self, wanted: Wanted) -> str:
        return paths.bookie_path(self._bookie_id, read_only=wanted is Wanted.READ_ONLY)

    def _session_changed(self, event: SessionEvent) -> None:
        if event is SessionEvent.EXPIRED:
            log.warning("bookie %s: its ZooKeeper session is over, it is not registered", self._bookie_id)
            self._registered_as = None
        if event in (SessionEvent.NEW_SESSION, SessionEvent.CONNECTED):
            self._changed.set()

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            try:
                await self._settle()
                delay = None
            except MetadataError as error:
                log.warning("bookie %s: cannot register, trying again: %s", self._bookie_id, error)
                delay = RETRY_SECONDS
            except Exception:
                log.exception("bookie %s: cannot register, trying again", self._bookie_id)
                delay = RETRY_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._changed.wait()

    async def _settle(self) -> None:
        """Takes one step after the other until the records have the wanted state. Raises MetadataError when ZooKeeper
        fails."""
        while True:
            wanted = self._wanted
            other = Wanted.READ_ONLY if wanted is Wanted.WRITABLE else Wanted.WRITABLE
            found_other = await self._seen(other)
            step = next_step(await self._seen(wanted), found_other)
            if wanted is not self._wanted:
                continue
            if step in (Step.CREATE, Step.AWAIT_END) and found_other is not SeenRecord.OURS:
                self._registered_as = None
            self._note_waiting(step is Step.AWAIT_END)
            match step:
                case Step.AWAIT_END:
                    return
                case Step.REGISTERED:
                    self._settled(wanted)
                    return
                case Step.CREATE:
                    await self._create(wanted)
                case Step.DELETE_OTHER:
                    await self._delete(other)

    async def _seen(self, where: Wanted) -> SeenRecord:
        path = self._path(where)
        if await self._store.owns(path):
            return SeenRecord.OURS
        return SeenRecord.ABSENT if await self._store.exists(path) is None else SeenRecord.FORMER

    async def _create(self, wanted: Wanted) -> None:
        with contextlib.suppress(
            NodeExistsError
            # Another process changed the record first. The next read shows the present record.
        ):
            await self._store.create(self._path(wanted), self._service_info, ephemeral=True)

    async def _delete(self, other: Wanted) -> None:
        with contextlib.suppress(NoNodeError):
            await self._store.delete(self._path(other))

    def _note_waiting(self, awaits: bool) -> None:
        if awaits and not self._awaiting_end:
            log.warning(
                "bookie %s is still registered by an earlier session: waiting until ZooKeeper ends it", self._bookie_id
            )
        self._awaiting_end = awaits

    def _settled(self, wanted: Wanted) -> None:
        if self._registered_as is not wanted:
            log.info("bookie %s is registered as %s", self._bookie_id, wanted.value)
        self._registered_as = wanted
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
