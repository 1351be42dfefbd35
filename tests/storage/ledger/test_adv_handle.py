"""Ledgers whose writer chooses the entry ids."""

import asyncio

import pytest

from magnetar.storage.ledger.ledger_errors import (
    DuplicateEntryId,
    IncorrectParameter,
    LedgerClosed,
    LedgerExists,
    LedgerFenced,
)
from tests.storage.ledger.scene import Scene
from tests.storage.ledger.virtual_loop import run
from tests.waiting import until


def test_ids_in_any_order_are_confirmed_in_order_and_read_back() -> None:
    async def story() -> None:
        scene = Scene(3)
        client = scene.client("w")
        handle = await client.create_ledger_adv(ensemble_size=3, write_quorum=2, ack_quorum=2)
        confirmed: list[int] = []

        async def add(entry_id: int) -> None:
            confirmed.append(await handle.add(entry_id, b"entry %d" % entry_id))

        adds = [asyncio.create_task(add(entry_id)) for entry_id in (3, 1, 2, 5)]
        await asyncio.sleep(1)
        assert (confirmed, handle.last_add_confirmed) == ([], -1)
        adds.append(asyncio.create_task(add(0)))
        await until(lambda: len(confirmed) == 4)
        assert (sorted(confirmed), handle.last_add_confirmed) == ([0, 1, 2, 3], 3)
        await add(4)
        await asyncio.gather(*adds)
        entries = [entry for entry_id in range(6) for entry in await handle.read(entry_id, entry_id)]
        assert [entry[handle.payload_offset :] for entry in entries] == [b"entry %d" % i for i in range(6)]
        await handle.close()
        assert (await scene.metadata(handle.ledger_id)).last_entry_id == 5

    run(story())


def test_an_entry_behind_a_gap_fails_at_the_close_and_is_not_part_of_the_ledger() -> None:
    async def story() -> None:
        scene = Scene(1)
        handle = await scene.client("w").create_ledger_adv()
        await handle.add(0, b"zero")
        behind = asyncio.create_task(handle.add(2, b"two"))
        await asyncio.sleep(0)
        await handle.close()
        with pytest.raises(LedgerClosed, match="before a gap was filled"):
            await behind
        with pytest.raises(LedgerClosed):
            await handle.add(1, b"one")
        assert (await scene.metadata(handle.ledger_id)).last_entry_id == 0

    run(story())


def test_an_entry_behind_a_gap_fails_when_the_handle_ends_by_itself() -> None:
    async def story() -> None:
        scene = Scene(1)
        handle = await scene.client("w").create_ledger_adv()
        await handle.add(0, b"zero")
        behind = asyncio.create_task(handle.add(2, b"two"))
        await asyncio.sleep(0)
        await scene.client("r").open_ledger(handle.ledger_id)
        with pytest.raises(LedgerFenced):
            await handle.add(1, b"one")
        with pytest.raises(LedgerFenced):
            await behind

    run(story())


def test_an_id_is_taken_once() -> None:
    async def story() -> None:
        scene = Scene(1)
        client = scene.client("w")
        handle = await client.create_ledger_adv(7000)
        assert handle.ledger_id == 7000
        await handle.add(0, b"zero")
        waiting = asyncio.create_task(handle.add(2, b"two"))
        await asyncio.sleep(0)
        for entry_id in (0, 2):
            with pytest.raises(DuplicateEntryId, match=f"entry {entry_id} was added before"):
                await handle.add(entry_id, b"again")
        with pytest.raises(IncorrectParameter):
            await handle.add(-1, b"")
        with pytest.raises(LedgerExists):
            await client.create_ledger_adv(7000)
        await handle.add(1, b"one")
        assert await waiting == 2

    run(story())
