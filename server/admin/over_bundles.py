"""Does the work of calls on a whole namespace: the owner of each bundle does the part for its bundle. For a bundle of
another broker, this broker calls that broker.

Source: NamespacesBase (internalUnloadNamespaceAsync, internalClearNamespaceBacklog), which use the broker's admin
client for every bundle.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from magnetar.server.admin.peer_calls import AT_ONCE, ask_peer
from magnetar.server.broker.broker import Broker
from magnetar.server.namespaces.broker_addresses import BrokerAddresses
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.web.calls import Refusal
from pulsar_proto.errors import PulsarError

BEING_UNLOADED = "is being unloaded"
"""The words with which a broker refuses a call on a bundle that it is giving away."""

T = TypeVar("T")
R = TypeVar("R")


async def at_owners(
    broker: Broker,
    namespace: str,
    here: Callable[[BundleName], Awaitable[Any]],
    *,
    method: str,
    path: Callable[[BundleName], str],
    query: Mapping[str, str] | None = None,
    acquire: bool,
) -> list[Any]:
    """Works on every bundle of a namespace at the bundle's owner, and returns the results. For a bundle of this broker,
    `here(bundle)` does the work. For any other bundle, this broker calls the owner with the HTTP method `method` and
    the path `path(bundle)`. A bundle without an owner gets one if `acquire` is set, and is left out otherwise. A fault
    of one bundle does not stop the work on other bundles. When all are done, raises the fault that `first_fault_raised`
    chooses."""

    async def one(bundle: BundleName) -> list[Any]:
        owner = await owner_of(broker, bundle, acquire=acquire)
        if owner is None:
            return []
        if owner.broker_id == broker.broker_id:
            return [await here(bundle)]
        return [await ask_peer(broker, owner, method, path(bundle), query)]

    bundles = await broker.ownership.bundles.get(namespace)
    results = await each_at_once(bundles.all, one)
    return [result for found in first_fault_raised(results) for result in found]


async def unload_everywhere(broker: Broker, namespace: str) -> None:
    """Unloads every bundle of a namespace at the bundle's owner. When all are done, raises the fault that
    `first_fault_raised` chooses."""
    path = f"/admin/v2/namespaces/{quote(namespace)}"

    async def unload(bundle: BundleName) -> None:
        owner = await owner_of(broker, bundle, acquire=False)
        if owner is None:
            return
        if owner.broker_id == broker.broker_id:
            await broker.moves.unload(bundle)
            return
        try:
            await ask_peer(broker, owner, "PUT", f"{path}/{bundle.range}/unload")
        except Refusal as refusal:
            if BEING_UNLOADED not in refusal.reason:  # Apache's owner refuses to unload twice.
                raise

    bundles = await broker.ownership.bundles.get(namespace)
    first_fault_raised(await each_at_once(bundles.all, unload))


async def owner_of(broker: Broker, bundle: BundleName, *, acquire: bool) -> BrokerAddresses | None:
    """Returns the owner of a bundle. A bundle without an owner gets one if `acquire` is set; otherwise the function
    returns None for such a bundle. Raises PulsarError."""
    if acquire:
        return (await broker.lookups.find(bundle)).broker
    if bundle in broker.ownership.owned_bundles():
        return broker.addresses  # This is so even while the bundle is being unloaded.
    return await broker.ownership.owner_of(bundle)


async def each_at_once(items: Iterable[T], work: Callable[[T], Awaitable[R]]) -> list[R | Exception]:
    """Does the work for each item, for AT_ONCE items at the same time. Returns, in the order of the items, the result
    of each item, or the error if the work on the item failed."""
    permits = asyncio.Semaphore(AT_ONCE)

    async def one(item: T) -> R | Exception:
        async with permits:
            try:
                return await work(item)
            except Exception as error:
                return error

    return list(await asyncio.gather(*map(one, items)))


def first_fault_raised(results: Iterable[R | Exception]) -> list[R]:
    """Returns the results if none of them is an error. Otherwise raises the first Refusal or PulsarError, whose text
    the caller is told, or the first error if there are only errors of other types."""
    found = list(results)
    errors = [each for each in found if isinstance(each, Exception)]
    told = [each for each in errors if isinstance(each, Refusal | PulsarError)]
    for error in [*told, *errors]:
        raise error
    return [each for each in found if not isinstance(each, Exception)]
