"""BookKeeper in memory, with the same faces as storage.ledger's client and handles, and a switch to cut it off.

`World` is what survives a crash: ledgers, the metadata tree and the ids given out. Every durable change takes a step of
`World.steps`; a test lets the process die at the k-th one, before or after it took effect. What was appended and not
confirmed then survives as far as the test says. A dead process's calls never return.

Every call suspends before and after its effect for a few turns of the loop, as many as the world's seed says: what
else runs meanwhile, and in which order calls of different kinds return, differs from seed to seed. Only the metadata
store keeps its calls in order, as its contract has it. With `World.fail_rate` calls fail at random, before or after
they took effect.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import count
from random import Random
from typing import TypeVar, cast

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.store import MetadataStore
from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.ledger.appends_under_way import AppendsUnderWay
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import (
    BookieHandleNotAvailable,
    ClientClosed,
    LedgerClosed,
    LedgerError,
    LedgerFenced,
    NoSuchEntry,
    NoSuchLedger,
    ReadFault,
)
from magnetar.storage.ledger.read_rules import most_telling_failure
from pulsar_proto.records.entry_digest import DigestType, EntryCodec, entry_length
from tests.storage.managed.stepped_store import SteppedStore

T = TypeVar("T")


class Steps:
    """The durable changes of one process: counts them, and lets it die at one of them."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.taken = 0
        self.names: list[str] = []
        self.die_at: int | None = None
        self.die_after_effect = False
        self.dead = asyncio.Event()
        self.buried = False

    async def take(
        self,
        name: str,
        effect: Callable[[], Awaitable[T]],
        error: Callable[[str], Exception] | None = BookieHandleNotAvailable,
    ) -> T:
        """Has its effect, or fails with `error` when the world says so."""
        await self.pause()
        self.taken += 1
        self.names.append(name)
        if self.taken == self.die_at:
            if self.die_after_effect:
                await effect()
            self.dead.set()
        await self.alive()
        if error is not None and self._world.fails():
            if self._world.random.random() < 0.5:
                await effect()
                await self.pause()
            raise error(f"{name} fails")
        result = await effect()
        await self.pause()
        return result

    async def pause(self) -> None:
        """Lets others run for as many turns as the world's seed says. Returns if the process lives, otherwise never."""
        random = self._world.random
        for _ in range(random.randrange(20 if random.random() < 0.2 else 4)):
            await asyncio.sleep(0)
        await self.alive()

    async def alive(self) -> None:
        """Returns if the process lives, otherwise never."""
        if self.buried:
            raise asyncio.CancelledError
        if self.dead.is_set():
            await asyncio.get_running_loop().create_future()


class StoredLedger:
    """A ledger as bookies and metadata hold it."""

    def __init__(self, ledger_id: int, custom_metadata: Mapping[str, bytes], digest_type: DigestType) -> None:
        self.ledger_id = ledger_id
        self.custom_metadata = dict(custom_metadata)
        self.codec = EntryCodec(ledger_id, digest_type)
        self.entries: list[bytes] = []
        self.unconfirmed: list[list[bytes]] = []
        """Groups that are on the bookies although the writer does not know it."""
        self.closed = False
        self.fenced = False

    @property
    def length(self) -> int:
        return entry_length(self.entries[-1]) if self.entries else 0


class World:
    def __init__(self, seed: int = 0) -> None:
        self.random = Random(seed)
        self.fail_rate = 0.0
        """The share of calls that fail."""
        self.ledgers: dict[int, StoredLedger] = {}
        self.deleted: list[int] = []
        self.ids: Iterator[int] = count(1)
        self.store = MemoryStore()
        self.steps = Steps(self)
        self.reads: list[tuple[int, int, int]] = []
        """(ledger, first, number) of every read from a handle."""
        self.opens: list[tuple[int, bool]] = []
        self.lost: set[tuple[int, int]] = set()
        """(ledger, entry) of entries that no bookie has any more."""
        self.watches_work = True
        self.hold_appends = False
        """While this is set, appended groups stay in flight until `FakeBookKeeper.confirm`."""
        self.append_error: LedgerError | None = None
        self.create_error: LedgerError | None = None
        self.close_error: LedgerError | None = None
        self.delete_error: LedgerError | None = None
        self.put_error: MetadataError | None = None
        """The error that every put fails with, if any; with `put_arrives` the put has its effect first."""
        self.put_arrives = False

    def fails(self) -> bool:
        """Decides whether the next call is to fail."""
        return self.fail_rate > 0 and self.random.random() < self.fail_rate

    def session(self) -> "FakeBookKeeper":
        """Returns a new process's client. The process before must be dead or closed."""
        return FakeBookKeeper(self, self.steps)

    async def bury(self, keep_groups: int = 0) -> None:
        """Ends every task of the dead process. Of each ledger's unconfirmed groups the first `keep_groups` are on the
        bookies."""
        self.steps.dead.set()
        self.steps.buried = True
        me = asyncio.current_task()
        while tasks := [task for task in asyncio.all_tasks() if task is not me]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        for ledger in self.ledgers.values():
            for group in ledger.unconfirmed[:keep_groups]:
                ledger.entries += group
            ledger.unconfirmed.clear()
        self.steps = Steps(self)
        self.hold_appends = False


