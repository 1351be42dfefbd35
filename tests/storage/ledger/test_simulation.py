"""Random histories in virtual time: anything fails for a while, then everything heals and the ledger must be whole.

Safety is checked as the published model states it (`scene.check_closed`), liveness by the end: every append was
answered, and a last recovery succeeds. A failing example prints its seed and its steps.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.ledger.read_handle import ReadHandle
from pulsar_proto.records.ledger_record import LedgerMetadata
from pulsar_proto.wire.bookie_wire import BookieRc
from tests.rounds import rounds
from tests.storage.ledger.fake_bookie import LinkState
from tests.storage.ledger.scene import Scene, Writer, check_closed
from tests.storage.ledger.virtual_loop import run

SIZES = [(1, 1, 1), (2, 2, 1), (2, 2, 2), (3, 3, 2), (3, 3, 3), (3, 2, 2), (4, 2, 1), (5, 3, 2)]
SPARE = 2
"""How many bookies there are beyond the ensemble."""
STATES = list(LinkState)
UNKNOWN_STATE = BookieRc.EUNKNOWNLEDGERSTATE
Step = tuple[Any, ...]


def random_steps(rng: Random, bookies: int) -> list[Step]:
    """Draws 5 to 60 steps. Each history favours some kinds of them: a fault is found sooner where others do not hide
    it."""

    def bookie() -> int:
        return rng.randrange(bookies)

    def client() -> str:
        return rng.choice(["w", "r0", "r1", "r2"])

    kinds: dict[str, tuple[float, Callable[[], Step]]] = {
        "append": (1.0, lambda: (rng.randint(1, 5),)),
        "wait": (1.0, lambda: (rng.choice([0.001, 0.003, 0.01, 0.01, 0.05]),)),
        "wait long": (0.3, lambda: (rng.choice([0.3, 2.0, 6.0]),)),
        "network": (1.0, lambda: (bookie(), rng.choice(STATES))),
        "link": (1.0, lambda: (client(), bookie(), rng.choice(STATES))),
        "refuse adds": (1.0, lambda: (bookie(), rng.choice([BookieRc.EIO, BookieRc.EREADONLY, BookieRc.EOK]))),
        "refuse reads": (1.0, lambda: (bookie(), rng.choice([BookieRc.EIO, UNKNOWN_STATE, BookieRc.EOK]))),
        "lose metadata answers": (1.0, lambda: (client(), rng.random() < 0.5)),
        "recover": (1.0, lambda: (rng.randrange(3),)),
        "interrupt recovery": (1.0, lambda: (rng.randrange(3),)),
        "peek": (1.0, lambda: (rng.randrange(3),)),
        "close writer": (0.1, lambda: ()),
        "kill writer": (0.3, lambda: ()),
    }
    weights = [
        most * rng.random() ** 3 + (0.5 if kind in ("append", "wait") else 0) for kind, (most, _) in kinds.items()
    ]
    chosen = rng.choices(list(kinds), weights, k=rng.randint(5, 60))
    return [(kind, *kinds[kind][1]()) for kind in chosen]


class Warnings(logging.Handler):
    """Notes when recovery says that it closed a ledger whose last entry, in an earlier ensemble, no bookie gave it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.heard = False

    def emit(self, record: logging.LogRecord) -> None:
        self.heard |= "which may be wrong" in record.getMessage()


