"""Stories of ledgers that nobody closed: writers against recoverers, recoveries cut short, and the counterexamples of
the published model (github.com/Vanlightly/bookkeeper-tlaplus)."""

import asyncio

import pytest

from magnetar.storage.ledger.ledger_errors import (
    BookieTimeout,
    ClientClosed,
    LedgerFenced,
    LedgerRecoveryFailed,
    MetadataVersion,
)
from pulsar_proto.records.ledger_record import LedgerState
from pulsar_proto.wire.bookie_wire import BookieRc, ReadFlags
from tests.storage.ledger.fake_bookie import LinkState
from tests.storage.ledger.scene import Scene, answered, check_closed, members, new_ledger
from tests.storage.ledger.virtual_loop import run
from tests.waiting import until


def test_recovery_finds_the_entries_of_a_writer_that_vanished() -> None:
    async def story() -> None:
        scene = Scene(3)
        writing = scene.client("w")
        handle, writer = await new_ledger(writing, (3, 3, 2))
        writer.append(b"a", b"bb", b"ccc")
        await answered(writer)
        await writing.close()
        recovered = await scene.client("r").open_ledger(handle.ledger_id)
        assert (recovered.last_add_confirmed, recovered.length) == (2, 6)
        await check_closed(scene, handle.ledger_id, [writer])
        assert len(await recovered.read(0, 2)) == 3

    run(story())


@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 3, 2), (5, 3, 2)])
def test_an_empty_ledger_is_recovered_as_empty(sizes: tuple[int, int, int]) -> None:
    async def story() -> None:
        scene = Scene(5)
        handle, writer = await new_ledger(scene.client("w"), sizes)
        recovered = await scene.client("r").open_ledger(handle.ledger_id)
        assert (recovered.last_add_confirmed, recovered.length) == (-1, 0)
        await check_closed(scene, handle.ledger_id, [writer])

    run(story())


def test_a_writer_that_was_fenced_fails_its_appends_and_may_not_close() -> None:
    async def story() -> None:
        scene = Scene(3)
        handle, writer = await new_ledger(scene.client("w"), (3, 3, 2))
        writer.append(b"a")
        await answered(writer)
        await scene.client("r").open_ledger(handle.ledger_id)
        writer.append(b"b")
        writer.append(b"c")
        await answered(writer)
        assert [(e, type(error)) for e, error in writer.failed] == [(1, LedgerFenced), (2, LedgerFenced)]
        assert not handle.is_open
        await handle.close()  # closed by the recoverer with the same values
        metadata = await check_closed(scene, handle.ledger_id, [writer])
        assert metadata.last_entry_id == 0

    run(story())


def test_a_writer_may_not_close_a_ledger_that_was_recovered_further_than_it_knows() -> None:
    async def story() -> None:
        scene = Scene(3)
        handle, writer = await new_ledger(scene.client("w"), (3, 3, 3))
        scene.cluster.link("w", members(handle)[2]).state = LinkState.DEAF
        writer.append(b"a")
        await asyncio.sleep(1)
        recovered = await scene.client("r").open_ledger(handle.ledger_id)
        assert recovered.last_add_confirmed == 0, "one copy is enough"
        with pytest.raises(MetadataVersion):
            await handle.close()
        await check_closed(scene, handle.ledger_id, [writer])

    run(story())


def test_a_writer_may_not_close_while_another_client_recovers() -> None:
    async def story() -> None:
        scene = Scene(1)
        handle, writer = await new_ledger(scene.client("w"), (1, 1, 1))
        writer.append(b"a")
        await answered(writer)
        recoverer = scene.client("r")
        link = scene.cluster.link("r", "b0")
        link.hold()
        recovering = asyncio.create_task(recoverer.open_ledger(handle.ledger_id))
        await asyncio.sleep(0.1)
        assert (await scene.metadata(handle.ledger_id)).state is LedgerState.IN_RECOVERY
        with pytest.raises(LedgerFenced):
            await handle.close()
        link.release()
        assert (await recovering).last_add_confirmed == 0
        await handle.close()
        await check_closed(scene, handle.ledger_id, [writer])

    run(story())


def test_a_writer_that_loses_a_bookie_during_recovery_learns_that_it_is_fenced() -> None:
    async def story() -> None:
        scene = Scene(4)
        handle, writer = await new_ledger(scene.client("w"), (3, 3, 2))
        for name in members(handle):
            scene.cluster.link("r", name).hold()
        recovering = asyncio.create_task(scene.client("r").open_ledger(handle.ledger_id))
        await asyncio.sleep(0.1)
        scene.cluster.link("w", members(handle)[0]).state = LinkState.RESET
        writer.append(b"a")
        await answered(writer)
        assert [type(error) for _, error in writer.failed] == [LedgerFenced]
        for name in members(handle):
            scene.cluster.link("r", name).release()
        await recovering
        await check_closed(scene, handle.ledger_id, [writer])

    run(story())


