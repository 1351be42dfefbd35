"""Random histories of brokers that want the same locks and the same leadership: links break, sessions end, brokers die
and come back under the same name, and somebody deletes records by hand.

The claims, of which the first two hold at every moment:

1. Who believes to hold a lock, and has heard everything, has a record that belongs to its session and has its value.
   The same holds for the leader. So no two who have heard everything believe it of one record.
2. Nobody changes or deletes another living process's record without having read that very version.
3. When all is mended, soon nothing is held without a record, no record is without a holder, and there is one leader, of
   whom everybody knows.
4. A lock that was lost is told, once.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from magnetar.metadata.coordination.leader_election import LeaderElection
from magnetar.metadata.coordination.lock_manager import LockManager
from magnetar.metadata.coordination.lock_rules import LockState
from magnetar.metadata.coordination.resource_lock import ResourceLock
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.store import Created, Record, Stat
from tests.sim.sim_sessions import Servers, SimStore
from tests.sim.virtual_loop import run

PATHS = ("/namespace/t/n/a", "/namespace/t/n/b", "/loadbalance/brokers/x")
LEADER = "/loadbalance/leader"
NAMES = ("one", "two", "three")
STEPS = 60
MENDED_SECONDS = 400.0
"""The time after which everything must be in order again; retries pause for 60 s at most, and more than one may be
needed."""


class ClaimBroken(AssertionError):
    """A history broke a claim."""


class WatchedStore(SimStore):
    """A store that notices when its process may harm another's record."""

    def __init__(self, servers: Servers, name: str, faults: list[str]) -> None:
        super().__init__(servers)
        self.name = name.encode()
        self.faults = faults
        self._anothers: dict[str, bool] = {}
        """Whether a record was another's when it was read last."""

    async def get(self, path: str) -> Record | None:
        record = await super().get(path)
        self._anothers[path] = (
            record is not None and record.stat.owner != self.session_id and not _same_name(record.value, self.name)
        )
        return record

    async def create(self, path: str, value: bytes = b"", **options: Any) -> Created:
        self._anothers.pop(path, None)
        return await super().create(path, value, **options)

    async def put(self, path: str, value: bytes, expected_version: int | None = None) -> Stat:
        self._check(path, expected_version)
        return await super().put(path, value, expected_version)

    async def delete(self, path: str, expected_version: int | None = None) -> None:
        self._check(path, expected_version)
        self._anothers.pop(path, None)
        await super().delete(path, expected_version)

    def _check(self, path: str, expected_version: int | None) -> None:
        if expected_version is None:
            self.faults.append(f"{path} is changed whatever its version")
        if self._anothers.get(path):
            self.faults.append(f"{path} is changed although its last reading was another's")


class Broker:
    """One life of a process with a name."""

    def __init__(self, servers: Servers, name: str, faults: list[str]) -> None:
        self.name = name
        self.store = WatchedStore(servers, name, faults)
        self.faults = faults
        self.locks = LockManager(self.store)
        self.election = LeaderElection(self.store, LEADER, name.encode(), self._leads)
        self.leads: list[bool] = []
        self.held: dict[str, ResourceLock] = {}
        self.lost: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self.do(self.election.start)

    def do(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(_tolerant(work)))

    async def acquire(self, path: str, number: int) -> None:
        value = f"{self.name}:{path}".encode() if number % 3 else f"{self.name}:{number}".encode()
        lock = await self.locks.acquire(path, value, is_same=_same_name)
        if self.held.get(path) is not lock:
            self.held[path] = lock
            lock.on_lost(lambda: self.lost.append(path))

    async def update(self, path: str, number: int) -> None:
        lock = self.held.get(path)
        if lock is not None and lock.is_held:
            await lock.update(f"{self.name}:{number}".encode())

    async def release(self, path: str) -> None:
        lock = self.held.get(path)
        if lock is not None:
            await lock.release()

    def die(self) -> None:
        self.store.die()
        for task in self.tasks:
            task.cancel()

    def _leads(self, is_leader: bool) -> None:
        if self.leads and self.leads[-1] is is_leader:
            self.faults.append(f"{self.name} was told twice whether it leads")
        self.leads.append(is_leader)


def _same_name(one: bytes, other: bytes) -> bool:
    return one.partition(b":")[0] == other.partition(b":")[0]


