"""The averages of bundles and brokers in the metadata store. The leader writes them, so that the next leader knows
them.

Source: ModularLoadManagerImpl.getBundleDataOrDefault, writeBundleDataOnZooKeeper, deleteBundleDataFromMetadataStore.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import TypeVar

from magnetar.metadata.compare_and_set import update_record
from magnetar.metadata.errors import NoNodeError
from magnetar.metadata.store import MetadataStore, delete_empty_parents
from magnetar.server.load.bundle_averages import BundleData, ResourceQuota, TimeAverageBrokerData
from magnetar.server.load.load_reporter import BROKER_AVERAGES

BUNDLE_DATA = "/loadbalance/bundle-data"
RESOURCE_QUOTAS = "/loadbalance/resource-quota"

CALLS_AT_ONCE = 32

T = TypeVar("T")


class BundleDataRecords:
    """Reads and writes the records. Every method raises MetadataError when the store fails."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def read(self, bundle: str) -> BundleData | None:
        """Returns the stored averages of a bundle. If there are none, returns data that follow from the bundle's quota,
        or None when there is no quota either."""
        record = await self._store.get(f"{BUNDLE_DATA}/{bundle}")
        if record is not None and (data := BundleData.read(record.value)) is not None:
            return data
        record = await self._store.get(f"{RESOURCE_QUOTAS}/{bundle}")
        quota = None if record is None else ResourceQuota.read(record.value)
        return None if quota is None else quota.as_bundle_data()

    async def read_all(self, bundles: Iterable[str]) -> dict[str, BundleData]:
        """Returns the stored data of these bundles, by bundle. Bundles without stored data are left out."""
        found: dict[str, BundleData] = {}

        async def add(bundle: str) -> None:
            data = await self.read(bundle)
            if data is not None:
                found[bundle] = data

        await _in_parallel(bundles, add)
        return found

    async def write(self, bundles: Mapping[str, bytes], brokers: Mapping[str, TimeAverageBrokerData]) -> None:
        """Writes the averages of bundles and brokers. A value that another process has written is overwritten, because
        only the leader should write these records."""
        records = {f"{BUNDLE_DATA}/{bundle}": value for bundle, value in bundles.items()}
        records |= {f"{BROKER_AVERAGES}/{broker}": average.to_bytes() for broker, average in brokers.items()}

        async def put(path: str) -> None:
            await update_record(self._store, path, lambda old: None if old == records[path] else records[path])

        await _in_parallel(records, put)

    async def delete_bundles(self, bundles: Iterable[str]) -> None:
        """Deletes the averages of bundles that do not exist any more. A bundle without averages is no error."""

        async def delete(bundle: str) -> None:
            path = f"{BUNDLE_DATA}/{bundle}"
            try:
                await self._store.delete(path)
            except NoNodeError:
                return
            await delete_empty_parents(self._store, path, BUNDLE_DATA)

        await _in_parallel(bundles, delete)

    async def delete_dead_brokers(self, alive: Iterable[str]) -> list[str]:
        """Deletes the averages of brokers that are not registered. Returns the ids of these brokers."""
        try:
            dead = sorted(set(await self._store.children(BROKER_AVERAGES)) - set(alive))
        except NoNodeError:
            return []

        async def delete(broker: str) -> None:
            with suppress(NoNodeError):
                await self._store.delete(f"{BROKER_AVERAGES}/{broker}")

        await _in_parallel(dead, delete)
        return dead


async def _in_parallel(items: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
    limit = asyncio.Semaphore(CALLS_AT_ONCE)

    async def one(item: T) -> None:
        async with limit:
            await work(item)

    for result in await asyncio.gather(*map(one, items), return_exceptions=True):
        if isinstance(result, BaseException):
            raise result
