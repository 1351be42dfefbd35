"""Stories of ledgers whose bookies, writers and recoverers misbehave, and what must be true after each."""

import asyncio
from collections.abc import Callable

import pytest

from pulsar_proto.bookie_wire import BookieRc, ReadFlags
from pulsar_proto.entry_digest import DigestType, entry_lac
from pulsar_proto.ledger_record import LedgerState
from storage.ledger.client import BookKeeper
from storage.ledger.errors import (
    BookieTimeout,
    ClientClosed,
    DigestMismatch,
    LedgerClosed,
    LedgerFenced,
    LedgerRecoveryFailed,
    MetadataVersion,
    NotEnoughBookies,
    UnauthorizedAccess,
)
from storage.ledger.handle import WriteHandle
from tests.storage.ledger.fake_bookie import LinkState
from tests.storage.ledger.scene import Scene, Writer, check_closed
from tests.storage.ledger.virtual_loop import run


async def until(condition: Callable[[], object]) -> None:
    """Waits, in virtual time, until `condition()` is true; after a minute of that it never will be."""
    for _ in range(6000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the awaited condition did not come true")


async def answered(writer: Writer) -> None:
    await until(lambda: writer.answered)


async def new_ledger(client: BookKeeper, sizes: tuple[int, int, int]) -> tuple[WriteHandle, Writer]:
    handle = await client.create_ledger(ensemble_size=sizes[0], write_quorum=sizes[1], ack_quorum=sizes[2])
    return handle, Writer(handle)


def members(handle: WriteHandle) -> list[str]:
    return list(handle.metadata.ensembles[-1][1])


def test_what_was_added_is_read_back_and_the_ledger_closes_at_its_last_entry() -> None:
    async def story() -> None:
        scene = Scene(1)
        client = scene.client("w")
        handle, writer = await new_ledger(client, (1, 1, 1))
        writer.append(b"one", b"two", b"three")
        assert await handle.add(b"four") == 3
        assert (handle.last_add_confirmed, handle.length) == (3, 15)
        entries = await handle.read(0, 3)
        assert [entry[handle.payload_offset :] for entry in entries] == [b"one", b"two", b"three", b"four"]
        assert [entry_lac(entry) for entry in entries] == [-1, -1, -1, -1]
        await handle.close()
        await handle.close()
        await check_closed(scene, handle.ledger_id, [writer])
        reading = await client.open_ledger(handle.ledger_id)
        assert (reading.last_add_confirmed, reading.length, reading.is_closed) == (3, 15, True)
        assert await reading.read(1, 3) == entries[1:]

    run(story())


def test_an_entry_carries_the_last_confirmed_id_of_the_moment_it_was_packed() -> None:
    async def story() -> None:
        handle, _ = await new_ledger(Scene(1).client("w"), (1, 1, 1))
        for expected in range(-1, 3):
            await handle.add(b"x")
            assert entry_lac((await handle.read(expected + 1, expected + 1))[0]) == expected

    run(story())


def test_a_closed_handle_refuses_in_order_and_later() -> None:
    async def story() -> None:
        handle, writer = await new_ledger(Scene(1).client("w"), (1, 1, 1))
        writer.append(b"pending")
        closing = asyncio.create_task(handle.close())
        await asyncio.sleep(0)
        assert not handle.is_open
        writer.append(b"late")
        assert [entry_id for entry_id, _ in writer.failed] == [0]
        await closing
        await answered(writer)
        assert all(isinstance(error, LedgerClosed) for _, error in writer.failed)
        assert (handle.last_add_confirmed, handle.length) == (-1, 0)

    run(story())


def test_a_bookie_killed_in_mid_write_is_replaced_and_nothing_is_lost() -> None:
    async def story() -> None:
        scene = Scene(4)
        handle, writer = await new_ledger(scene.client("w"), (3, 3, 2))
        writer.append(b"a", b"b")
        await answered(writer)
        killed = members(handle)[1]
        scene.cluster.bookies[killed].network = LinkState.RESET
        for i in range(5):
            writer.append(b"c%d" % i, b"d%d" % i)
        await answered(writer)
        assert writer.acked == list(range(12))
        assert killed not in members(handle)
        assert [first for first, _ in handle.metadata.ensembles] == [0, 2]
        await handle.close()
        await check_closed(scene, handle.ledger_id, [writer])

    run(story())


def test_an_ensemble_that_never_confirmed_anything_is_replaced_in_place() -> None:
    async def story() -> None:
        scene = Scene(4)
        handle, writer = await new_ledger(scene.client("w"), (3, 3, 3))
        scene.cluster.bookies[members(handle)[0]].rc_of_add = BookieRc.EREADONLY
        writer.append(b"a")
        await answered(writer)
        assert writer.acked == [0]
        assert [first for first, _ in handle.metadata.ensembles] == [0]
        await handle.close()
        await check_closed(scene, handle.ledger_id, [writer])

    run(story())


@pytest.mark.parametrize("rc", [BookieRc.EIO, BookieRc.EREADONLY, BookieRc.ETOOMANYREQUESTS])
def test_with_no_spare_bookie_the_writer_fails_at_once_and_the_ledger_closes_by_itself(rc: BookieRc) -> None:
    async def story() -> None:
        scene = Scene(1)
        client = scene.client("w")
        handle, writer = await new_ledger(client, (1, 1, 1))
        writer.append(b"stored")
        await answered(writer)
        scene.cluster.bookies["b0"].rc_of_add = rc
        writer.append(b"not", b"stored")
        writer.append(b"nor this")
        await asyncio.sleep(0.1)
        assert [(e, type(error)) for e, error in writer.failed] == [(e, NotEnoughBookies) for e in (1, 2, 3)]
        assert (handle.last_add_confirmed, handle.length, handle.is_open) == (0, 6, False)
        await handle.close()
        assert (await check_closed(scene, handle.ledger_id, [writer])).last_entry_id == 0
        reading = await client.open_ledger(handle.ledger_id)
        assert len(await reading.read(0, 0)) == 1
        scene.cluster.bookies["b0"].rc_of_add = BookieRc.EOK
        again, _ = await new_ledger(client, (1, 1, 1))
        assert await again.add(b"works again") == 0

    run(story())


@pytest.mark.parametrize("state", [LinkState.SILENT, LinkState.DEAF])
def test_a_bookie_that_does_not_answer_is_replaced_after_the_deadline(state: LinkState) -> None:
    async def story() -> None:
        scene = Scene(3)
        handle, writer = await new_ledger(scene.client("w"), (2, 2, 2))
        loop = asyncio.get_running_loop()
        scene.cluster.bookies[members(handle)[0]].network = state
        started = loop.time()
        writer.append(b"a")
        await answered(writer)
        assert writer.acked == [0]
        assert 5 <= loop.time() - started <= 6.5
        await handle.close()
        await check_closed(scene, handle.ledger_id, [writer])

    run(story())


def test_an_idle_writer_has_no_timer() -> None:
    async def story() -> None:
        handle, writer = await new_ledger(Scene(1).client("w"), (1, 1, 1))
        writer.append(b"a")
        await answered(writer)
        await asyncio.sleep(10)
        assert handle._writer._timer is None

    run(story())


def test_striped_entries_are_written_and_read_over_all_bookies() -> None:
    async def story() -> None:
        scene = Scene(6, delay_max=0.01, answers_in_parts=True)
        client = scene.client("w")
        handle, writer = await new_ledger(client, (5, 3, 2))
        for i in range(6):
            writer.append(*(b"entry %d of %d" % (j, i) for j in range(7)))
        await answered(writer)
        scene.cluster.bookies[members(handle)[3]].network = LinkState.RESET
        for i in range(6, 9):
            writer.append(*(b"entry %d of %d" % (j, i) for j in range(7)))
        await answered(writer)
        assert len(writer.acked) == 63
        await handle.close()
        metadata = await check_closed(scene, handle.ledger_id, [writer])
        assert [first for first, _ in metadata.ensembles] == [0, 42]
        reading = await scene.client("r").open_ledger(handle.ledger_id)
        position = 0
        while position < 63:
            entries = await reading.read(position, 62)
            for entry in entries:
                assert entry[reading.payload_offset :] == writer.payloads[position]
                position += 1

    run(story())


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
    """Upstream's counterexample (a), Wq 3 and Aq 2: without fencing recovery reads an acknowledged entry is truncated.

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
    """Upstream's counterexample (b): the last ensemble is empty, all its bookies say "no such ledger", so the LAC is
    -1 without a floor, and recovery would write the key 0 after the key 20 and forget twenty entries."""

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


def test_a_damaged_copy_is_read_from_another_replica() -> None:
    async def story() -> None:
        scene = Scene(3)
        client = scene.client("w")
        handle, writer = await new_ledger(client, (3, 3, 3))
        writer.append(*(b"entry %d" % i for i in range(10)))
        await answered(writer)
        await handle.close()
        for name in members(handle)[:2]:
            scene.cluster.bookies[name].damage(handle.ledger_id, 4)
        reading = await client.open_ledger(handle.ledger_id)
        payloads: list[bytes] = []
        while len(payloads) < 10:
            payloads += [entry[reading.payload_offset :] for entry in await reading.read(len(payloads), 9)]
        assert payloads == list(writer.payloads.values())
        scene.cluster.bookies[members(handle)[2]].damage(handle.ledger_id, 4)
        with pytest.raises(DigestMismatch):
            await reading.read(4, 9)

    run(story())


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
        bookies[2].damage(handle.ledger_id, 0)  # undone
        for bookie in bookies[:2]:
            bookie.damage(handle.ledger_id, 1)
        with pytest.raises(LedgerRecoveryFailed, match=r"fencing.*DigestMismatch"):
            await scene.client("r").open_ledger(handle.ledger_id)
        bookies[0].damage(handle.ledger_id, 1)  # undone
        recovered = await scene.client("r").open_ledger(handle.ledger_id)
        assert recovered.last_add_confirmed == 1
        assert writer.acked == [0, 1]

    run(story())


def test_the_wrong_password_opens_nothing_and_writes_nothing() -> None:
    async def story() -> None:
        scene = Scene(1)
        client = scene.client("w")
        handle = await client.create_ledger(password=b"right", digest_type=DigestType.HMAC)
        await handle.add(b"a")
        with pytest.raises(UnauthorizedAccess):
            await client.open_ledger(handle.ledger_id, password=b"wrong")
        assert (await scene.metadata(handle.ledger_id)).state is LedgerState.OPEN
        reading = await client.open_ledger(handle.ledger_id, password=b"right")
        assert (await reading.read(0, 0))[0][reading.payload_offset :] == b"a"

    run(story())


def test_a_ledger_being_written_is_readable_up_to_the_last_confirmed_entry() -> None:
    async def story() -> None:
        scene = Scene(3)
        handle, writer = await new_ledger(scene.client("w"), (3, 3, 2))
        for i in range(3):
            await handle.add(b"entry %d" % i)
        reading = await scene.client("r").open_ledger(handle.ledger_id, recover=False)
        assert (reading.last_add_confirmed, reading.is_closed) == (1, False)
        assert len(await reading.read(0, 1)) == 2
        assert await handle.add(b"the writer goes on") == 3
        assert writer.failed == []

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


def test_receipts_survive_a_callback_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        handle, _ = await new_ledger(Scene(1).client("w"), (1, 1, 1))

        def fails(append: object) -> None:
            raise ValueError("a bug of the caller")

        handle.append([b"a"], fails)
        assert await handle.add(b"b") == 1

    run(story())
    assert [record.levelname for record in caplog.records if record.name.startswith("storage")] == ["ERROR"]


def test_a_callback_may_append_or_close() -> None:
    async def story() -> None:
        scene = Scene(1)
        handle, _ = await new_ledger(scene.client("w"), (1, 1, 1))
        seen: list[str] = []
        closing: list[asyncio.Task[None]] = []

        def again(append: object) -> None:
            seen.append("first")
            handle.append([b"b"], lambda append: seen.append("second"))

        handle.append([b"a"], again)
        await until(lambda: seen == ["first", "second"])

        def close(append: object) -> None:
            closing.append(asyncio.create_task(handle.close()))

        handle.append([b"c"], close)
        await until(lambda: closing and closing[0].done())
        assert (await check_closed(scene, handle.ledger_id, [])).last_entry_id == 2

    run(story())
