"""Real bookies on simulated disks, a network between them and their clients, and a metadata store with sessions.

A machine that loses its power takes its connections with it; its peers get a reset, or hear nothing at all. Its session
ends some time later. A link, or a machine's whole network, can be `RESET`, `SILENT` (it loses requests) or `DEAF` (it
loses answers). A request and its answer each take a delay, and the requests of one link arrive in order. A bookie may
be overloaded.
"""

import asyncio
import shutil
from collections.abc import Callable, Coroutine, Sequence
from contextvars import copy_context
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from magnetar.metadata import paths
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.ledger.bookie_channel import AddDone
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.ledger_errors import BookieHandleNotAvailable
from pulsar_proto.wire.bookie_wire import BookieError, BookieRc
from tests.sim.processes import at_home
from tests.sim.sim_disk import SimDisk
from tests.storage.ledger.distant_store import DistantStore
from tests.storage.ledger.fake_bookie import LinkState

SESSION_SECONDS_MAX = 3.0
CLIENT = LedgerConfig(add_entry_timeout_sec=2, read_entry_timeout_sec=2, speculative_read_timeout_sec=0.5)
NOW_MS = 1_700_000_000_000


class Machine:
    """A bookie's machine. `bookie` is None while it is down."""

    def __init__(self, name: str, folder: Path, cluster: "SimCluster") -> None:
        self.name = name
        self.network = LinkState.OK
        self.bookie: Bookie | None = None
        self.life = 0
        self._folder = folder
        self._cluster = cluster
        self._disk = SimDisk(cluster.rng)
        self._session: MemoryStore | None = None
        self._starting: asyncio.Task[None] | None = None
        self._expiry: asyncio.Task[None] | None = None
        self._awaited: dict[object, Callable[[], None]] = {}
        """The requests that are under way, each with the function that ends it when the connections are reset."""

    def start(self) -> "asyncio.Task[None]":
        """Starts the bookie: it replays its journal, and registers once its former session is over."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        return self._starting

    async def _start(self) -> None:
        self._disk = SimDisk(self._cluster.rng)
        config = BookieConfig(
            journal_directories=(str(self._folder / "journal"),),
            ledger_directories=(str(self._folder / "ledgers"),),
            journal_max_size_mb=self._cluster.rng.choice([0.004, 0.0005, 0.0001]),
            db_storage_write_cache_max_size_mb=1,
            flush_interval=self._cluster.rng.choice([20, 300, 5_000]),
            disk_usage_threshold=0.99,
        )
        self.bookie = await Bookie.open(
            config,
            bookie_id=self.name,
            list_ledgers=self._cluster.no_garbage,
            open_file=self._disk.open_file,
            journal_class=self._disk.journal_class(),
        )
        if self._expiry is not None:
            await self._expiry
        session = self._cluster.store.session()
        await session.create(paths.bookie_path(self.name), ephemeral=True, make_parents=True)
        self._session = session

    async def lose_power(self, *, silently: bool) -> None:
        """Takes the machine's power away. With `silently`, no peer hears that its connections are gone."""
        if self._starting is not None and not self._starting.done():
            return  # the simulation takes a start as one step, because its crash points have tests of their own
        bookie, self.bookie, self._starting = self.bookie, None, None
        if bookie is None:
            return
        self.life += 1
        self._disk.lose_power()
        bookie._maintenance_task.cancel()
        bookie._checkpointer.close()
        bookie._opened.abandon()
        awaited, self._awaited = self._awaited, {}
        if not silently:
            for lost in awaited.values():
                self._cluster.later(lost)
        if self._session is not None:
            self._expiry = asyncio.create_task(self._expire(self._session))
            self._session = None

    async def _expire(self, session: MemoryStore) -> None:
        await asyncio.sleep(self._cluster.rng.uniform(0, SESSION_SECONDS_MAX))
        await session.close()

    async def close(self) -> None:
        if self._starting is not None:
            await self._starting
        if self.bookie is not None:
            await self.bookie.close()

    def expect(self, lost: Callable[[], None]) -> object:
        key = object()
        self._awaited[key] = lost
        return key

    def answered(self, key: object) -> bool:
        """Ends a request. Returns False when a reset of the connection has ended it already."""
        return self._awaited.pop(key, None) is not None