class FakeBookKeeper:
    """Stands for `ledger_client.BookKeeper`."""

    def __init__(self, world: World, steps: Steps) -> None:
        self.world = world
        self.steps = steps
        self.appends = AppendsUnderWay()
        self.handles: list[FakeWriteHandle] = []

    def as_client(self) -> BookKeeper:
        return cast(BookKeeper, self)

    def metadata(self) -> MetadataStore:
        return SteppedStore(self.world, self.steps)

    async def create_ledger(
        self,
        *,
        custom_metadata: Mapping[str, bytes],
        digest_type: DigestType = DigestType.CRC32C,
        **quorums: int,
    ) -> "FakeWriteHandle":
        async def effect() -> StoredLedger:
            ledger = StoredLedger(next(self.world.ids), custom_metadata, digest_type)
            self.world.ledgers[ledger.ledger_id] = ledger
            return ledger

        if self.world.create_error is not None:
            raise self.world.create_error
        assert set(quorums) == {"ensemble_size", "write_quorum", "ack_quorum"}
        ledger = await self.steps.take("create ledger", effect)
        handle = FakeWriteHandle(self, ledger)
        self.handles.append(handle)
        return handle

    async def open_ledger(self, ledger_id: int, *, recover: bool = True) -> "FakeReadHandle":
        self.world.opens.append((ledger_id, recover))
        await self.steps.pause()
        ledger = self._find(ledger_id)
        if not ledger.closed and recover:

            async def fence() -> None:
                ledger.fenced = True

            async def close() -> None:
                for group in ledger.unconfirmed:
                    ledger.entries += group
                ledger.unconfirmed.clear()
                ledger.closed = True

            await self.steps.take("fence ledger", fence)
            await self.steps.take("close recovered ledger", close)
        return FakeReadHandle(self, ledger)

    async def delete_ledger(self, ledger_id: int) -> None:
        if self.world.delete_error is not None:
            raise self.world.delete_error

        async def effect() -> None:
            if self.world.ledgers.pop(ledger_id, None) is not None:
                self.world.deleted.append(ledger_id)

        await self.steps.take("delete ledger", effect)

    def confirm(self) -> None:
        """Confirms what is in flight, at the next turn of the loop."""
        for handle in self.handles:
            handle.confirm_later()

    def _find(self, ledger_id: int) -> StoredLedger:
        ledger = self.world.ledgers.get(ledger_id)
        if ledger is None:
            raise NoSuchLedger(f"ledger {ledger_id}")
        return ledger


class FakeReadHandle:
    def __init__(self, client: FakeBookKeeper, ledger: StoredLedger) -> None:
        self._client = client
        self._ledger = ledger
        self.ledger_id = ledger.ledger_id
        self.payload_offset = ledger.codec.payload_offset
        self.last_add_confirmed = len(ledger.entries) - 1
        self.length = ledger.length
        self.is_closed = ledger.closed

    async def read(self, first: int, last: int, max_bytes: int = 5 * 1024 * 1024) -> list[bytes]:
        return await read_entries(self._client, self._ledger, first, last, max_bytes)


