"""Fake bookies that register in a metadata store, ledgers on them, and auto-recoveries, in virtual time."""

import asyncio
from collections.abc import Callable
from itertools import count
from random import Random

from magnetar.metadata import paths
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.ledger_handle import WriteHandle
from magnetar.storage.ledger.quorum_rules import write_set
from magnetar.storage.repair.auto_recovery import AutoRecovery
from magnetar.storage.repair.autorecovery_config import AutoRecoveryConfig
from magnetar.storage.repair.repair_rules import fragments_of
from magnetar.storage.repair.underreplication import Underreplication
from pulsar_proto.records.entry_digest import DigestError, EntryCodec
from pulsar_proto.records.ledger_record import LedgerMetadata
from tests.storage.ledger.fake_bookie import FakeCluster, LinkState

CONFIG = LedgerConfig(add_entry_timeout_sec=5, read_entry_timeout_sec=5)
NOW_MS = 1_700_000_000_000


class RepairScene:
    """Await `setup(bookies)` first. The bookies are named b0, b1, …; one that is killed loses its registration at
    once."""

    def __init__(self, *, seed: int = 0, delay_max: float = 0.0) -> None:
        self.store = MemoryStore()
        self.fakes = FakeCluster(0, seed=seed, delay_max=delay_max)
        self.fakes.rng = Random(seed)
        self._sessions: dict[str, MemoryStore] = {}
        self._numbers = count(1)
        self._clients: list[BookKeeperCluster] = []
        self.book = Underreplication(self.store, now_ms=self.now_ms)
        self.recoveries: list[AutoRecovery] = []

    async def setup(self, bookies: int) -> None:
        self.fakes.bookies.update(FakeCluster(bookies).bookies)
        for name in self.fakes.names():
            await self.register(name)
        self.client = await self.new_client()

    def now_ms(self) -> int:
        return NOW_MS + int(asyncio.get_running_loop().time() * 1000)

    async def register(self, name: str, *, read_only: bool = False) -> None:
        session = self._sessions[name] = self.store.session()
        await session.create(paths.bookie_path(name, read_only=read_only), ephemeral=True, make_parents=True)
        self.fakes.bookies[name].network = LinkState.OK

    async def kill(self, name: str) -> None:
        self.fakes.bookies[name].network = LinkState.RESET
        await self._sessions.pop(name).close()

    async def make_read_only(self, name: str) -> None:
        await self._sessions.pop(name).close()
        await self.register(name, read_only=True)

    async def new_client(self) -> BookKeeperCluster:
        name = f"client{next(self._numbers)}"
        client = BookKeeperCluster(
            self.store.session(),
            config=CONFIG,
            rng=Random(f"{name} {self.fakes.rng.random()}"),
            channel_of=self.fakes.channel_of(name),
        )
        await client.registry.start()
        await client.racks.start()
        self._clients.append(client)
        return client

    async def start_recovery(self, bookie_id: str = "r0", **settings: int) -> AutoRecovery:
        config = AutoRecoveryConfig(**{"auditor_periodic_check_interval": 0, **settings})
        recovery = AutoRecovery(await self.new_client(), config, bookie_id, now_ms=self.now_ms)
        await recovery.start()
        self.recoveries.append(recovery)
        return recovery

    async def write(
        self, sizes: tuple[int, int, int], entries: int, *, close: bool = True, client: BookKeeperCluster | None = None
    ) -> WriteHandle:
        """Writes a ledger whose sizes are (ensemble, write quorum, ack quorum), with this many entries."""
        bookkeeper = (client or self.client).bookkeeper
        handle = await bookkeeper.create_ledger(ensemble_size=sizes[0], write_quorum=sizes[1], ack_quorum=sizes[2])
        await append(handle, entries)
        if close:
            await handle.close()
        return handle

    async def metadata(self, ledger_id: int) -> LedgerMetadata:
        return (await self.client.driver.read(ledger_id)).metadata

    async def marked(self) -> list[int]:
        return [ledger_id async for ledger_id in self.book.marked()]

    async def lacks(self, ledger_id: int) -> list[str]:
        """Returns what is wrong with a ledger: bookies that are gone, entries that a member lacks, copies that are
        damaged."""
        metadata = await self.metadata(ledger_id)
        found = [
            f"{bookie} is gone"
            for _, members in metadata.ensembles
            for bookie in members
            if bookie not in self._sessions
        ]
        assert metadata.digest_type is not None
        codec = EntryCodec(ledger_id, metadata.digest_type, metadata.password or b"")
        for fragment in fragments_of(metadata, metadata.last_entry_id):
            for entry_id in range(fragment.first, fragment.last + 1):
                copies = self.fakes.copies(ledger_id, entry_id)
                for index in write_set(entry_id, metadata.ensemble_size, metadata.write_quorum):
                    entry = copies.get(fragment.members[index])
                    try:
                        codec.verify(entry or b"", entry_id)
                    except DigestError:
                        found.append(f"entry {entry_id} on {fragment.members[index]}")
        return found

    async def healed(self, *ledger_ids: int) -> None:
        """Waits until these ledgers lack nothing, and there are no marks and no locks."""

        async def is_healed() -> bool:
            if await self.marked() or await self.book.locks():
                return False
            return not any([await self.lacks(ledger_id) for ledger_id in ledger_ids])

        await until_true(is_healed)

    async def close(self) -> None:
        for recovery in self.recoveries:
            await recovery.stop()
        for client in self._clients:
            await client.close()


async def append(handle: WriteHandle, entries: int) -> None:
    """Appends entries whose content is made of their numbers."""
    if not entries:
        return
    done: asyncio.Future[Append] = asyncio.get_running_loop().create_future()
    first = handle.last_add_pushed + 1
    handle.append([b"%d " % number * 5 for number in range(first, first + entries)], done.set_result)
    error = (await done).error
    if error is not None:
        raise error


async def until_true(condition: Callable[[], object], seconds: float = 3600) -> None:
    """Waits, in virtual time, for a condition that may be a coroutine function."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return
        assert loop.time() < deadline, "the awaited condition did not come true"
        await asyncio.sleep(0.05)
