"""Stories of writers: bookies that fail under them, what the caller is told, and what a close leaves behind."""

import asyncio

import pytest

from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.ledger.ledger_errors import LedgerClosed, NotEnoughBookies
from magnetar.storage.ledger.ledger_handle import WriteHandle
from pulsar_proto.records.entry_digest import entry_lac
from pulsar_proto.records.ledger_record import LedgerState
from pulsar_proto.wire.bookie_wire import BookieRc
from tests.reference_counts import collector_off, living
from tests.storage.ledger.fake_bookie import LinkState
from tests.storage.ledger.scene import Scene, answered, check_closed, members, new_ledger
from tests.storage.ledger.virtual_loop import run
from tests.waiting import until


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


@pytest.mark.parametrize("rc", [BookieRc.EIO, BookieRc.EREADONLY])
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
        assert (await scene.metadata(handle.ledger_id)).state is LedgerState.CLOSED
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


def test_receipts_survive_a_callback_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        handle, _ = await new_ledger(Scene(1).client("w"), (1, 1, 1))

        def fails(append: object) -> None:
            raise ValueError("a bug of the caller")

        handle.append([b"a"], fails)
        assert await handle.add(b"b") == 1

    run(story())
    assert [record.levelname for record in caplog.records if record.name.startswith("magnetar.storage")] == ["ERROR"]


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


def test_groups_are_counted_while_they_are_on_their_way_however_they_end() -> None:
    """Admin calls wait while the count is not 0: a count that stays above 0 would slow them down for ever."""

    async def story() -> None:
        scene = Scene(1)
        client = scene.client("w")
        calm: list[int] = []
        client.appends.when_none(lambda: calm.append(client.appends.count))

        handle, writer = await new_ledger(client, (1, 1, 1))
        writer.append(b"a", b"b")
        writer.append(b"c")
        assert client.appends.count == 2
        await answered(writer)
        assert (client.appends.count, calm) == (0, [0])

        def fails(append: Append) -> None:
            raise ZeroDivisionError

        handle.append([b"d"], fails)
        await until(lambda: client.appends.count == 0)

        writer.append(b"e")
        await handle.close()
        writer.append(b"f")
        await answered(writer)
        assert [type(error) for _, error in writer.failed] == [LedgerClosed, LedgerClosed]
        assert client.appends.count == 0

        _, writer = await new_ledger(client, (1, 1, 1))
        scene.cluster.bookies["b0"].rc_of_add = BookieRc.EIO
        writer.append(b"g")
        await answered(writer)
        assert [type(error) for _, error in writer.failed] == [NotEnoughBookies]
        assert client.appends.count == 0

    run(story())


def test_a_closed_writer_is_freed_without_a_garbage_collection() -> None:
    async def story() -> None:
        client = Scene(1).client("w")
        handle, _ = await new_ledger(client, (1, 1, 1))
        await handle.add(b"x")
        await handle.close()
        before = len(living(WriteHandle))
        del handle, _
        await asyncio.sleep(100)  # on the virtual clock, until every timer of the writer is over
        assert len(living(WriteHandle)) == before - 1

    with collector_off():
        run(story())
