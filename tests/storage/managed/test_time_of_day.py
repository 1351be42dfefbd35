"""Somebody sets the time of day an hour back or forward. Whatever is measured by intervals does not change."""

from dataclasses import replace

import pytest

from magnetar.storage.managed.cursor import QUIET_FLUSH_SECONDS
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from pulsar_proto.ids import EARLIEST
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import (
    CONFIG,
    DELETE_AT_ONCE,
    NAME,
    RATE_LIMITED,
    Clock,
    append,
    factory_of,
    fill,
    quiet,
)

HOUR_S = 3_600
jumps = pytest.mark.parametrize("jump_s", [-HOUR_S, HOUR_S, -1_000 * HOUR_S], ids=["back", "forward", "far back"])


class Scene:
    """One managed ledger, and a clock that is set after it was opened."""

    def __init__(self, config: ManagedLedgerConfig, jump_s: int) -> None:
        self.world, self.clock = World(), Clock()
        self.factory = factory_of(self.world.session(), config, self.clock)
        self.jump_s = jump_s

    async def after(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.factory.tick()
        await quiet(self.world)


@jumps
async def test_cursors_are_stored_as_soon_as_ever(jump_s: int) -> None:
    scene = Scene(RATE_LIMITED, jump_s)
    ledger = await scene.factory.open(NAME)
    await append(ledger, *[b"x"] * 10)
    cursor = await ledger.open_cursor("s", EARLIEST)
    cursor.ack([(1, 0, None)])
    await quiet(scene.world)
    scene.clock.set(jump_s)
    cursor.ack([(1, 1, None)])
    await scene.after(QUIET_FLUSH_SECONDS - 0.1)
    assert cursor.is_dirty, "no sooner, either"
    await scene.after(0.1)
    assert not cursor.is_dirty
    cursor.ack([(1, 2, None)])
    scene.clock.set(jump_s)
    await scene.after(QUIET_FLUSH_SECONDS)
    assert not cursor.is_dirty


@jumps
async def test_maintenance_goes_on_at_its_interval_and_ledgers_are_trimmed(jump_s: int) -> None:
    never_full = replace(DELETE_AT_ONCE, managed_ledger_max_entries_per_ledger=1_000)
    scene = Scene(never_full, jump_s)
    ledger = await scene.factory.open(NAME)
    cursor = await ledger.open_cursor("s", EARLIEST)
    await fill(ledger, 3)
    cursor.ack_cumulative(*ledger.last_confirmed)
    scene.clock.set(jump_s)
    await scene.after(119)
    assert ledger.number_of_entries == 3
    await scene.after(1)
    assert ledger.stats().current_ledger_id == -1, "consumed and idle for more than a minute"


@jumps
async def test_ledgers_are_rolled_by_their_age(jump_s: int) -> None:
    scene = Scene(CONFIG, jump_s)
    ledger = await scene.factory.open(NAME)
    await fill(ledger, 1)
    scene.clock.set(jump_s)
    await scene.after(239 * 60)
    assert ledger.stats().current_ledger_id == 1
    await scene.after(120)
    assert ledger.stats().current_ledger_id == -1


@jumps
async def test_the_tail_cache_ages(jump_s: int) -> None:
    scene = Scene(CONFIG, jump_s)
    ledger = await scene.factory.open(NAME)
    ledger.activate(await ledger.open_cursor("s", EARLIEST))
    await fill(ledger, 1)
    scene.clock.set(jump_s)
    await scene.after(0.5)
    assert ledger.cached(ledger.first_position, 1, 1_000) is not None
    await scene.after(1)
    assert ledger.cached(ledger.first_position, 1, 1_000) is None
