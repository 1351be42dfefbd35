"""Random histories of a cache of records whose link to the store breaks, while others create, change and delete.

The claims:

1. At every moment at which the process is connected, nothing is on its way and nothing is being read, what a caller
   gets is what the store holds.
2. When all is mended, copies that are followed (`on_change`) are right soon, without anybody asking, and the last call
   of `on_change` for a record came after its copy had the last value.
"""

import asyncio
import contextlib
from random import Random

from magnetar.metadata.coordination.record_cache import RecordCache
from magnetar.metadata.errors import MetadataError
from tests.sim.sim_sessions import Servers, SimStore
from tests.sim.virtual_loop import run

ROOT = "/root"
PATHS = tuple(f"{ROOT}/{number}" for number in range(6))
STEPS = 80
MENDED_SECONDS = 60.0


class WrongCopy(AssertionError):
    """A history broke a claim."""


class CacheHistory:
    """One history."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.servers = Servers(rng)
        self.store = SimStore(self.servers)
        self.told: dict[str, bytes | None] = {}
        self.bounded = rng.random() < 0.5
        """Without a bound, a record that is gone is not followed any more."""
        self.eager: RecordCache[bytes] = RecordCache(
            self.store, ROOT, lambda _, value: value, on_change=self._note, cached_max=100 if self.bounded else None
        )
        self.lazy: RecordCache[bytes] = RecordCache(self.store, ROOT, lambda _, value: value)
        self.readers: set[asyncio.Task[None]] = set()

    def _note(self, path: str) -> None:
        copy = self.eager.cached(path)
        self.told[path] = None if copy is None else copy.value

    async def tell(self) -> None:
        await self.servers.records.create(ROOT)
        self.eager.start()
        self.lazy.start()
        for number in range(STEPS):
            await self._step(number)
            await asyncio.sleep(self.rng.choice((0.0, 0.005, 0.05, 0.5)))
            self._check_quiet()
        self.store.reconnect()
        await asyncio.sleep(MENDED_SECONDS)
        self._check_quiet()
        for path in PATHS:
            is_followed = path in self.told and (self.bounded or self.told[path] is not None)
            if is_followed and self.told[path] != self._truth(path):
                raise WrongCopy(f"{path}: the user was told of {self.told[path]!r}, it is {self._truth(path)!r}")
            wanted = await self.lazy.get(path)
            if (None if wanted is None else wanted.value) != self._truth(path):
                raise WrongCopy(f"{path} is read as {wanted}")
        self.store.die()

    async def _step(self, number: int) -> None:
        rng, path, records = self.rng, self.rng.choice(PATHS), self.servers.records
        what = rng.choices(("read", "write", "delete", "cut", "reconnect", "end"), (10, 10, 3, 3, 5, 1))[0]
        if what == "read":
            for cache in (self.eager, self.lazy):
                task = asyncio.get_running_loop().create_task(self._read(cache, path))
                self.readers.add(task)
                task.add_done_callback(self.readers.discard)
        elif what == "write":
            value = b"%d" % number
            if await records.exists(path) is None:
                await records.create(path, value)
            else:
                await records.put(path, value)
        elif what == "delete":
            with contextlib.suppress(MetadataError):
                await records.delete(path)
        elif what == "cut":
            self.store.cut()
        elif what == "reconnect":
            self.store.reconnect()
        elif not self.store.is_connected:
            await self.store.end_session()

    @staticmethod
    async def _read(cache: RecordCache[bytes], path: str) -> None:
        with contextlib.suppress(MetadataError):
            await cache.get(path)

    def _truth(self, path: str) -> bytes | None:
        node = self.servers.records._tree.find(path)
        return None if node is None else node.value

    def _check_quiet(self) -> None:
        if not self.store.is_quiet or self.readers:
            return
        for cache in (self.eager, self.lazy):
            for path in PATHS:
                if path in cache._table and not cache._table.is_stale(path):
                    copy = cache.cached(path)
                    if (None if copy is None else copy.value) != self._truth(path):
                        raise WrongCopy(f"the copy of {path} is {copy}, the record {self._truth(path)!r}")


def tell_of_caches(seed: int) -> None:
    """Tells the history of this seed. Raises WrongCopy."""
    rng = Random(seed)
    run(rng, _tell(rng))


async def _tell(rng: Random) -> None:
    await CacheHistory(rng).tell()