def test_recovery_reads_fence_a_bookie_that_the_fence_itself_missed() -> None:
    """The first of docs/LEDGERS.md, "Two counterexamples", with Qw 3 and Qa 2.

    Entry 0 is on one bookie, whose copy recovery cannot read; the fence misses a second bookie, which then says "no
    such entry". Had that read not fenced it, the writer's late add would be the second acknowledgement.
    """

    async def story() -> None:
        scene = Scene(3)
        handle, writer = await new_ledger(scene.client("w"), (3, 3, 2))
        adds = [scene.cluster.link("w", name) for name in members(handle)]
        reads = [scene.cluster.link("r", name) for name in members(handle)]
        for link in (*adds[1:], *reads):
            link.hold()
        writer.append(b"half written")
        recovering = asyncio.create_task(scene.client("r").open_ledger(handle.ledger_id))
        await until(lambda: all(link.held == 1 for link in reads))
        reads[2].lose(1)
        reads[0].release(1)
        reads[1].release(1)
        await until(lambda: all(link.held > 0 for link in reads))
        reads[0].bookie.rc_of_read = BookieRc.EIO
        for link in reads:
            link.release()
        assert (await recovering).last_add_confirmed == -1
        adds[2].release()
        await answered(writer)
        assert writer.acked == [], "acknowledged after the ledger was closed without it"
        assert isinstance(writer.failed[0][1], LedgerFenced)
        await check_closed(scene, handle.ledger_id, [writer])

    run(story())


def test_the_fence_reaches_every_bookie_of_the_last_ensemble() -> None:
    async def story() -> None:
        scene = Scene(6)
        handle, writer = await new_ledger(scene.client("w"), (5, 2, 2))
        writer.append(b"only on two of them")
        await answered(writer)
        await scene.client("r").open_ledger(handle.ledger_id)
        fenced = {name for name, b in scene.cluster.bookies.items() if b.ledgers and b.ledgers[handle.ledger_id].fenced}
        assert fenced == set(members(handle))
        for name in members(handle):
            assert scene.cluster.link("r", name).reads_asked[0] == (-1, ReadFlags.FENCING)

    run(story())


def test_the_floor_keeps_a_new_ensemble_behind_an_empty_last_one() -> None:
    """The second of docs/LEDGERS.md, "Two counterexamples": the last ensemble is empty and all its bookies say "no such
    ledger", so the LAC is -1 without a floor. Recovery would write the key 0 after the key 20 and forget twenty
    entries."""

    async def story() -> None:
        scene = Scene(2)
        writing = scene.client("w")
        handle, writer = await new_ledger(writing, (1, 1, 1))
        writer.append(*(b"entry %d" % i for i in range(20)))
        await answered(writer)
        (first,) = members(handle)
        (spare,) = set(scene.cluster.names()) - {first}
        scene.cluster.link("w", first).state = LinkState.RESET
        scene.cluster.link("w", spare).state = LinkState.SILENT
        writer.append(b"never stored")
        await until(lambda: members(handle) == [spare])
        assert [key for key, _ in handle.metadata.ensembles] == [0, 20]
        await writing.close()
        recovered = await scene.client("r").open_ledger(handle.ledger_id)
        assert recovered.last_add_confirmed == 19
        metadata = await check_closed(scene, handle.ledger_id, [writer])
        assert [key for key, _ in metadata.ensembles] == [0, 20]

    run(story())


def test_recovery_replaces_a_bookie_only_in_the_metadata_of_the_close() -> None:
    async def story() -> None:
        scene = Scene(4)
        writing = scene.client("w")
        handle, writer = await new_ledger(writing, (3, 3, 2))
        last = members(handle)[2]
        scene.cluster.link("w", last).state = LinkState.SILENT
        writer.append(b"a", b"b")
        await answered(writer)
        await writing.close()
        scene.cluster.bookies[last].rc_of_add = BookieRc.EREADONLY
        scene.cluster.bookies[members(handle)[0]].network = LinkState.SILENT
        recovered = await scene.client("r").open_ledger(handle.ledger_id)
        assert recovered.last_add_confirmed == 1
        metadata = await check_closed(scene, handle.ledger_id, [writer])
        assert last not in metadata.ensembles[-1][1]

    run(story())