class SimLink:
    """One client's channel to one machine; implements BookieChannel."""

    def __init__(self, machine: Machine, cluster: "SimCluster") -> None:
        self.state = LinkState.OK
        self.lag = 0.0
        """Extra seconds that each request of this link takes."""
        self._machine = machine
        self._cluster = cluster
        self._last_arrival = 0.0
        self._home = copy_context()
        """The client's process. What comes back to a killed client is lost, and a paused one gets it later."""

    def add_entries(
        self,
        ledger_id: int,
        master_key: bytes,
        entry_ids: Sequence[int],
        entries: Sequence[bytes],
        flags: int,
        done: AddDone,
    ) -> None:
        lost = partial(done, entry_ids, BookieHandleNotAvailable.code)

        def arrive(bookie: Bookie) -> None:
            if self._cluster.is_overloaded():
                self._answer(partial(done, entry_ids, int(BookieRc.ETOOMANYREQUESTS)), lost)
                return
            key = self._machine.expect(partial(at_home, self._home, lost))

            def stored(ids: Sequence[int], rc: int) -> None:
                if self._machine.answered(key):
                    self._answer(partial(done, ids, rc), lost)

            bookie.add_entries(ledger_id, master_key, entry_ids, list(entries), flags, stored)

        self._request(arrive, lost)

    async def read_entry(self, ledger_id: int, entry_id: int, flags: int = 0, master_key: bytes = b"") -> bytes:
        async def read(bookie: Bookie) -> list[bytes]:
            return [await bookie.read_entry(ledger_id, entry_id, flags, master_key)]

        return (await self._read(read))[0]

    async def read_entries(self, ledger_id: int, first_entry_id: int, max_entries: int, max_bytes: int) -> list[bytes]:
        return await self._read(lambda bookie: bookie.read_entries(ledger_id, first_entry_id, max_entries, max_bytes))

    async def _read(self, read: Callable[[Bookie], Coroutine[Any, Any, list[bytes]]]) -> list[bytes]:
        outcome: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()

        def tell(work: "asyncio.Future[list[bytes]]") -> None:
            if outcome.done():
                return
            error = work.exception()
            if error is not None:
                outcome.set_exception(error)
            else:
                outcome.set_result(work.result())

        def lost() -> None:
            if not outcome.done():
                outcome.set_exception(ConnectionResetError("connection lost"))

        def arrive(bookie: Bookie) -> None:
            key = self._machine.expect(partial(at_home, self._home, lost))
            work = asyncio.ensure_future(read(bookie))
            self._cluster.keep(work)

            def ended(_: object) -> None:
                if work.cancelled() or not self._machine.answered(key):
                    return
                if isinstance(work.exception(), BookieError | None):
                    self._answer(partial(tell, work), lost)
                else:
                    self._cluster.failures.append(repr(work.exception()))

            work.add_done_callback(ended)

        self._request(arrive, lost)
        return await outcome

    def _state(self) -> LinkState:
        return self.state if self._machine.network is LinkState.OK else self._machine.network

    def _request(self, arrive: Callable[[Bookie], None], lost: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._last_arrival = max(self._last_arrival, loop.time() + self._cluster.delay() + self.lag)

        def reach() -> None:
            state = self._state()
            bookie = self._machine.bookie
            if state is LinkState.SILENT:
                return
            if state is LinkState.RESET or bookie is None:
                at_home(self._home, lost)
            else:
                arrive(bookie)

        loop.call_at(self._last_arrival, reach, context=self._cluster.context.copy())

    def _answer(self, tell: Callable[[], None], lost: Callable[[], None]) -> None:
        life = self._machine.life

        def reach() -> None:
            state = self._state()
            if state is LinkState.RESET or self._machine.life != life:
                at_home(self._home, lost)
            elif state is not LinkState.DEAF:
                at_home(self._home, tell)

        self._cluster.later(reach)


class SimCluster:
    """A cluster of machines with one network and one metadata store. Call `start` first and `close` last."""

    def __init__(self, machines: int, rng: Random, folder: Path, store: MemoryStore | None = None) -> None:
        self.rng = rng
        self.store = store or MemoryStore(clock_ms=self.now_ms)
        self.context = copy_context()
        """Machines and the network do their work in this context: it belongs to no client's process."""
        self.machines = {
            f"b{number}:1": Machine(f"b{number}:1", folder / f"b{number}", self) for number in range(machines)
        }
        self.ways_to_store: dict[str, DistantStore] = {}
        self.failures: list[str] = []
        """What a bookie did and must never do; a history fails when there is any."""
        self._folder = folder
        self._overloads = Random()
        self._overloads.setstate(rng.getstate())
        self._overload_share = self._overloads.choice([0.0, 0.0, 0.0, 0.2])
        self._slow_share = rng.choice([0.0, 0.1, 0.4])
        self._links: dict[tuple[str, str], SimLink] = {}
        self._clients: list[BookKeeperCluster] = []
        self._work: dict[asyncio.Future[list[bytes]], None] = {}

    async def start(self) -> None:
        for machine in self.machines.values():
            await machine.start()

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        for machine in self.machines.values():
            await machine.close()
        shutil.rmtree(self._folder)

    def now_ms(self) -> int:
        return NOW_MS + int(asyncio.get_running_loop().time() * 1000)

    async def client(self, name: str) -> BookKeeperCluster:
        way = self.ways_to_store[name] = DistantStore(self.store.session(), self.delay)
        client = BookKeeperCluster(
            way, config=CLIENT, rng=Random(f"{name} {self.rng.random()}"), channel_of=partial(self.link, name)
        )
        await client.registry.start()
        self._clients.append(client)
        return client

    def link(self, client: str, bookie_id: str) -> SimLink:
        key = (client, bookie_id)
        if key not in self._links:
            self._links[key] = SimLink(self.machines[bookie_id], self)
        return self._links[key]

    def heal(self) -> "list[asyncio.Task[None]]":
        """Makes every machine and connection work again, and returns the starts that are under way."""
        for machine in self.machines.values():
            machine.network = LinkState.OK
        for link in self._links.values():
            link.state, link.lag = LinkState.OK, 0.0
        for way in self.ways_to_store.values():
            way.lose_answers = False
        return [machine.start() for machine in self.machines.values()]

    async def copies(self, ledger_id: int, entry_id: int) -> dict[str, bytes]:
        """Returns the bookies that store the entry, each with its bytes. All machines must be up."""
        found: dict[str, bytes] = {}
        for name, machine in self.machines.items():
            assert machine.bookie is not None
            try:
                found[name] = await machine.bookie.read_entry(ledger_id, entry_id)
            except BookieError:
                continue
        return found

    def is_overloaded(self) -> bool:
        """Returns whether a bookie refuses adds at this moment. This happens in some histories, and never in the
        others."""
        return self._overloads.random() < self._overload_share

    def delay(self) -> float:
        """Returns the seconds that a message takes in one direction. Some are slow enough to be overtaken by much of
        what is sent later on other links."""
        return self.rng.uniform(0, 0.2 if self.rng.random() < self._slow_share else 0.01)

    def later(self, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(self.delay(), call)

    def keep(self, work: "asyncio.Future[list[bytes]]") -> None:
        self._work[work] = None
        work.add_done_callback(self._work.pop)

    async def no_garbage(self) -> set[int]:
        raise AssertionError("garbage is collected by the real clock's hours")
