"""Makes many topics in a cluster's metadata: partitioned topics and a share of the others through REST, the rest by
records that are written to the metadata store directly. Such a record is empty, as a broker makes it for a partition
that nobody has used yet."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from compat_tests.cluster.admin import call
from compat_tests.cluster.seats import BrokerSeat, MetadataSeat
from magnetar.metadata.store import CreateOp
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore

NAMESPACE = "public/scale"
BUNDLES = 64
PARTITIONS = 1000
REST_SINGLES_MAX = 100
"""How many topics without partitions a growth makes through REST; each call loads the topic and makes its ledger."""
REST_AT_ONCE = 8
RECORDS_PER_WRITE = 500
WRITES_AT_ONCE = 8


class Growth(NamedTuple):
    """How fast topics were made, in topics a second."""

    partitions: float
    singles: float
    records: float


class Topics:
    """The topics of one namespace. A third of them are partitions."""

    def __init__(self) -> None:
        self.partitioned: list[tuple[str, int]] = []
        self.loaded: list[str] = []
        """Full names of the topics that REST made, which are loaded."""
        self.singles = 0

    @property
    def count(self) -> int:
        return sum(partitions for _, partitions in self.partitioned) + len(self.loaded) + self.singles

    def grow(self, broker: BrokerSeat, zookeeper: MetadataSeat, total: int) -> Growth:
        """Makes topics until there are `total`. Raises HTTPError and MetadataError."""
        missing = total - self.count
        partitions, rest = missing // 3, min(REST_SINGLES_MAX, missing // 10)
        records = missing - partitions - rest
        return Growth(
            partitions / self._make_partitions(broker, partitions),
            rest / self._make_singles(broker, rest),
            records / self._make_records(zookeeper, records),
        )

    def unloaded(self, count: int) -> list[str]:
        """Returns full names of partitions, spread over all partitioned topics."""
        names = []
        for number in range(count):
            topic, partitions = self.partitioned[number * 7919 % len(self.partitioned)]
            names.append(f"persistent://{NAMESPACE}/{topic}-partition-{number * 104729 % partitions}")
        return names

    def _make_partitions(self, broker: BrokerSeat, partitions: int) -> float:
        began = time.monotonic()
        while partitions:
            size = min(PARTITIONS, partitions)
            name = f"parts-{len(self.partitioned)}"
            call(broker, f"/admin/v2/persistent/{NAMESPACE}/{name}/partitions", "PUT", size)
            self.partitioned.append((name, size))
            partitions -= size
        return time.monotonic() - began

    def _make_singles(self, broker: BrokerSeat, count: int) -> float:
        began = time.monotonic()
        names = [f"rest-{len(self.loaded) + number}" for number in range(count)]
        with ThreadPoolExecutor(REST_AT_ONCE) as pool:
            list(pool.map(lambda name: call(broker, f"/admin/v2/persistent/{NAMESPACE}/{name}", "PUT"), names))
        self.loaded += [f"persistent://{NAMESPACE}/{name}" for name in names]
        return time.monotonic() - began

    def _make_records(self, zookeeper: MetadataSeat, count: int) -> float:
        began = time.monotonic()
        paths = [
            f"/managed-ledgers/{NAMESPACE}/persistent/single-{number}"
            for number in range(self.singles, self.singles + count)
        ]
        asyncio.run(_write_records(zookeeper.address, paths))
        self.singles += count
        return time.monotonic() - began


async def _write_records(address: str, paths: Sequence[str]) -> None:
    store = await ZooKeeperStore.open(address)
    permits = asyncio.Semaphore(WRITES_AT_ONCE)

    async def write(some: Sequence[str]) -> None:
        async with permits:
            await store.multi([CreateOp(path, b"") for path in some])

    try:
        await asyncio.gather(*map(write, _cut(paths)))
    finally:
        await store.close()


def _cut(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(paths), RECORDS_PER_WRITE):
        yield paths[start : start + RECORDS_PER_WRITE]