def test_recovery_that_cannot_tell_the_end_closes_nothing_and_can_be_repeated() -> None:
    async def story() -> None:
        scene = Scene(3)
        writing = scene.client("w")
        handle, writer = await new_ledger(writing, (3, 3, 3))
        writer.append(b"a")
        await answered(writer)
        await writing.close()
        for name in members(handle)[:2]:
            scene.cluster.bookies[name].rc_of_read = BookieRc.EUNKNOWNLEDGERSTATE
        scene.cluster.bookies[members(handle)[2]].network = LinkState.RESET
        with pytest.raises(LedgerRecoveryFailed):
            await scene.client("r").open_ledger(handle.ledger_id)
        assert (await scene.metadata(handle.ledger_id)).state is LedgerState.IN_RECOVERY
        for bookie in scene.cluster.bookies.values():
            bookie.rc_of_read = BookieRc.EOK
            bookie.network = LinkState.OK
        recovered = await scene.client("r").open_ledger(handle.ledger_id)
        assert recovered.last_add_confirmed == 0
        await check_closed(scene, handle.ledger_id, [writer])

    run(story())


def test_recovery_passes_a_timeout_on_and_names_the_ledger() -> None:
    async def story() -> None:
        scene = Scene(1)
        handle, _ = await new_ledger(scene.client("w"), (1, 1, 1))
        scene.cluster.bookies["b0"].network = LinkState.SILENT
        with pytest.raises(BookieTimeout, match=f"ledger {handle.ledger_id}"):
            await scene.client("r").open_ledger(handle.ledger_id)

    run(story())


def test_recovery_interrupted_at_any_moment_is_completed_by_the_next() -> None:
    async def story(interrupt_after: float) -> None:
        scene = Scene(4, seed=3, delay_max=0.01)
        writing = scene.client("w")
        handle, writer = await new_ledger(writing, (3, 3, 2))
        for i in range(10):
            writer.append(b"entry %d" % i, b"and more %d" % i)
        await asyncio.sleep(0.02)
        await writing.close()
        scene.cluster.bookies[members(handle)[0]].rc_of_add = BookieRc.EIO
        first = asyncio.create_task(scene.client("r1").open_ledger(handle.ledger_id))
        await asyncio.sleep(interrupt_after)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        recovered = await scene.client("r2").open_ledger(handle.ledger_id)
        assert recovered.last_add_confirmed >= max(writer.acked, default=-1)
        await check_closed(scene, handle.ledger_id, [writer])

    for step in range(25):
        run(story(step * 0.006))


def test_two_recoverers_end_with_one_truth() -> None:
    async def story(seed: int) -> None:
        scene = Scene(5, seed=seed, delay_max=0.02)
        writing = scene.client("w")
        handle, writer = await new_ledger(writing, (3, 3, 2))
        for i in range(8):
            writer.append(b"entry %d" % i)
        await asyncio.sleep(0.015)
        failing = scene.cluster.link("r1", members(handle)[seed % 3])
        failing.state = LinkState.RESET
        first, second = await asyncio.gather(
            scene.client("r1").open_ledger(handle.ledger_id), scene.client("r2").open_ledger(handle.ledger_id)
        )
        assert first.metadata == second.metadata
        await answered(writer)
        await check_closed(scene, handle.ledger_id, [writer])

    for seed in range(30):
        run(story(seed))


def test_recovery_never_takes_a_damaged_copy_for_a_missing_one() -> None:
    async def story() -> None:
        scene = Scene(3)
        writing = scene.client("w")
        handle, writer = await new_ledger(writing, (3, 3, 2))
        writer.append(b"damaged", b"last")
        await answered(writer)
        await writing.close()
        bookies = [scene.cluster.bookies[name] for name in members(handle)]
        for bookie in bookies:
            bookie.damage(handle.ledger_id, 0)
        with pytest.raises(LedgerRecoveryFailed, match=r"copying forward.*DigestMismatch"):
            await scene.client("r").open_ledger(handle.ledger_id)
        bookies[2].damage(handle.ledger_id, 0)  # damaged twice, the copy is sound again
        for bookie in bookies[:2]:
            bookie.damage(handle.ledger_id, 1)
        with pytest.raises(LedgerRecoveryFailed, match=r"fencing.*DigestMismatch"):
            await scene.client("r").open_ledger(handle.ledger_id)
        bookies[0].damage(handle.ledger_id, 1)  # damaged twice, the copy is sound again
        recovered = await scene.client("r").open_ledger(handle.ledger_id)
        assert recovered.last_add_confirmed == 1
        assert writer.acked == [0, 1]

    run(story())


def test_closing_the_client_fails_what_is_pending_and_leaves_the_ledger_to_recovery() -> None:
    async def story() -> None:
        scene = Scene(1, delay_max=0.1)
        client = scene.client("w")
        handle, writer = await new_ledger(client, (1, 1, 1))
        writer.append(b"a")
        await client.close()
        assert [type(error) for _, error in writer.failed] == [ClientClosed]
        assert (await scene.metadata(handle.ledger_id)).state is LedgerState.OPEN
        with pytest.raises(ClientClosed):
            await client.create_ledger()

    run(story())
