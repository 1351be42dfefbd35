"""One random history: writers and recoverers fight over ledgers while machines and connections fail, then all heals.

The invariants of the published TLA+ model are asserted all along and at the end, under the names that they have there
(docs/LEDGERS.md, "Invariants"), and in the end every operation must have ended. The seed determines the whole history:
it is the same in any process.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from magnetar.storage.bookie import journal_format
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.ledger.fragment_rules import fragment_of
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.ledger.metadata_driver import LedgerMetadataDriver
from magnetar.storage.ledger.quorum_rules import write_set
from magnetar.storage.ledger.read_handle import ReadHandle
from magnetar.storage.repair.auto_recovery import AutoRecovery
from magnetar.storage.repair.autorecovery_config import AutoRecoveryConfig
from magnetar.testing.data_folder import DataFolder
from pulsar_proto.records.entry_digest import EntryCodec
from pulsar_proto.records.ledger_record import LedgerMetadata, LedgerState
from tests.sim.sim_cluster import SimCluster, SimLink
from tests.sim.sim_disk import PAGE_BYTES
from tests.sim.virtual_loop import run
from tests.storage.ledger.fake_bookie import LinkState
from tests.storage.ledger.scene import Writer

SIZES = [(1, 1, 1), (2, 2, 1), (2, 2, 2), (3, 3, 2), (3, 3, 2), (3, 3, 2), (3, 3, 3), (3, 2, 2), (4, 2, 1), (4, 3, 2)]
SPARE = 2
"""How many machines there are beyond the largest ensemble of a history."""
RECOVERERS = 3
LEDGERS_MAX = 3
END_SECONDS = 120.0
"""How long, in virtual time, the operations under way may take to end after everything was healed."""
STATES = list(LinkState)
Step = tuple[Any, ...]


class Violation(AssertionError):
    """Says which invariant does not hold."""


class Kept:
    """A ledger with its writer. It watches the ledger's metadata record and checks each change of it."""

    def __init__(self, number: int, writer: Writer, driver: LedgerMetadataDriver) -> None:
        self.number = number
        self.writer = writer
        self.ledger_id = writer.handle.ledger_id
        self.recoveries: dict[int, asyncio.Task[ReadHandle]] = {}
        self.closed: LedgerMetadata | None = None
        self.seen = -1
        """The highest entry that some reader was told to be confirmed."""
        self._driver = driver
        self._looks: list[asyncio.Task[None]] = []
        self.violations: list[str] = []
        driver.watch(self.ledger_id, self._changed)

    def _changed(self) -> None:
        self._looks.append(asyncio.create_task(self._look()))

    async def _look(self) -> None:
        metadata = (await self._driver.read(self.ledger_id)).metadata
        keys = [first for first, _ in metadata.ensembles]
        if keys[0] != 0 or keys != sorted(set(keys)):
            self.violations.append(f"OnlyValidFragments: ensemble keys {keys}")
        if self.closed is not None and metadata.state is not LedgerState.CLOSED:
            self.violations.append(f"a closed ledger is {metadata.state.name} again")
        elif self.closed is not None and end_of(metadata) != end_of(self.closed):
            self.violations.append(f"two closings disagree: {end_of(self.closed)}, then {end_of(metadata)}")
        elif metadata.state is LedgerState.CLOSED:
            self.closed = metadata


def end_of(metadata: LedgerMetadata) -> tuple[int, int]:
    return metadata.last_entry_id, metadata.length