async def _tolerant(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with contextlib.suppress(MetadataError):
        await work()


class History:
    """One history."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.servers = Servers(rng)
        self.alive: dict[str, Broker] = {}
        self.dead: list[Broker] = []
        self.faults: list[str] = []

    async def tell(self) -> None:
        for name in NAMES:
            self._begin(name)
        for number in range(STEPS):
            await self._step(number)
            await self._pass(self.rng.choice((0.0, 0.005, 0.03, 0.3, 3.0)))
        await self._mend()
        self._check_settled()

    def _begin(self, name: str) -> None:
        broker = self.alive[name] = Broker(self.servers, name, self.faults)
        broker.start()

    async def _step(self, number: int) -> None:
        rng = self.rng
        broker = self.alive[rng.choice(NAMES)]
        path = rng.choice(PATHS)
        what = rng.choices(
            ("acquire", "update", "release", "cut", "reconnect", "end", "restart", "bury", "operator"),
            (12, 5, 4, 6, 8, 4, 2, 3, 2),
        )[0]
        if what == "acquire":
            broker.do(lambda: broker.acquire(path, number))
        elif what == "update":
            broker.do(lambda: broker.update(path, number))
        elif what == "release":
            broker.do(lambda: broker.release(path))
        elif what == "cut":
            broker.store.cut()
        elif what == "reconnect":
            broker.store.reconnect()
        elif what == "end" and not broker.store.is_connected:
            await broker.store.end_session()
        elif what == "restart":
            broker.die()
            self.dead.append(broker)
            self._begin(broker.name)
        elif what == "bury":
            await self._bury()
        elif what == "operator":
            await _tolerant(lambda: self.servers.records.delete(rng.choice((*PATHS, LEADER))))

    async def _bury(self) -> None:
        """Ends the sessions of the dead."""
        for broker in self.dead:
            await broker.store.end_session()

    async def _mend(self) -> None:
        await self._bury()
        for broker in self.alive.values():
            broker.store.reconnect()
        await self._pass(MENDED_SECONDS)

    async def _pass(self, seconds: float) -> None:
        """Lets time pass, and looks at the claims in between."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            self._check_beliefs()
            if self.faults:
                raise ClaimBroken(self.faults[0])
            await asyncio.sleep(0.002 if seconds < 1 else min(0.01 * seconds, 0.05))
            if loop.time() >= end:
                break
        for broker in self.alive.values():
            for task in broker.tasks:
                if task.done() and not task.cancelled() and task.exception() is not None:
                    raise task.exception() or AssertionError
            broker.tasks = [task for task in broker.tasks if not task.done()]

    # Claims

    def _check_beliefs(self) -> None:
        for broker in self.alive.values():
            if not broker.store.is_quiet:
                continue
            for path, lock in broker.locks._locks.items():
                if lock.is_held and lock._checking is None and not lock._turn.locked():
                    self._require(broker, path, lambda value, lock=lock: value == lock.value)  # type: ignore[misc]
            election = broker.election
            if election.is_leader and election._settled.is_set() and not election._due.is_set():
                self._require(broker, LEADER, lambda value, name=broker.name: value == name.encode())  # type: ignore[misc]

    def _require(self, broker: Broker, path: str, is_right: Callable[[bytes], bool]) -> None:
        node = self.servers.records._tree.find(path)
        if node is None:
            raise ClaimBroken(f"{broker.name} believes to hold {path}, which is not there")
        if node.owner != broker.store.session_id:
            raise ClaimBroken(f"{broker.name} believes to hold {path}, which belongs to another session")
        if not is_right(node.value):
            raise ClaimBroken(f"{broker.name} believes in another value of {path} than {node.value!r}")

    def _check_settled(self) -> None:
        tree = self.servers.records._tree
        for path in PATHS:
            holders = [broker for broker in self.alive.values() if broker.locks.held(path) is not None]
            node = tree.find(path)
            if len(holders) != (node is not None):
                raise ClaimBroken(f"{path} has {len(holders)} holders, its record is {node and node.value!r}")
        leaders = [broker for broker in self.alive.values() if broker.election.is_leader]
        if len(leaders) != 1:
            raise ClaimBroken(f"there are {len(leaders)} leaders")
        for broker in self.alive.values():
            if broker.election._known.leader != leaders[0].name.encode():
                raise ClaimBroken(f"{broker.name} takes {broker.election._known.leader!r} for the leader")
            self._check_told(broker)

    @staticmethod
    def _check_told(broker: Broker) -> None:
        for path, lock in broker.held.items():
            if lock.state is LockState.LOST and path not in broker.lost:
                raise ClaimBroken(f"{broker.name} was not told that {path} is lost")


def tell(seed: int) -> None:
    """Tells the history of this seed. Raises ClaimBroken."""
    rng = Random(seed)
    run(rng, _tell(rng))


async def _tell(rng: Random) -> None:
    await History(rng).tell()
