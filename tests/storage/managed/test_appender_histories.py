"""What an appender promises, on random histories: groups come, ledgers are rolled, termination and closing are asked
for, another owner fences it, at any moment, while calls of the storage fail at any of its awaits.

Claims, after every history:

1. every group is answered, once, in the order in which the groups came;
2. every request returns, and closing does;
3. what was confirmed stands in the log, in the order of the confirmations;
4. nothing is confirmed after a termination that succeeded, and the log ends there; nobody is told that the log is
   terminated when it is not;
5. once fenced, it is fenced until it is closed.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from random import Random

import pytest

from magnetar.storage.managed.append_queue import AddResult
from magnetar.storage.managed.appender import AppendState
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_errors import (
    ManagedLedgerError,
    ManagedLedgerFenced,
    ManagedLedgerTerminated,
)
from pulsar_proto.ids import Position
from tests.rounds import rounds
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import CONFIG, factory_of, open_one, read_all
from tests.waiting import until

REQUESTS = ("roll", "open_ledger", "terminate", "fence", "close")


class History:
    """One managed ledger, what was asked of it and what it answered."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World(seed)
        self.ledger: ManagedLedger
        self.sent = 0
        self.fenced = False
        self.answers: list[tuple[int, AddResult]] = []
        self.ends: list[Position] = []
        self.requests: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        self.factory = factory_of(self.world.session(), CONFIG)
        self.ledger = await self.factory.open("public/default/persistent/t")
        self.world.fail_rate = self.random.choice([0, 0.1, 0.4])
        weights = [self.random.choice([0.1, 0.5, 1, 4]) for _ in REQUESTS]
        for _ in range(self.random.randrange(40)):
            if self.random.random() < 0.6:
                self.send()
            else:
                (name,) = self.random.choices(REQUESTS, weights)
                self.ask(getattr(self, name)())
            for _ in range(self.random.choice([0, 0, 1, 5, 30])):
                await asyncio.sleep(0)
                self.look()
            self.look()
        self.send()
        self.ask(self.close())
        self.send()
        await until(lambda: all(task.done() for task in self.requests))
        await until(lambda: len(self.answers) >= self.sent)

    def send(self) -> None:
        number = self.sent
        self.sent += 1
        payloads = [b"%d.%d" % (number, part) for part in range(self.random.randint(1, 3))]
        self.ledger.add_entries(payloads, lambda result: self.answers.append((number, result)))

    def look(self) -> None:
        """Checks claim 5."""
        state = self.ledger.state
        assert not self.fenced or state in (AppendState.FENCED, AppendState.CLOSED), state
        self.fenced = self.fenced or state is AppendState.FENCED

    def ask(self, request: Coroutine[None, None, None]) -> None:
        self.requests.append(asyncio.create_task(request))

    async def roll(self) -> None:
        await self.ledger.roll()

    async def open_ledger(self) -> None:
        await self.ledger.open_ledger()

    async def terminate(self) -> None:
        self.ends.append(await self.ledger.terminate())

    async def fence(self) -> None:
        self.ledger._appender.fence(ManagedLedgerFenced(self.ledger.name, "as the test wants it"))
        self.look()

    async def close(self) -> None:
        await self.factory.close_ledger(self.ledger.name)


async def check(history: History) -> None:
    assert [number for number, _ in history.answers] == list(range(history.sent)), "each once, in order"
    for request in history.requests:
        error = request.exception()
        assert error is None or isinstance(error, ManagedLedgerError), error
    assert history.ledger.state is AppendState.CLOSED
    confirmed = [run for _, result in history.answers for run in result.runs]
    assert confirmed == sorted(confirmed)
    numbers = [number for number, result in history.answers if result.error is None]

    history.world.fail_rate = 0
    reopened = await open_one(history.world, replace(CONFIG, managed_ledger_max_entries_per_ledger=1_000))
    stored = [int(payload.split(b".")[0]) for payload in await read_all(reopened)]
    assert [number for number in dict.fromkeys(stored) if number in numbers] == numbers
    assert len(set(history.ends)) <= 1
    told = [result for _, result in history.answers if isinstance(result.error, ManagedLedgerTerminated)]
    assert reopened.terminated is not None or not told
    if history.ends:
        assert reopened.terminated == history.ends[0] == reopened.last_confirmed


@pytest.mark.parametrize("block", range(rounds(10)))
async def test_every_group_is_answered_and_closing_returns(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        history = History(seed)
        try:
            await asyncio.wait_for(history.run(), 60)
            await check(history)
        except BaseException:
            print("seed", seed)
            raise


@pytest.mark.parametrize("turns", [0, 1])
async def test_a_close_whose_work_was_cancelled_ends_instead_of_turning_for_ever(turns: int) -> None:
    ledger = await open_one(World(1), CONFIG)
    await ledger.open_ledger()
    appender = ledger._appender
    closing = asyncio.create_task(appender.close())
    await asyncio.sleep(0)
    assert appender._settling is not None
    for _ in range(turns):
        await asyncio.sleep(0)
    appender._settling.cancel()
    await asyncio.wait([closing])
    assert closing.cancelled()
