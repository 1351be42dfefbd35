"""A bookie that answers nothing at all is cut off long before the deadline of an add; a slow one is waited for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from magnetar.storage.bookie.wire_server import BookieWireServer
from magnetar.storage.ledger.silence_rules import DEAD_TICKS, GONE_TICKS, PROBE_TICKS, SilenceRules, Step
from magnetar.storage.ledger.wire_channel import WireChannel
from magnetar.storage.ledger.wire_config import WireConfig
from pulsar_proto.wire.bookie_wire import BookieRc
from tests.storage.bookie.wire_support import MemoryBookie
from tests.storage.ledger.channel_scene import BOTH, LOST, V2, Adds
from tests.storage.ledger.freezable_port import FreezablePort, freezable
from tests.waiting import until

NEVER = 3600.0
"""A deadline that no test waits for."""


def ticks(rules: SilenceRules, count: int, *, waiting: bool = True, registered: bool = True) -> list[Step]:
    return [rules.tick(waiting=waiting, registered=registered) for _ in range(count)]


class TestRules:
    def test_a_silent_bookie_is_probed_and_then_cut(self) -> None:
        wanted = [Step.NONE] * (PROBE_TICKS - 1) + [Step.PROBE] * (DEAD_TICKS - PROBE_TICKS) + [Step.CUT]
        assert ticks(SilenceRules(), DEAD_TICKS) == wanted

    def test_without_a_registration_it_is_cut_sooner_but_not_before_a_probe_had_its_time(self) -> None:
        assert GONE_TICKS > PROBE_TICKS
        assert ticks(SilenceRules(), GONE_TICKS, registered=False)[-2:] == [Step.PROBE, Step.CUT]

    def test_a_registration_that_goes_in_the_midst_of_a_silence_counts_at_once(self) -> None:
        rules = SilenceRules()
        ticks(rules, DEAD_TICKS - 1)
        assert ticks(rules, 1, registered=False) == [Step.CUT]

    def test_whoever_is_heard_or_owes_nothing_is_not_cut(self) -> None:
        for recover in (SilenceRules.heard, lambda rules: rules.tick(waiting=False, registered=False)):
            rules = SilenceRules()
            ticks(rules, DEAD_TICKS - 1)
            recover(rules)
            assert Step.CUT not in ticks(rules, DEAD_TICKS - 1)

    def test_a_dead_bookie_stays_dead_until_it_is_heard_and_is_probed_meanwhile(self) -> None:
        rules = SilenceRules()
        ticks(rules, DEAD_TICKS)
        assert set(ticks(rules, 5, waiting=False)) == {Step.PROBE}
        assert rules.dead
        rules.heard()
        assert not rules.dead


class Scene:
    """A channel to a bookie in memory behind a port that may freeze. The timer of its watch never fires: the test
    ticks."""

    def __init__(self, bookie: MemoryBookie, port: FreezablePort, config: WireConfig) -> None:
        self.bookie = bookie
        self.port = port
        self.registered = True
        self.probes = 0
        self.channel = WireChannel("b1", port.address, config, lambda: self.registered)
        self.adds = Adds(self.channel)

    def disk_space(self) -> tuple[int, int]:
        self.probes += 1
        return 2, 1

    def tick(self, count: int) -> None:
        for _ in range(count):
            self.channel.watch.tick()

    @property
    def limit(self) -> int:
        return DEAD_TICKS if self.registered else GONE_TICKS


@asynccontextmanager
async def scene_with(config: WireConfig) -> AsyncIterator[Scene]:
    config = replace(config, silence_check_sec=NEVER, add_entry_timeout_sec=NEVER, read_entry_timeout_sec=NEVER)
    bookie = MemoryBookie()
    scenes: list[Scene] = []
    server = BookieWireServer(bookie, disk_space=lambda: scenes[0].disk_space())
    async with freezable(await server.start("127.0.0.1", 0)) as port:
        scenes.append(Scene(bookie, port, config))
        try:
            yield scenes[0]
        finally:
            await scenes[0].channel.close()
            await server.close()


@BOTH
@pytest.mark.parametrize("registered", [True, False], ids=["registered", "gone"])
async def test_a_frozen_bookie_fails_what_waits_for_it_and_further_requests_at_once(
    config: WireConfig, registered: bool
) -> None:
    async with scene_with(config) as scene:
        scene.registered = registered
        scene.adds.add(5, range(1))
        await scene.adds.told(1)
        scene.tick(1)  # something was heard
        scene.port.freeze()
        scene.adds.add(5, range(1, 3))
        reading = asyncio.create_task(scene.channel.read_entry(5, 0))
        await asyncio.sleep(0)
        scene.tick(scene.limit - 1)
        assert len(scene.adds.calls) == 1
        scene.tick(1)
        assert await scene.adds.told(2) == [([0], BookieRc.EOK), ([1, 2], LOST)]
        with pytest.raises(ConnectionError):
            await reading
        scene.adds.add(5, range(1, 2))
        assert (await scene.adds.told(3))[2] == ([1], LOST), "a dead bookie is not waited for a second time"
        with pytest.raises(ConnectionError, match="answers nothing"):
            await scene.channel.read_entry(5, 0)


@BOTH
async def test_a_thawed_bookie_is_used_again_as_soon_as_it_answers_a_probe(config: WireConfig) -> None:
    async with scene_with(config) as scene:
        scene.adds.add(5, range(1))
        await scene.adds.told(1)
        scene.tick(1)
        scene.port.freeze()
        scene.adds.add(5, range(1, 2))
        scene.tick(DEAD_TICKS)
        await scene.adds.told(2)
        scene.adds.add(5, range(1, 2))
        scene.tick(1)  # probes: the port takes the connection, which alone proves nothing
        await until(lambda: scene.port.accepted > 1)
        scene.adds.add(5, range(1, 2))
        assert (await scene.adds.told(4))[2:] == [([1], LOST)] * 2
        scene.port.thaw()
        scene.tick(1)
        await until(lambda: scene.probes)
        async with asyncio.timeout(60):
            while scene.adds.calls[-1] != ([2], BookieRc.EOK):
                scene.adds.add(5, range(2, 3))
                await scene.adds.told(len(scene.adds.calls) + 1)
                scene.tick(1)


@pytest.mark.parametrize("registered", [True, False], ids=["registered", "gone"])
async def test_a_bookie_whose_disk_stands_still_is_waited_for(registered: bool) -> None:
    """Such a bookie answers no add, but it answers the probe, even when it has lost its own link to ZooKeeper."""
    async with scene_with(V2) as scene:
        scene.registered = registered
        scene.bookie.hold()
        scene.adds.add(5, range(3))
        await until(lambda: scene.bookie.groups)
        for count in range(1, DEAD_TICKS):
            scene.tick(PROBE_TICKS)
            await until(lambda: scene.probes == count and not scene.channel.watch.probes)  # noqa: B023
        assert scene.adds.calls == []
        scene.bookie.release()
        assert await scene.adds.told(1) == [([0, 1, 2], BookieRc.EOK)]


async def test_a_bookie_that_owes_nothing_is_neither_probed_nor_watched() -> None:
    async with scene_with(V2) as scene:
        scene.adds.add(5, range(1))
        await scene.adds.told(1)
        scene.tick(2)
        assert scene.channel.watch.is_idle
        assert scene.probes == 0