@dataclass
class History:
    scene: Scene
    writing: BookKeeper
    writer: Writer
    recoverers: list[BookKeeper]
    warnings: Warnings
    recoveries: dict[int, asyncio.Task[ReadHandle]] = field(default_factory=dict)
    peeks: list[asyncio.Task[ReadHandle]] = field(default_factory=list)
    closes: list[asyncio.Task[None]] = field(default_factory=list)
    closed_as: list[LedgerMetadata] = field(default_factory=list)

    async def step(self, step: Step) -> None:
        kind, *rest = step
        bookies = self.scene.cluster.bookies
        match kind, *rest:
            case "append", count:
                first = self.writer.handle.last_add_pushed + 1
                self.writer.append(*(b"entry %d" % (first + i) for i in range(count)))
            case "wait" | "wait long", seconds:
                await asyncio.sleep(seconds)
            case "network", bookie, state:
                bookies[self.name(bookie)].network = state
            case "link", client, bookie, state:
                self.scene.cluster.link(client, self.name(bookie)).state = state
            case "refuse adds", bookie, rc:
                bookies[self.name(bookie)].rc_of_add = rc
            case "refuse reads", bookie, rc:
                bookies[self.name(bookie)].rc_of_read = rc
            case "lose metadata answers", client, lose:
                self.scene.ways_to_store[client].lose_answers = lose
            case "close writer", *_:
                self.closes.append(asyncio.create_task(self.writer.handle.close()))
            case "kill writer", *_:
                await self.writing.close()
            case _:
                self.recovery_step(kind, rest[0])

    def recovery_step(self, kind: str, client: int) -> None:
        ledger_id = self.writer.handle.ledger_id
        if kind == "peek":
            peek = self.recoverers[client].open_ledger(ledger_id, recover=False)
            self.peeks.append(asyncio.create_task(peek))
        elif kind == "interrupt recovery" and client in self.recoveries:
            self.recoveries.pop(client).cancel()
        elif kind == "recover" and client not in self.recoveries:
            self.recoveries[client] = asyncio.create_task(self.recover(client))

    async def recover(self, client: int) -> ReadHandle:
        handle = await self.recoverers[client].open_ledger(self.writer.handle.ledger_id)
        self.closed_as.append(handle.metadata)
        return handle

    def name(self, index: int) -> str:
        names = self.scene.cluster.names()
        return names[index % len(names)]

    def heal(self) -> None:
        for name, bookie in self.scene.cluster.bookies.items():
            bookie.network = LinkState.OK
            bookie.rc_of_add = bookie.rc_of_read = BookieRc.EOK
            for client in self.scene.ways_to_store:
                self.scene.cluster.link(client, name).state = LinkState.OK
        for way in self.scene.ways_to_store.values():
            way.lose_answers = False

    async def ended(self) -> None:
        """Waits until every operation under way has ended, well or with a LedgerError."""
        for _ in range(600):
            tasks = [*self.recoveries.values(), *self.peeks, *self.closes]
            if self.writer.answered and all(task.done() for task in tasks):
                break
            await asyncio.sleep(0.1)
        else:
            raise AssertionError("something hangs although all is well again")
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert not isinstance(outcome, BaseException) or isinstance(outcome, LedgerError), outcome

    async def check(self) -> None:
        ledger_id = self.writer.handle.ledger_id
        reading = await self.scene.client("last").open_ledger(ledger_id)
        metadata = await check_closed(self.scene, ledger_id, [self.writer], length_is_known=not self.warnings.heard)
        assert all(closed == metadata for closed in self.closed_as), "a closed ledger changed"
        for peek in self.peeks:
            if peek.exception() is None:
                assert peek.result().last_add_confirmed <= metadata.last_entry_id, "a reader saw more than there is"
        position = 0
        while position <= metadata.last_entry_id:
            for entry in await reading.read(position, metadata.last_entry_id):
                assert entry[reading.payload_offset :] == b"entry %d" % position
                position += 1


async def tell(rng: Random) -> None:
    sizes = rng.choice(SIZES)
    steps = random_steps(rng, sizes[0] + SPARE)
    note(f"E, Wq, Aq: {sizes}; " + "; ".join(" ".join(map(str, step)) for step in steps))
    scene = Scene(sizes[0] + SPARE, seed=rng.getrandbits(32), delay_max=0.01, answers_in_parts=rng.random() < 0.3)
    writing = scene.client("w")
    handle = await writing.create_ledger(ensemble_size=sizes[0], write_quorum=sizes[1], ack_quorum=sizes[2])
    history = History(scene, writing, Writer(handle), [scene.client(f"r{i}") for i in range(3)], Warnings())
    recovery_log = logging.getLogger("magnetar.storage.ledger.recoverer")
    recovery_log.addHandler(history.warnings)
    try:
        for step in steps:
            await history.step(step)
        history.heal()
        await history.ended()
        await history.check()
    finally:
        recovery_log.removeHandler(history.warnings)


@settings(max_examples=rounds(150), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_history_loses_an_acknowledged_entry(seed: int) -> None:
    run(tell(Random(seed)))
