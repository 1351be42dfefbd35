"""Knows which bookies are registered and where they listen, and follows their records in the metadata store.

A bookie's registration is an ephemeral record below `/ledgers/available` (writable) or `/ledgers/available/readonly`,
with the bookie's addresses in it. Source: ZKRegistrationClient and DefaultBookieAddressResolver of BookKeeper 4.17.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from google.protobuf.message import DecodeError

from magnetar.metadata import paths
from magnetar.metadata.errors import MetadataError, NoNodeError
from magnetar.metadata.store import CancelWatch, MetadataStore, RecordEvent
from magnetar.storage.ledger.wire_channel import address_in_id
from magnetar.storage.ledger.wire_link import Address
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.text import check_text

log = logging.getLogger(__name__)

BOOKIE_PROTOCOL = "bookie-rpc"
RETRY_SECONDS = 1.0
"""How long to wait after the registrations could not be read. Meanwhile `bookies` keeps its value."""
READS_AT_ONCE = 64

_NOBODY: Mapping[str, Address | None] = MappingProxyType({})


class Bookies(NamedTuple):
    """The result of reading the registrations once. Both fields map a bookie id to the bookie's address, or to None if
    the bookie names no address for clients."""

    writable: Mapping[str, Address | None] = _NOBODY
    read_only: Mapping[str, Address | None] = _NOBODY

    @property
    def all(self) -> set[str]:
        return {*self.writable, *self.read_only}


def address_in_registration(bookie_id: str, value: bytes) -> Address | None:
    """Returns the first endpoint for clients. For a registration without content, as old bookies write it, the address
    is taken from the bookie's id. Returns None when there is no address."""
    if not value:
        try:
            return address_in_id(bookie_id)
        except LookupError:
            return None
    try:
        info = pb.BookieServiceInfoFormat.FromString(value)
        check_text(info)
    except DecodeError:
        log.warning("the registration of bookie %s does not decode", bookie_id)
        return None
    return next(((one.host, one.port) for one in info.endpoints if one.protocol == BOOKIE_PROTOCOL), None)


async def look_for_bookies(store: MetadataStore) -> Bookies:
    """Reads the registrations once. Raises MetadataError."""
    limit = asyncio.Semaphore(READS_AT_ONCE)

    async def address(parent: str, bookie_id: str) -> tuple[str, Address | None] | None:
        async with limit:
            record = await store.get(f"{parent}/{bookie_id}")
        return None if record is None else (bookie_id, address_in_registration(bookie_id, record.value))

    async def below(parent: str) -> dict[str, Address | None]:
        try:
            names = await store.children(parent)
        except NoNodeError:
            return {}
        reserved = paths.READ_ONLY_BOOKIES.rpartition("/")[2]
        found = await asyncio.gather(*(address(parent, name) for name in names if name != reserved))
        return dict(one for one in found if one is not None)

    writable = await below(paths.AVAILABLE_BOOKIES)
    return Bookies(writable, await below(paths.READ_ONLY_BOOKIES))


class BookieRegistry:
    """Keeps `bookies`, the registrations as last read. The registry calls the callbacks of `on_change` when the
    registrations differ from those that it read before."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.bookies = Bookies()
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._addresses: dict[str, Address] = {}
        self._dirty = asyncio.Event()
        self._cancel_watch: CancelWatch | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Watches the registrations, and reads them once. Raises MetadataError."""
        self._cancel_watch = self._store.watch(paths.AVAILABLE_BOOKIES, self._heard, recursive=True)
        await self.refresh()
        self._task = asyncio.create_task(self._follow())

    async def stop(self) -> None:
        """Ends watching. Idempotent."""
        if self._cancel_watch is not None:
            self._cancel_watch()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def refresh(self) -> Bookies:
        """Reads the registrations now. Raises MetadataError."""
        self._dirty.clear()
        found = await look_for_bookies(self._store)
        changed, self.bookies = found != self.bookies, found
        for known in (found.read_only, found.writable):
            self._addresses.update((name, address) for name, address in known.items() if address is not None)
        if changed:
            for callback in list(self._callbacks.values()):
                callback()
        return found

    def writable(self) -> list[str]:
        return list(self.bookies.writable)

    def is_registered(self, bookie_id: str) -> bool:
        """Whether the bookie was registered, writable or read-only, when the registrations were last read."""
        return bookie_id in self.bookies.writable or bookie_id in self.bookies.read_only

    def address_of(self, bookie_id: str) -> Address:
        """Returns the bookie's address. For a bookie that is not registered now, returns the last known address, or
        else the address in the bookie's id. Raises LookupError when there is none."""
        return self._addresses.get(bookie_id) or address_in_id(bookie_id)

    def on_change(self, callback: Callable[[], None]) -> CancelWatch:
        """Has `callback` called on the loop whenever the registrations have changed; the callback must not raise or
        block. Returns a function that ends the calls."""
        key = object()
        self._callbacks[key] = callback

        def cancel() -> None:
            self._callbacks.pop(key, None)

        return cancel

    def _heard(self, _: RecordEvent) -> None:
        self._dirty.set()

    async def _follow(self) -> None:
        while True:
            await self._dirty.wait()
            try:
                await self.refresh()
            except MetadataError as error:
                log.warning("cannot look which bookies there are, trying again: %s", error)
                self._dirty.set()
                await asyncio.sleep(RETRY_SECONDS)
