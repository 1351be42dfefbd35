"""Auto-recovery through random histories, in virtual time: bookies die and come back, lose entries and turn read-only,
writers keep writing, and auto-recoveries are stopped and killed at work. A failure names the seed that repeats it.

Claims: no acknowledged entry is ever lost or changed, whatever was copied or recovered. And once the faults have
stopped, every ledger of a lost bookie is whole on other bookies, without a mark or a lock left behind.
"""

import asyncio
import contextlib
from random import Random

import pytest

from magnetar.storage.ledger.fragment_rules import fragment_of
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.ledger.ledger_handle import WriteHandle
from magnetar.storage.ledger.quorum_rules import write_set
from magnetar.storage.repair.auto_recovery import AutoRecovery
from pulsar_proto.records.entry_digest import EntryCodec
from pulsar_proto.records.ledger_record import LedgerMetadata
from tests.rounds import rounds
from tests.storage.repair.repair_scene import RepairScene, append
from tests.storage.repair.virtual_loop import run

SEEDS = range(rounds(20))
STEPS = 25
BOOKIES = 7
DOWN_MAX = 2
SHAPES = ((3, 3, 2), (3, 2, 2), (4, 3, 2), (2, 2, 2))
SETTINGS = {
    "open_ledger_rereplication_grace_period": 2000,
    "rw_rereplicate_backoff_ms": 500,
    "lock_release_of_failed_ledger_grace_period": 4000,
    "auditor_periodic_check_interval": 20,
    "rereplication_entry_batch_size": 7,
}


class History:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.scene = RepairScene(seed=seed, delay_max=self.rng.choice((0.0, 0.003, 0.05)))
        self.down: list[str] = []
        self.writers: list[WriteHandle] = []
        self.acked: dict[int, int] = {}
        """By ledger: how many entries were acknowledged."""
        self.running: list[AutoRecovery] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        await self.scene.setup(BOOKIES)
        for number in range(2):
            self.running.append(await self.scene.start_recovery(f"r{number}", **SETTINGS))
        for _ in range(STEPS):
            await self.rng.choice(self.deeds())()
            await asyncio.sleep(self.rng.choice((0.0, 0.01, 0.5, 3.0)))
        await self.calm_down()
        await self.check()
        await self.scene.close()

    def deeds(self) -> list:  # type: ignore[type-arg]
        deeds = [self.write, self.write, self.write_on, self.write_on, self.close_one, self.replace_recovery]
        if len(self.down) < DOWN_MAX:
            deeds += [self.kill, self.kill]
        if self.down:
            deeds += [self.come_back]
        return [*deeds, self.lose_an_entry]

    async def write(self) -> None:
        try:
            sizes = self.rng.choice(SHAPES)
            handle = await self.scene.client.bookkeeper.create_ledger(
                ensemble_size=sizes[0], write_quorum=sizes[1], ack_quorum=sizes[2]
            )
        except LedgerError:
            return
        self.writers.append(handle)
        self.acked[handle.ledger_id] = 0
        await self.write_on(handle)

    async def write_on(self, handle: WriteHandle | None = None) -> None:
        """Starts writing in the background, so that other steps come meanwhile."""
        if handle is None:
            if not self.writers:
                return
            handle = self.rng.choice(self.writers)
        self.tasks.append(asyncio.create_task(self._append(handle, self.rng.randint(1, 30))))

    async def _append(self, handle: WriteHandle, count: int) -> None:
        last = handle.last_add_pushed + count
        try:
            await append(handle, count)
        except LedgerError:
            if handle in self.writers:
                self.writers.remove(handle)
            return
        self.acked[handle.ledger_id] = max(self.acked[handle.ledger_id], last + 1)

    async def close_one(self) -> None:
        if self.writers:
            handle = self.writers.pop(self.rng.randrange(len(self.writers)))
            self.tasks.append(asyncio.create_task(self._close(handle)))

    async def _close(self, handle: WriteHandle) -> None:
        with contextlib.suppress(LedgerError):  # a recovery was faster than the writer
            await handle.close()

    async def kill(self) -> None:
        bookie = self.rng.choice([name for name in self.scene.fakes.names() if name not in self.down])
        await self.scene.kill(bookie)
        self.down.append(bookie)

    async def come_back(self) -> None:
        bookie = self.down.pop(self.rng.randrange(len(self.down)))
        await self.scene.register(bookie)

    async def lose_an_entry(self) -> None:
        """Damages or deletes one stored copy of an entry, of a closed ledger that lacks nothing."""
        closed = [ledger_id for ledger_id in self.acked if (await self.scene.metadata(ledger_id)).is_closed]
        if not closed or self.down:
            return
        ledger_id = self.rng.choice(closed)
        if await self.scene.lacks(ledger_id):
            return
        metadata = await self.scene.metadata(ledger_id)
        first, members = self.rng.choice(metadata.ensembles)
        held = self.scene.fakes.bookies[self.rng.choice(members)].ledgers.get(ledger_id)
        if held is not None and first in held.entries:
            if self.rng.random() < 0.5:
                del held.entries[first]
            else:
                held.entries[first] = held.entries[first][:-1] + b"\xff"

    async def replace_recovery(self) -> None:
        """Replaces an auto-recovery: it is stopped in order, or its process dies with everything that it holds."""
        former = self.running.pop(self.rng.randrange(len(self.running)))
        if self.rng.random() < 0.5:
            await former._cluster.store.close()
        await former.stop()
        self.running.append(await self.scene.start_recovery(f"r{self.rng.getrandbits(30)}", **SETTINGS))

    async def calm_down(self) -> None:
        """Stops the faults: all bookies come back and open ledgers are closed. Then one bookie goes away for good."""
        while self.down:
            await self.come_back()
        await asyncio.gather(*self.tasks)
        for handle in self.writers:
            await self._close(handle)
        for ledger_id in self.acked:
            await self._recover(ledger_id)
        await self.scene.healed(*self.acked)
        await self.scene.kill(self.rng.choice(self.scene.fakes.names()))

    async def _recover(self, ledger_id: int) -> None:
        async with asyncio.timeout(600):
            while not (await self.scene.metadata(ledger_id)).is_closed:
                try:
                    await self.scene.client.bookkeeper.open_ledger(ledger_id)
                except LedgerError:
                    await asyncio.sleep(1)

    async def check(self) -> None:
        await self.scene.healed(*self.acked)
        for ledger_id, acked in self.acked.items():
            metadata = await self.scene.metadata(ledger_id)
            assert metadata.last_entry_id >= acked - 1, f"ledger {ledger_id}: an acknowledged entry was cut off"
            self._check_content(metadata)

    def _check_content(self, metadata: LedgerMetadata) -> None:
        assert metadata.digest_type is not None
        codec = EntryCodec(metadata.ledger_id, metadata.digest_type)
        for entry_id in range(metadata.last_entry_id + 1):
            members = fragment_of(metadata, entry_id).members
            copies = self.scene.fakes.copies(metadata.ledger_id, entry_id)
            # A bookie may also hold an old, damaged copy of an entry that it is no longer responsible for.
            holders = [members[i] for i in write_set(entry_id, len(members), metadata.write_quorum)]
            payloads = {copies[name][codec.payload_offset :] for name in holders}
            assert payloads == {b"%d " % entry_id * 5}, f"ledger {metadata.ledger_id} entry {entry_id}"


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_acknowledged_is_lost_and_in_the_end_everything_is_healed(seed: int) -> None:
    run(History(seed).run())
