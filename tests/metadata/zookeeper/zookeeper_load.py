"""Writers that note the answers which they got under load, to be compared with the records afterwards."""

import asyncio

import pytest

from magnetar.metadata.errors import BadVersionError, MetadataError
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore

WORKERS = 16


class Writers:
    """Runs workers. Each draws numbers, counts up a record of its own and one that all share, and notes the answers."""

    def __init__(self, store: ZooKeeperStore) -> None:
        self.store = store
        self.drawn: list[int] = []
        self.own = [0] * WORKERS
        self.shared = 0
        self.unknown = 0
        self.rounds = 0
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    @classmethod
    async def begin(cls, store: ZooKeeperStore) -> "Writers":
        for name in ("ids", "own", "shared"):
            await store.create(f"/{name}")
        for worker in range(WORKERS):
            await store.create(f"/own/{worker}")
        return cls(store)

    def start(self) -> None:
        self._tasks = [asyncio.ensure_future(self._run(worker)) for worker in range(WORKERS)]

    async def stop(self) -> None:
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def check(self) -> None:
        """Checks the answers against the records: nothing happened twice, and nothing was lost."""
        assert len(self.drawn) == len(set(self.drawn)), "a number was given twice"
        there = {int(name.removeprefix("ID-")) for name in await self.store.children("/ids")}
        assert set(self.drawn) <= there
        assert len(there) - len(self.drawn) <= self.unknown, "a create was done twice"
        for worker in range(WORKERS):
            stat = await self.store.exists(f"/own/{worker}")
            assert stat is not None
            assert stat.version == self.own[worker]
        shared = await self.store.exists("/shared")
        assert shared is not None
        assert self.shared <= shared.version <= self.shared + self.unknown

    async def _run(self, worker: int) -> None:
        while not self._stopping:
            await self._one(worker)
            self.rounds += 1

    async def _one(self, worker: int) -> None:
        try:
            created = await self.store.create("/ids/ID-", ephemeral=True, sequential=True)
            self.drawn.append(int(created.path.removeprefix("/ids/ID-")))
            own = await self.store.put(f"/own/{worker}", f"{worker}:{self.own[worker] + 1}".encode(), self.own[worker])
            assert own.version == self.own[worker] + 1
            self.own[worker] += 1
            record = await self.store.get("/shared")
            assert record is not None
            value = f"{worker}:{self.rounds}:{len(self.drawn)}".encode()
            try:
                await self.store.put("/shared", value, record.stat.version)
                self.shared += 1
            except BadVersionError:
                pass  # another worker was faster
        except BadVersionError:
            pytest.fail("what our own write had changed was taken for another's")
        except MetadataError:
            self.unknown += 1
            record = await self.store.get(f"/own/{worker}")
            assert record is not None
            self.own[worker] = record.stat.version