class FakeWriteHandle:
    def __init__(self, client: FakeBookKeeper, ledger: StoredLedger) -> None:
        self._client = client
        self._ledger = ledger
        self._in_flight: list[Append] = []
        self._end_error: LedgerError | None = None
        self._scheduled = False
        self.ledger_id = ledger.ledger_id
        self.payload_offset = ledger.codec.payload_offset
        self.last_add_confirmed = -1
        self.last_add_pushed = -1
        self.length = 0

    @property
    def is_open(self) -> bool:
        return self._end_error is None

    def append(self, payloads: Sequence[bytes], done: Callable[[Append], None]) -> Append:
        assert payloads
        loop = asyncio.get_running_loop()
        if self._end_error is not None:
            refused = Append(self.last_add_pushed + 1, payloads, self.length, done)
            refused.error = self._end_error
            loop.call_soon(done, refused)
            return refused
        first = self.last_add_pushed + 1
        entries = self._ledger.codec.pack_run(first, self.last_add_confirmed, self.length, payloads)
        append = Append(first, entries, entry_length(entries[-1]), done)
        self.length = append.length
        self.last_add_pushed += len(payloads)
        self._in_flight.append(append)
        self._ledger.unconfirmed.append(list(entries))
        if not self._client.world.hold_appends:
            self.confirm_later()
        return append

    async def add(self, payload: bytes) -> int:
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(append: Append) -> None:
            if append.error is None:
                outcome.set_result(None)
            else:
                outcome.set_exception(append.error)

        append = self.append([payload], done)
        await outcome
        return append.first_entry_id

    def confirm_later(self) -> None:
        if not self._scheduled and self._in_flight:
            self._scheduled = True
            asyncio.get_running_loop().create_task(self._confirm())

    async def _confirm(self) -> None:
        while self._in_flight and self._end_error is None and not self._client.world.hold_appends:
            await asyncio.sleep(0)
            await self._client.steps.take("append", self._store, None)
        self._scheduled = False

    async def _store(self) -> None:
        world = self._client.world
        if self._ledger.fenced:
            self.end(LedgerFenced(f"ledger {self.ledger_id}"))
        elif world.append_error is not None:
            self.end(world.append_error)
        elif world.fails():
            self.end(BookieHandleNotAvailable(f"append to ledger {self.ledger_id} fails"))
        if not self._in_flight:
            return
        append = self._in_flight.pop(0)
        self._ledger.entries += self._ledger.unconfirmed.pop(0)
        self.last_add_confirmed = append.first_entry_id + len(append.entries) - 1
        dies_here = self._client.steps.taken == self._client.steps.die_at
        if not dies_here:
            append.done(append)

    def end(self, error: LedgerError) -> None:
        if self._end_error is not None:
            return
        self._end_error = error
        self.last_add_pushed = self.last_add_confirmed
        failed, self._in_flight = self._in_flight, []
        for append in failed:
            append.error = error
            append.done(append)

    async def read(self, first: int, last: int, max_bytes: int = 5 * 1024 * 1024) -> list[bytes]:
        if last > self.last_add_confirmed:
            raise ReadFault(f"entry {last} is beyond {self.last_add_confirmed}")
        return await read_entries(self._client, self._ledger, first, last, max_bytes)

    async def close(self) -> None:
        self.end(LedgerClosed(f"ledger {self.ledger_id} was closed"))
        await self._client.steps.pause()
        if self._ledger.closed and len(self._ledger.entries) != self.last_add_confirmed + 1:
            raise LedgerFenced(f"ledger {self.ledger_id} was closed by another")
        if self._client.world.close_error is not None:
            raise self._client.world.close_error
        if self._ledger.closed:
            return

        async def effect() -> None:
            self._ledger.closed = True
            self._ledger.unconfirmed.clear()
            del self._ledger.entries[self.last_add_confirmed + 1 :]

        await self._client.steps.take("close ledger", effect)

    async def abandon(self) -> None:
        self.end(ClientClosed(f"ledger {self.ledger_id}"))
        await self._client.steps.pause()


async def read_entries(
    client: FakeBookKeeper, ledger: StoredLedger, first: int, last: int, max_bytes: int
) -> list[bytes]:
    client.world.reads.append((ledger.ledger_id, first, last - first + 1))
    await client.steps.pause()
    if ledger.ledger_id not in client.world.ledgers:
        raise NoSuchLedger(f"ledger {ledger.ledger_id}")
    if client.world.fails():
        raise ReadFault(f"entry {first} of ledger {ledger.ledger_id}: as the test wants it")
    taken: list[bytes] = []
    for entry_id, entry in enumerate(ledger.entries[first : last + 1], first):
        max_bytes -= len(entry)
        if (taken and max_bytes < 0) or (ledger.ledger_id, entry_id) in client.world.lost:
            break
        taken.append(entry)
    if not taken and (ledger.ledger_id, first) in client.world.lost:
        raise most_telling_failure([NoSuchEntry(f"entry {first} of ledger {ledger.ledger_id}")])
    if not taken:
        raise ReadFault(f"entry {first} of ledger {ledger.ledger_id}")
    return taken
