"""A bookie that finds the metadata older than its own ledgers deletes nothing."""

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.unique_ids import LedgerIdGenerator, skip_ledger_ids
from magnetar.server.programs.bookie.listed_ledgers import ListedLedgers
from magnetar.storage.ledger.cluster_layout import ClusterError
from pulsar_proto.records.ledger_record import ledger_path


class Held:
    def __init__(self) -> None:
        self.ids: set[int] = set()
        self.kept: set[int] = set()

    def ledger_ids(self) -> set[int]:
        return set(self.ids)

    def kept_ledgers(self) -> set[int]:
        return set(self.kept)


class Scene:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.held = Held()
        self.synced = 0
        self.listed = ListedLedgers(self.store, lambda: self.held, self._sync)
        self._ids = LedgerIdGenerator(self.store, block_ids=1)

    async def _sync(self) -> None:
        self.synced += 1

    async def make(self, count: int) -> list[int]:
        """Makes ledgers, which the bookie holds."""
        ids = [await self._ids.next_id() for _ in range(count)]
        for ledger_id in ids:
            await self.store.create(ledger_path(ledger_id), b"x", make_parents=True)
        self.held.ids.update(ids)
        return ids


async def test_what_was_deleted_is_not_listed() -> None:
    scene = Scene()
    made = await scene.make(5)
    for deleted in (made[0], made[-1]):
        await scene.store.delete(ledger_path(deleted))
        assert await scene.listed() == set(made) - {made[0], deleted}
    assert scene.synced == 2


async def test_an_older_metadata_is_refused_as_long_as_it_is_older(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    older = Scene()  # the same cluster, restored from a copy
    made = await scene.make(20)
    await older.make(3)
    older.held.ids.update(made)
    with pytest.raises(ClusterError, match=f"older than ledger {made[-1]}"):
        await older.listed()
    assert "nothing is deleted" in caplog.text
    older.held.kept.update(made)
    assert len(await older.listed()) == 3, "what is kept anyway proves nothing"


async def test_new_ids_beyond_all_that_were_used_end_the_refusal() -> None:
    scene = Scene()
    await scene.make(3)
    scene.held.ids.add(1_000_000)
    with pytest.raises(ClusterError):
        await scene.listed()
    await skip_ledger_ids(scene.store, max(scene.held.ids))
    assert len(await scene.listed()) == 3


async def test_a_bookie_with_nothing_to_delete_draws_no_id() -> None:
    scene = Scene()
    made = await scene.make(3)
    assert await scene.listed() == set(made)
    assert (await scene.make(1))[0] == made[-1] + 1
