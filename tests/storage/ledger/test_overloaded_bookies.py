"""Overloaded bookies: their clients wait and ask again, and take none of them for dead before the deadline."""

import asyncio

import pytest

from magnetar.storage.ledger.ledger_errors import BookieOverloaded, BookieTimeout, LedgerError, NotEnoughBookies
from magnetar.storage.ledger.overload_rules import RETRY_SECONDS_MAX, is_overload, retry_seconds
from magnetar.storage.ledger.read_rules import demotes
from pulsar_proto.wire.bookie_wire import BookieRc
from tests.storage.ledger.scene import Scene, answered, check_closed, members, new_ledger
from tests.storage.ledger.virtual_loop import run
from tests.waiting import until

BUSY = BookieRc.ETOOMANYREQUESTS


def test_codes_of_both_directions_are_overload_and_no_others() -> None:
    assert is_overload(int(BUSY))
    assert is_overload(BookieOverloaded.code)
    assert not any(is_overload(int(rc)) for rc in BookieRc if rc is not BUSY)
    assert not is_overload(BookieTimeout.code)
    assert not demotes(BookieOverloaded("busy"))


def test_the_pauses_grow_and_are_bounded() -> None:
    pauses = [retry_seconds(refusals) for refusals in range(1, 2000)]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[1], pauses[-1]) == (0.01, 0.02, RETRY_SECONDS_MAX)


@pytest.mark.parametrize("in_parts", [False, True])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 3, 2), (3, 2, 2)])
def test_a_writer_waits_for_an_overloaded_bookie_and_keeps_it(sizes: tuple[int, int, int], in_parts: bool) -> None:
    async def story() -> None:
        scene = Scene(4, seed=3, delay_max=0.05, answers_in_parts=in_parts)
        handle, writer = await new_ledger(scene.client("w"), sizes)
        before = members(handle)
        writer.append(b"a", b"b", b"c")
        await answered(writer)
        for name in before:
            scene.cluster.bookies[name].rc_of_add = BUSY
        for number in range(20):
            writer.append(b"d%d" % number, b"e%d" % number)
        await asyncio.sleep(2)
        assert writer.acked == [0, 1, 2]
        for name in before:
            scene.cluster.bookies[name].rc_of_add = BookieRc.EOK
        await answered(writer)
        assert writer.acked == list(range(43))
        assert (members(handle), len(handle.metadata.ensembles)) == (before, 1)
        await handle.close()
        await check_closed(scene, handle.ledger_id, [writer])

    run(story())


def test_an_overload_that_outlasts_the_deadline_counts_as_silence() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        scene = Scene(2)
        handle, writer = await new_ledger(scene.client("w"), (1, 1, 1))
        (busy,) = members(handle)
        scene.cluster.bookies[busy].rc_of_add = BUSY
        began = loop.time()
        writer.append(b"a")
        await answered(writer)
        assert writer.acked == [0]
        assert loop.time() - began >= 5
        assert members(handle) != [busy]
        scene.writable = []
        scene.cluster.bookies[members(handle)[0]].rc_of_add = BUSY
        writer.append(b"b")
        await answered(writer)
        assert [type(error) for _, error in writer.failed] == [NotEnoughBookies]

    run(story())


def test_what_a_replaced_bookie_did_not_take_is_not_sent_to_it_again() -> None:
    async def story() -> None:
        scene = Scene(2)
        handle, writer = await new_ledger(scene.client("w"), (1, 1, 1))
        (first,) = members(handle)
        bookie = scene.cluster.bookies[first]
        bookie.rc_of_add = BUSY
        writer.append(b"a")
        await asyncio.sleep(0.3)
        bookie.rc_of_add = BookieRc.EIO
        await answered(writer)
        assert members(handle) != [first]
        bookie.rc_of_add = BookieRc.EOK
        await asyncio.sleep(2)
        assert handle.ledger_id not in bookie.ledgers

    run(story())


def test_recovery_waits_for_an_overloaded_bookie() -> None:
    async def story() -> None:
        scene = Scene(1)
        handle, writer = await new_ledger(scene.client("w"), (1, 1, 1))
        for number in range(10):
            writer.append(b"%d" % number)
        await answered(writer)
        (bookie,) = scene.cluster.bookies.values()
        bookie.rc_of_read = bookie.rc_of_add = BUSY
        opening = asyncio.create_task(scene.client("r").open_ledger(handle.ledger_id))
        await asyncio.sleep(1)
        assert not opening.done()
        bookie.rc_of_read = BookieRc.EOK
        await asyncio.sleep(1)
        bookie.rc_of_add = BookieRc.EOK
        reader = await opening
        assert reader.last_add_confirmed == 9
        assert len(await reader.read(0, 9)) == 10

    run(story())


def test_a_read_goes_to_another_replica_at_once_and_waits_when_all_are_overloaded() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        scene = Scene(2)
        handle, writer = await new_ledger(scene.client("w"), (2, 2, 2))
        writer.append(b"a")
        await answered(writer)
        names = members(handle)
        bookies = [scene.cluster.bookies[name] for name in names]
        sticky = handle.ledger_id % 2
        bookies[sticky].rc_of_read = BUSY
        began = loop.time()
        assert len(await handle.read(0, 0)) == 1
        assert loop.time() - began < 0.01
        bookies[1 - sticky].rc_of_read = BUSY
        reading = asyncio.create_task(handle.read(0, 0))
        await asyncio.sleep(1)
        assert not reading.done()
        bookies[1 - sticky].rc_of_read = BookieRc.EOK
        assert len(await reading) == 1

    run(story())


def test_a_read_that_is_refused_to_the_deadline_says_why() -> None:
    async def story() -> None:
        scene = Scene(1)
        handle, writer = await new_ledger(scene.client("w"), (1, 1, 1))
        writer.append(b"a")
        await until(lambda: writer.answered)
        (bookie,) = scene.cluster.bookies.values()
        bookie.rc_of_read = BUSY
        with pytest.raises(LedgerError) as caught:
            await handle.read(0, 0)
        assert isinstance(caught.value, BookieOverloaded)
        assert "overloaded" in str(caught.value)

    run(story())