class History:
    def __init__(self, rng: Random, folder: Path) -> None:
        self._rng = rng
        self.sizes = rng.choice(SIZES)
        self.cluster = SimCluster(self.sizes[0] + SPARE, rng, folder)
        self._names = list(self.cluster.machines)
        self._duels = rng.choice([0.0, 0.5, 1.0])
        self._clients: dict[str, BookKeeperCluster] = {}
        self._ledgers: list[Kept] = []
        self._operations: list[asyncio.Task[Any]] = []
        self._auto_recoveries: list[AutoRecovery] = []
        self.trace = hashlib.sha256()
        """A digest of everything that happened; equal seeds give equal digests."""

    def steps(self) -> list[Step]:
        """Draws 20 to 80 steps. Each history favours some kinds of steps, because a fault is found sooner when others
        do not hide it."""
        rng = self._rng

        def machine() -> str:
            return rng.choice(self._names)

        def client() -> str:
            return rng.choice(["w0", "w1", "w2", *(f"r{number}" for number in range(RECOVERERS))])

        kinds: dict[str, tuple[float, Callable[[], Step]]] = {
            "append": (1.5, lambda: (rng.random(), rng.randint(1, 5))),
            "wait": (1.0, lambda: (rng.choice([0.001, 0.003, 0.01, 0.01, 0.05]),)),
            "wait long": (0.3, lambda: (rng.choice([0.3, 1.0, 2.5]),)),
            "power": (1.0, lambda: (machine(), rng.random() < 0.5)),
            "start": (1.5, lambda: (machine(),)),
            "network": (0.7, lambda: (machine(), rng.choice(STATES))),
            "link": (1.0, lambda: (client(), machine(), rng.choice(STATES))),
            "lose metadata answers": (0.5, lambda: (client(), rng.random() < 0.5)),
            "recover": (1.0, lambda: (rng.random(), rng.randrange(RECOVERERS))),
            "interrupt recovery": (0.7, lambda: (rng.random(), rng.randrange(RECOVERERS))),
            "peek": (0.7, lambda: (rng.random(), rng.randrange(RECOVERERS))),
            "close writer": (0.2, lambda: (rng.random(),)),
            "kill writer": (0.3, lambda: (rng.random(),)),
            "new ledger": (0.3, lambda: ()),
        }
        weights = [
            most * rng.random() ** 3 + (0.5 if kind in ("append", "wait") else 0) for kind, (most, _) in kinds.items()
        ]
        steps: list[Step] = []
        if rng.random() < self._duels:
            # The duel comes first, while everything else is well: otherwise other faults would hide a bug that only a
            # rare combination of events shows.
            steps += [("append", *kinds["append"][1]()), ("wait", 0.05)]
            steps += self._contest(("recover", *kinds["recover"][1]()))
        for kind in rng.choices(list(kinds), weights, k=rng.randint(20, 80)):
            steps.append((kind, *kinds[kind][1]()))
            if kind == "recover" and rng.random() < self._duels:
                steps += self._contest(steps.pop())
        return steps

    def _contest(self, recover: Step) -> list[Step]:
        return self._rng.choice([self._duel, self._late_writer, self._half_written])(recover)

    def _duel(self, recover: Step) -> list[Step]:
        """Lets the writer go on while it is being fenced, over a bookie that the fence reaches late or that loses its
        power at that moment."""
        rng = self._rng
        _, where, client = recover
        cut = [("link", f"r{client}", name, LinkState.SILENT) for name in self._names if rng.random() < 0.3]
        steps: list[Step] = [*cut, ("append", where, 1), recover]
        for _ in range(rng.randint(2, 6)):
            steps.append(("append", where, rng.randint(1, 2)))
            steps.append(("wait", rng.choice([0.001, 0.003, 0.01, 0.02, 2.5])))
            if rng.random() < 0.4:
                name = rng.choice(self._names)
                steps += [("power", name, rng.random() < 0.5), ("start", name)]
            if cut and rng.random() < 0.3:
                steps.append(("link", f"r{client}", cut.pop()[2], LinkState.OK))
        return steps

    def _late_writer(self, recover: Step) -> list[Step]:
        """Lets the writer sleep through its ledger's recovery, after which the machines that were told of the recovery
        lose their power."""
        rng = self._rng
        steps: list[Step] = [recover, ("wait", rng.choice([0.02, 0.1, 0.5, 2.5]))]
        for name in self._names:
            if rng.random() < 0.8:
                steps += [("power", name, True), ("start", name)]
        return [*steps, ("wait", 0.05), ("append", recover[1], 2), ("wait", 0.3)]

    def _half_written(self, recover: Step) -> list[Step]:
        """An entry reached one bookie when the fence came. Its copy to another bookie is lost, and a third bookie,
        which the fence does not reach, gets it late (docs/LEDGERS.md, "Two counterexamples")."""
        rng = self._rng
        _, where, client = recover
        lost = rng.random()
        unfenced = (lost + rng.choice([0.34, 0.67])) % 1
        return [
            ("cut writer", where, lost, LinkState.SILENT, 0.0),
            ("cut writer", where, unfenced, LinkState.OK, rng.uniform(0.1, 0.5)),
            ("cut recoverer", where, unfenced, LinkState.SILENT, client),
            ("append", where, 1),
            recover,
            ("wait", rng.uniform(0.01, 0.06)),
            ("cut recoverer", where, unfenced, LinkState.OK, client),
            ("wait", rng.uniform(0.1, 0.5)),
        ]

    async def tell(self) -> None:
        await self.cluster.start()
        for number in range(LEDGERS_MAX):
            self._clients[f"w{number}"] = await self.cluster.client(f"w{number}")
        for number in range(RECOVERERS):
            self._clients[f"r{number}"] = await self.cluster.client(f"r{number}")
        self._driver = LedgerMetadataDriver(self.cluster.store, self._no_id)
        if self._rng.random() < 0.3:
            await self._start_auto_recovery()
        await self._new_ledger()
        for step in self.steps():
            self._note(step)
            await self._step(step)
            self._check_so_far()
        await asyncio.gather(*self.cluster.heal())
        await self._all_ended()
        await self._check_all()
        for recovery in self._auto_recoveries:
            await recovery.stop()

    async def close(self) -> None:
        await self.cluster.close()

    # --- steps -------------------------------------------------------------------------------------------------------

    async def _step(self, step: Step) -> None:
        match step:
            case "append", where, count:
                kept = self._ledger(where)
                first = kept.writer.handle.last_add_pushed + 1
                kept.writer.append(*(content(kept.ledger_id, first + i) for i in range(count)))
            case "wait" | "wait long", seconds:
                await asyncio.sleep(seconds)
            case "power", machine, silently:
                await self.cluster.machines[machine].lose_power(silently=silently)
            case "start", machine:
                self.cluster.machines[machine].start()
            case "network", machine, state:
                self.cluster.machines[machine].network = state
            case "link", client, machine, state:
                self.cluster.link(client, machine).state = state
            case "lose metadata answers", client, lose:
                self.cluster.ways_to_store[client].lose_answers = lose
            case ("new ledger",):
                if len(self._ledgers) < LEDGERS_MAX:
                    self._start(self._new_ledger())
            case "cut writer", where, member, state, lag:
                link = self._link_to_member(self._ledger(where), f"w{self._ledger(where).number}", member)
                link.state, link.lag = state, lag
            case "cut recoverer", where, member, state, client:
                self._link_to_member(self._ledger(where), f"r{client}", member).state = state
            case kind, where, *rest:
                self._ledger_step(kind, self._ledger(where), *rest)

    def _ledger_step(self, kind: str, kept: Kept, client: int = 0) -> None:
        bookkeeper = self._clients[f"r{client}"].bookkeeper
        if kind == "close writer":
            self._start(kept.writer.handle.close())
        elif kind == "kill writer":
            self._start(kept.writer.handle.abandon())
        elif kind == "peek":
            self._start(self._peek(bookkeeper.open_ledger_no_recovery(kept.ledger_id)))
        elif kind == "interrupt recovery" and client in kept.recoveries:
            kept.recoveries.pop(client).cancel()
        elif kind == "recover" and client not in kept.recoveries:
            kept.recoveries[client] = asyncio.create_task(bookkeeper.open_ledger(kept.ledger_id))

    async def _peek(self, opening: Any) -> None:
        """Opens the ledger as a reader does. What a reader is told to be confirmed must never be lost later."""
        handle = await opening
        kept = next(kept for kept in self._ledgers if kept.ledger_id == handle.ledger_id)
        seen = handle.last_add_confirmed
        if kept.closed is not None and seen > kept.closed.last_entry_id:
            kept.violations.append(f"a reader saw entry {seen}, the ledger ends at {kept.closed.last_entry_id}")
        self._note(("seen", kept.number, seen))
        kept.seen = max(seen, kept.seen)

    def _link_to_member(self, kept: Kept, client: str, member: float) -> SimLink:
        members = kept.writer.handle.metadata.ensembles[-1][1]
        return self.cluster.link(client, members[int(member * len(members))])

    def _ledger(self, where: float) -> Kept:
        return self._ledgers[int(where * len(self._ledgers))]

    async def _new_ledger(self) -> None:
        number = len(self._ledgers)
        ensemble, write, ack = self.sizes
        bookkeeper = self._clients[f"w{number}"].bookkeeper
        handle = await bookkeeper.create_ledger(ensemble_size=ensemble, write_quorum=write, ack_quorum=ack)
        self._ledgers.append(Kept(number, Writer(handle), self._driver))

    async def _start_auto_recovery(self) -> None:
        config = AutoRecoveryConfig(auditor_periodic_check_interval=0, lost_bookie_recovery_delay=1)
        for number in range(2):
            client = await self.cluster.client(f"a{number}")
            recovery = AutoRecovery(client, config, f"a{number}", now_ms=self.cluster.now_ms)
            await recovery.start()
            self._auto_recoveries.append(recovery)

    def _start(self, operation: Any) -> None:
        self._operations.append(asyncio.create_task(operation))

    def _note(self, what: Step) -> None:
        now = asyncio.get_running_loop().time()
        state = [(kept.writer.handle.last_add_confirmed, len(kept.writer.failed)) for kept in self._ledgers]
        self.trace.update(f"{now:.9f} {what} {state}\n".encode())

    # --- claims ------------------------------------------------------------------------------------------------------

    def _check_so_far(self) -> None:
        violations = [text for kept in self._ledgers for text in kept.violations] + self.cluster.failures
        if violations:
            raise Violation("; ".join(violations))

    async def _all_ended(self) -> None:
        """Checks liveness: once the faults have stopped, every operation ends, well or with a LedgerError."""
        deadline = asyncio.get_running_loop().time() + END_SECONDS
        while True:
            recoveries = [task for kept in self._ledgers for task in kept.recoveries.values()]
            tasks = [*self._operations, *recoveries]
            if all(task.done() for task in tasks) and all(kept.writer.answered for kept in self._ledgers):
                break
            if asyncio.get_running_loop().time() > deadline:
                raise Violation("something hangs although all is well again")
            await asyncio.sleep(0.1)
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, LedgerError | asyncio.CancelledError):
                raise outcome

    async def _check_all(self) -> None:
        reader = await self.cluster.client("last")
        for kept in self._ledgers:
            try:
                handle = await reader.bookkeeper.open_ledger(kept.ledger_id)
            except LedgerError as error:
                raise Violation(f"EventuallyClosed: ledger {kept.number}: {error!r}") from error
            await self._check_ledger(kept, handle)
        await asyncio.sleep(0.1)
        self._check_so_far()
        self._note(("end",))

    async def _check_ledger(self, kept: Kept, handle: ReadHandle) -> None:
        metadata = (await self._driver.read(kept.ledger_id)).metadata
        last = metadata.last_entry_id
        writer = kept.writer
        if max(writer.acked, default=-1) > last or writer.handle.last_add_confirmed > last:
            raise Violation(f"NoDivergence: entry {max(writer.acked)} was acknowledged, the ledger ends at {last}")
        if kept.seen > last:
            raise Violation(f"NoDirtyReads: a reader saw entry {kept.seen}, the ledger ends at {last}")
        assert metadata.digest_type is not None
        codec = EntryCodec(kept.ledger_id, metadata.digest_type, metadata.password or b"")
        for entry_id in range(last + 1):
            await self._check_entry(kept, metadata, codec, entry_id)
        position = 0
        while position <= last:
            for entry in await self._read(handle, position):
                if entry[handle.payload_offset :] != content(kept.ledger_id, position):
                    raise Violation(f"NoOutOfOrderEntries: entry {position} is another's")
                position += 1

    async def _read(self, handle: ReadHandle, position: int) -> list[bytes]:
        try:
            return await handle.read(position, handle.last_add_confirmed)
        except LedgerError as error:
            raise Violation(f"AllAckedEntriesAreReadable: entry {position}: {error!r}") from error

    async def _check_entry(self, kept: Kept, metadata: LedgerMetadata, codec: EntryCodec, entry_id: int) -> None:
        copies = await self.cluster.copies(kept.ledger_id, entry_id)
        fragment = fragment_of(metadata, entry_id)
        holders = {fragment.members[i] for i in write_set(entry_id, metadata.ensemble_size, metadata.write_quorum)}
        good = holders & copies.keys()
        if len(good) < metadata.ack_quorum:
            raise Violation(f"AllCommittedEntriesReachAckQuorum: entry {entry_id} is on {sorted(good)} only")
        for name, entry in copies.items():
            codec.verify(entry, entry_id)
            if entry[codec.payload_offset :] != content(kept.ledger_id, entry_id):
                raise Violation(f"NoOutOfOrderEntries: entry {entry_id} on {name} is another's")

    async def _no_id(self) -> int:
        raise AssertionError("this driver creates nothing")


def content(ledger_id: int, entry_id: int) -> bytes:
    return b"entry %d of ledger %d" % (entry_id, ledger_id)


async def _told(history: History) -> str:
    try:
        await history.tell()
        return history.trace.hexdigest()
    finally:
        await history.close()


def tell(seed: int) -> str:
    """Runs the history of a seed and returns its trace. Raises Violation, or whatever error our code should not have
    raised."""
    rng = Random(seed)
    logging.disable(logging.CRITICAL)
    folder = DataFolder()
    try:
        with patch.object(journal_format, "PAGE_SIZE", PAGE_BYTES):
            return run(rng, _begun(rng, folder.path))
    finally:
        folder.remove()
        logging.disable(logging.NOTSET)


async def _begun(rng: Random, folder: Path) -> str:
    return await _told(History(rng, folder))
