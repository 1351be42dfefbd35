"""No ledger id is drawn twice, also after a restart or beside a Java server; a block of ids takes one commit."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from magnetar.metadata.embedded.embedded_store import EmbeddedStore
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.store import Op, Stat
from magnetar.metadata.unique_ids import (
    BLOCK_IDS,
    DRAWN_AT_ONCE_MAX,
    SHORT_ID_END,
    LedgerIdGenerator,
    broker_instance,
    ledger_ids_end,
    skip_ledger_ids,
)


async def test_ids_start_at_0_and_rise() -> None:
    generator = LedgerIdGenerator(MemoryStore())
    assert [await generator.next_id() for _ in range(20)] == list(range(20))


async def test_concurrent_callers_get_different_ids() -> None:
    generator = LedgerIdGenerator(MemoryStore())
    ids = await asyncio.gather(*(generator.next_id() for _ in range(3 * BLOCK_IDS + 1)))
    assert sorted(ids) == list(range(3 * BLOCK_IDS + 1))


@pytest.mark.parametrize("long_ids", [False, True])
async def test_the_end_of_the_ids_given_out_is_known_and_ids_go_on_beyond_any_that_is_held(long_ids: bool) -> None:
    store = MemoryStore()
    assert ledger_ids_end(store._tree) == 0
    if long_ids:
        await store.create("/ledgers/idgen-long", make_parents=True)
        assert ledger_ids_end(store._tree) == SHORT_ID_END
    drawn = [await LedgerIdGenerator(store).next_id() for _ in range(3)]
    end = ledger_ids_end(store._tree)
    assert max(drawn) < end <= max(drawn) + BLOCK_IDS
    for held in (5, end + 3, (9 << 32) + 7):
        first = await skip_ledger_ids(store, held)
        assert first > max(held, end)
        assert await LedgerIdGenerator(store).next_id() == first
        assert ledger_ids_end(store._tree) > first
    assert await skip_ledger_ids(store, 5) > (9 << 32) + 7


async def test_two_servers_never_draw_the_same_id() -> None:
    store = MemoryStore()
    generators = [LedgerIdGenerator(store), LedgerIdGenerator(store.session(), block_ids=1)]
    ids = await asyncio.gather(*(generators[number % 2].next_id() for number in range(40)))
    assert len(set(ids)) == 40


async def test_a_java_server_draws_from_the_same_records() -> None:
    store = MemoryStore()
    generator = LedgerIdGenerator(store, block_ids=1)
    first = await generator.next_id()
    java = await store.create("/ledgers/idgen/ID-", ephemeral=True, sequential=True)
    assert java.path == f"/ledgers/idgen/ID-{first + 1:010d}"
    assert await generator.next_id() == first + 2


async def test_a_restart_skips_what_was_drawn(tmp_path: Path) -> None:
    path = tmp_path / "metadata.sqlite"
    seen: set[int] = set()
    for _ in range(3):
        store = await EmbeddedStore.open(path)
        generator = LedgerIdGenerator(store)
        ids = {await generator.next_id() for _ in range(BLOCK_IDS + 2)}
        assert not ids & seen
        seen |= ids
        assert await store.children("/ledgers/idgen") == []
        await store.close()


async def test_callers_who_wait_together_get_the_ids_of_one_draw() -> None:
    store, looks = MemoryStore(), 0
    look = store.exists

    async def counted(path: str) -> Stat | None:
        nonlocal looks
        looks += 1
        return await look(path)

    store.exists = counted  # type: ignore[method-assign]
    generator = LedgerIdGenerator(store, block_ids=1)
    ids = await asyncio.gather(*(generator.next_id() for _ in range(DRAWN_AT_ONCE_MAX)))
    assert ids == list(range(DRAWN_AT_ONCE_MAX)), "in the order of the calls"
    assert looks <= 2, "the first caller draws before the others come"
    assert await generator.next_id() == DRAWN_AT_ONCE_MAX, "none was drawn in stock"


async def test_records_of_drawn_ids_are_deleted_although_some_of_them_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()
    delete_all = store.multi

    async def after_one_is_gone(ops: Sequence[Op]) -> list[Stat | None]:
        await store.delete(ops[2].path)
        return await delete_all(ops)

    monkeypatch.setattr(store, "multi", after_one_is_gone)
    assert await LedgerIdGenerator(store).next_id() == 0
    assert await store.children("/ledgers/idgen") == []


async def test_a_block_of_ids_is_one_commit(tmp_path: Path) -> None:
    store = await EmbeddedStore.open(tmp_path / "metadata.sqlite")
    generator = LedgerIdGenerator(store)
    for _ in range(BLOCK_IDS):
        await generator.next_id()
    assert store.commits == 1
    await generator.next_id()
    assert store.commits == 2
    await store.close()


async def test_used_up_short_ids_are_followed_by_long_ones() -> None:
    store = MemoryStore()
    await store.create("/ledgers/idgen", make_parents=True)
    store._tree.get("/ledgers/idgen").sequence = 2**31 - 3
    generator = LedgerIdGenerator(store, block_ids=4)
    assert [await generator.next_id() for _ in range(4)] == [2**31 - 3, 2**31 - 2, (1 << 32) | 0, (1 << 32) | 1]
    assert await store.children("/ledgers/idgen-long") == ["HOB-0000000001"]
    again = LedgerIdGenerator(store, block_ids=1)
    assert await again.next_id() == (1 << 32) | 4


async def test_used_up_low_bits_raise_the_high_bits_and_old_ones_are_cleared() -> None:
    store = MemoryStore()
    for high in range(1, 5):
        await store.create(f"/ledgers/idgen-long/HOB-{high:010d}", make_parents=True)
    store._tree.get("/ledgers/idgen-long/HOB-0000000004").sequence = 2**31 - 1
    generator = LedgerIdGenerator(store, block_ids=2)
    assert await generator.next_id() == 5 << 32
    assert await store.children("/ledgers/idgen-long") == [f"HOB-{high:010d}" for high in (3, 4, 5)]


async def test_a_failed_draw_leaves_the_generator_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    generator = LedgerIdGenerator(store)
    with monkeypatch.context() as patch:
        patch.setattr("magnetar.metadata.embedded.tree_store.WRITES_WAITING_MAX", 0)
        with pytest.raises(Exception, match="waiting"):
            await generator.next_id()
    assert await generator.next_id() == 0


async def test_each_run_of_the_broker_has_its_number() -> None:
    store = MemoryStore()
    assert await broker_instance(store) == 0
    assert await store.children("/counters/producer-name") == ["-0000000000"]
    second = store.session()
    assert await broker_instance(second) == 1
    await store.close()
    assert await second.children("/counters/producer-name") == ["-0000000001"]
