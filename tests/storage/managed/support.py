"""Helpers of these tests: a clock, short ways to append, read and settle, and what is stored of a cursor."""

import asyncio
from dataclasses import replace

from magnetar.metadata.paths import cursor_path
from magnetar.storage.managed.append_queue import AddResult
from magnetar.storage.managed.factory import ManagedLedgerFactory
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from pulsar_proto.ids import EARLIEST, Position
from pulsar_proto.pb import managed_ledger_pb2 as pb
from tests.storage.managed.fake_bookkeeper import FakeBookKeeper, World

NAME = "public/default/persistent/t"
START_MS = 1_700_000_000_000

CONFIG = ManagedLedgerConfig(
    managed_ledger_max_entries_per_ledger=5,
    managed_ledger_min_ledger_rollover_time_minutes=0,
    managed_ledger_default_mark_delete_rate_limit=0,
    retention_time_minutes=-1,
    retention_size_mb=-1,
)
"""Small ledgers, nothing is deleted, and every acknowledgement is stored at once."""

DELETE_AT_ONCE = replace(CONFIG, retention_time_minutes=0, retention_size_mb=0)
LARGE = replace(CONFIG, managed_ledger_max_entries_per_ledger=1_000)
RATE_LIMITED = replace(LARGE, managed_ledger_default_mark_delete_rate_limit=0.1)


class Clock:
    """Both clocks of a managed ledger, moved by hand."""

    def __init__(self) -> None:
        self.now_ms = START_MS
        self.passed_ms = 0

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_s(self) -> float:
        return self.passed_ms / 1000

    def advance(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)
        self.passed_ms += int(seconds * 1000)

    def set(self, seconds: float) -> None:
        """Sets the time of day forward or back, as an operator may."""
        self.now_ms += int(seconds * 1000)


def factory_of(
    client: FakeBookKeeper, config: ManagedLedgerConfig = CONFIG, clock: Clock | None = None
) -> ManagedLedgerFactory:
    clock = clock or Clock()
    return ManagedLedgerFactory(
        client.metadata(),
        client.as_client(),
        config,
        clock_ms=clock.wall_ms,
        monotonic_s=clock.monotonic_s,
        tick_seconds=None,
    )


async def open_one(world: World, config: ManagedLedgerConfig = CONFIG, clock: Clock | None = None) -> ManagedLedger:
    """Opens the managed ledger NAME in a process of its own."""
    return await factory_of(world.session(), config, clock).open(NAME)


async def append(ledger: ManagedLedger, *payloads: bytes) -> AddResult:
    """Appends one group and returns what became of it."""
    done: asyncio.Future[AddResult] = asyncio.get_running_loop().create_future()
    ledger.add_entries(list(payloads), done.set_result)
    return await done


async def fill(ledger: ManagedLedger, count: int, start: int = 0) -> None:
    """Appends `count` groups of one entry each, whose payloads are the numbers from `start` on."""
    for number in range(start, start + count):
        result = await append(ledger, b"%d" % number)
        assert result.error is None


async def with_entries(
    world: World, count: int, config: ManagedLedgerConfig = LARGE, clock: Clock | None = None
) -> ManagedLedger:
    """Opens the managed ledger with one group of `count` entries: b"0", b"1", ..."""
    ledger = await open_one(world, config, clock)
    await append(ledger, *[b"%d" % number for number in range(count)])
    return ledger


async def read_all(ledger: ManagedLedger, start: Position = EARLIEST) -> list[bytes]:
    """Returns every payload from `start` on."""
    payloads: list[bytes] = []
    position = start
    while (run := await ledger.read(position, 100, 1_000_000)).entries:
        payloads += [entry[run.payload_offset :] for entry in run.entries]
        position = Position(run.ledger_id, run.first_entry_id + len(run.entries))
    return payloads


async def quiet(world: World) -> None:
    """Lets the loop turn until no durable change happens any more."""
    idle = 0
    taken = world.steps.taken
    while idle < 100:
        await asyncio.sleep(0)
        idle = idle + 1 if world.steps.taken == taken else 0
        taken = world.steps.taken


async def node(world: World, name: str = "s") -> pb.ManagedCursorInfo:
    """Returns the cursor's record in the metadata store."""
    record = await world.store.get(cursor_path(NAME, name))
    assert record is not None
    return pb.ManagedCursorInfo.FromString(record.value)


def cursor_ledger(world: World, name: str = "s") -> list[pb.PositionInfo]:
    """Returns the entries of the newest cursor ledger."""
    *_, ledger = (
        ledger for ledger in world.ledgers.values() if ledger.custom_metadata.get("pulsar/cursor") == name.encode()
    )
    return [pb.PositionInfo.FromString(entry[ledger.codec.payload_offset :]) for entry in ledger.entries]
