"""What trimming promises subscriptions, on random histories: cursors are made, moved back and forth, acknowledge and
are deleted at any moment, while ledgers fill and are trimmed, and calls of the storage fail.

Claim: when making or moving a cursor returns, the entries after it that exist then stay until that cursor acknowledges
them, is moved again or is deleted. The same holds after the process ends and the managed ledger is opened again.
"""

import asyncio
from collections.abc import Coroutine
from random import Random

import pytest

from magnetar.storage.managed.append_queue import AddResult
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.ids import EARLIEST, LATEST, Position
from tests.rounds import rounds
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import DELETE_AT_ONCE, NAME, factory_of
from tests.waiting import until


class History:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World(seed)
        self.ledger: ManagedLedger
        self.promised: dict[str, list[Position]] = {}
        """What each cursor was promised. A cursor that is being moved or deleted is promised nothing."""
        self.busy: set[str] = set()
        self.tasks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        random = self.random
        factory = factory_of(self.world.session(), DELETE_AT_ONCE)
        self.ledger = await factory.open(NAME)
        self.world.fail_rate = random.choice([0, 0, 0.1])
        for _ in range(random.randrange(10, 60)):
            action = random.choice([self.append, self.append, self.move, self.move, self.acknowledge, self.delete])
            self.ask(action(random.choice("abc")))
            for _ in range(random.choice([0, 1, 5, 30])):
                await asyncio.sleep(0)
                self.check()
        await until(lambda: all(task.done() for task in self.tasks))
        self.check()
        self.world.fail_rate = 0
        await factory.close()
        self.ledger = await factory_of(self.world.session(), DELETE_AT_ONCE).open(NAME)
        self.check()

    def ask(self, action: Coroutine[None, None, None]) -> None:
        self.tasks.append(asyncio.create_task(action))

    def check(self) -> None:
        """Checks the claim for the present moment."""
        for name, positions in self.promised.items():
            for position in positions:
                assert self.ledger.entries_between(before(position), position) == 1, f"{name} lost {position}"

    def remaining(self, cursor: Cursor) -> list[Position]:
        found, position = [], self.ledger.next_position(cursor.mark_delete)
        while not self.ledger.is_after_last(position):
            if not cursor.is_acked(*position):
                found.append(position)
            position = self.ledger.next_position(position)
        return found

    async def append(self, _: str) -> None:
        answer: asyncio.Future[AddResult] = asyncio.get_running_loop().create_future()
        self.ledger.add_entries([b"x"] * self.random.randint(1, 4), answer.set_result)
        await answer

    async def move(self, name: str) -> None:
        """Makes the cursor if there is none, otherwise moves it."""
        if name in self.busy:
            return
        self.busy.add(name)
        self.promised.pop(name, None)
        start = self.random.choice([EARLIEST, EARLIEST, LATEST])
        try:
            cursor = self.ledger.cursors.get(name)
            if cursor is None:
                cursor = await self.ledger.open_cursor(name, start)
            else:
                await cursor.reset(start)
            self.promised[name] = self.remaining(cursor)
        except ManagedLedgerError:
            pass
        finally:
            self.busy.discard(name)

    async def acknowledge(self, name: str) -> None:
        cursor = self.ledger.cursors.get(name)
        if cursor is None or name in self.busy:
            return
        upto = self.ledger.last_confirmed
        self.promised[name] = [position for position in self.promised.get(name, ()) if position > upto]
        cursor.ack_cumulative(*upto)

    async def delete(self, name: str) -> None:
        if name in self.busy or name not in self.ledger.cursors:
            return
        self.busy.add(name)
        self.promised.pop(name, None)
        try:
            await self.ledger.delete_cursor(name)
        except ManagedLedgerError:
            pass
        finally:
            self.busy.discard(name)


def before(position: Position) -> Position:
    return Position(position.ledger_id, position.entry_id - 1)


@pytest.mark.parametrize("block", range(rounds(10)))
async def test_nothing_is_trimmed_that_a_subscription_was_promised(block: int) -> None:
    for seed in range(block * 60, block * 60 + 60):
        history = History(seed)
        try:
            await history.run()
        except BaseException:
            print("seed", seed)
            raise
