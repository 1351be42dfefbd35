"""A bookie drops a ledger only when it is closed, is whole on other bookies, and nobody makes a copy of it here."""

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.store import RecordEvent
from magnetar.server.programs.bookie.over_replicated import OverReplicatedLedgers
from pulsar_proto.records import underreplication_record as records
from pulsar_proto.records.ledger_record import LedgerMetadata, LedgerState, ledger_path

ME, OTHER, THIRD = "me:3181", "other:3181", "third:3181"


def metadata(ledger_id: int, *ensembles: tuple[str, ...], closed: bool = True) -> bytes:
    keyed = tuple((first * 10, bookies) for first, bookies in enumerate(ensembles))
    state = LedgerState.CLOSED if closed else LedgerState.OPEN
    return LedgerMetadata(ledger_id, 1, 1, 1, keyed, state, last_entry_id=50 if closed else -1).serialize()


class Local:
    def __init__(self) -> None:
        self.ids = set(range(1, 8))
        self.dropped: list[int] = []

    def ledger_ids(self) -> set[int]:
        return set(self.ids)

    async def drop_ledgers(self, ledger_ids: set[int]) -> None:
        self.ids -= ledger_ids
        self.dropped += sorted(ledger_ids)


class Scene:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.local = Local()
        self.syncs = 0
        self.looks = OverReplicatedLedgers(self.store, self.sync, self.local, ME)

    async def sync(self) -> None:
        self.syncs += 1

    async def put(self, ledger_id: int, value: bytes) -> None:
        await self.store.create(ledger_path(ledger_id), value, make_parents=True)


@pytest.fixture
async def scene() -> Scene:
    made = Scene()
    await made.put(1, metadata(1, (OTHER,)))
    await made.put(2, metadata(2, (OTHER,), (ME,)))
    await made.put(3, metadata(3, (ME,), (OTHER,)))
    await made.put(4, metadata(4, (OTHER,), closed=False))
    await made.put(5, metadata(5, (OTHER,), (THIRD,)))
    await made.put(6, b"damaged")
    return made  # ledger 7 has no record, so it counts as deleted


async def test_only_closed_ledgers_that_do_not_name_this_bookie_go(scene: Scene) -> None:
    await scene.looks.look()
    assert scene.local.dropped == []
    assert await scene.looks.look() == 2
    assert scene.local.dropped == [1, 5]
    assert await scene.store.children(records.LOCKS) == []
    assert await scene.looks.look() == 0


async def test_a_ledger_under_a_replication_workers_lock_stays(scene: Scene) -> None:
    await scene.looks.look()
    lock = records.lock_path(1)
    await scene.store.create(lock, records.lock_value("worker"), ephemeral=True, make_parents=True)
    await scene.looks.look()
    assert scene.local.dropped == [5]
    assert await scene.store.exists(lock) is not None, "the worker's lock is the worker's"
    await scene.store.delete(lock)
    await scene.looks.look()
    assert scene.local.dropped == [5, 1]


async def test_the_metadata_counts_as_it_is_under_the_lock(scene: Scene) -> None:
    """A faster worker has just made this bookie a member, so the record that was read before the lock is out of
    date."""
    await scene.looks.look()

    def locked(event: RecordEvent) -> None:
        # Runs after the lock is made and before the bookie reads the record again.
        pending.append(scene.store.put(ledger_path(1), metadata(1, (ME,))))

    pending: list[object] = []
    await scene.store.create(records.LOCKS, make_parents=True)
    scene.store.watch(records.lock_path(1), locked)

    async def sync() -> None:
        while pending:
            await pending.pop()  # type: ignore[misc]

    scene.looks._sync = sync
    await scene.looks.look()
    assert scene.local.dropped == [5]


async def test_a_ledger_that_comes_back_between_two_looks_stays(scene: Scene) -> None:
    await scene.looks.look()
    await scene.store.put(ledger_path(5), metadata(5, (ME,), (THIRD,)))
    await scene.looks.look()
    await scene.store.put(ledger_path(5), metadata(5, (OTHER,), (THIRD,)))
    assert await scene.looks.look() == 0, "it was fine at the look before this one"
    assert await scene.looks.look() == 1
    assert scene.local.dropped == [1, 5]
