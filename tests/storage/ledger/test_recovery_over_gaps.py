"""Entries that their bookies gave up or hold damaged. A standalone server's recovery passes over them; in a cluster it
waits for a bookie that has them."""

from collections.abc import Callable

import pytest

from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.ledger_errors import LedgerRecoveryFailed
from magnetar.storage.ledger.read_handle import ReadHandle
from pulsar_proto.wire.bookie_wire import LAST_ENTRY, BookieError, BookieRc, EntryDamaged
from tests.storage.ledger.fake_bookie import FakeBookie
from tests.storage.ledger.scene import CONFIG, Scene, answered, new_ledger
from tests.storage.ledger.virtual_loop import run

COUNT = 40
STANDALONE = LedgerConfig(add_entry_timeout_sec=5, read_entry_timeout_sec=5, skip_given_up_entries=True)


def given_up(entry_id: int) -> BookieError:
    return BookieError(BookieRc.EUNKNOWNLEDGERSTATE, f"entry {entry_id}")


def damaged(entry_id: int) -> BookieError:
    return EntryDamaged(f"entry {entry_id}")


def make_unreadable(bookie: FakeBookie, ids: set[int], error: Callable[[int], BookieError]) -> None:
    real = bookie.read

    def read(ledger_id: int, entry_id: int, flags: int, master_key: bytes) -> bytes:
        found = max(bookie.ledgers[ledger_id].entries) if entry_id == LAST_ENTRY else entry_id
        if found in ids:
            real(ledger_id, found, flags, master_key)  # the answer, whatever it is, means that the bookie is fenced
            raise error(found)
        return real(ledger_id, entry_id, flags, master_key)

    bookie.read = read  # type: ignore[method-assign]


async def abandoned_ledger(scene: Scene, sizes: tuple[int, int, int]) -> int:
    """Sends all entries at once, so that none is confirmed according to their headers."""
    handle, writer = await new_ledger(scene.client("w"), sizes)
    for number in range(COUNT):
        writer.append(b"entry %d" % number)
    await answered(writer)
    return handle.ledger_id


async def recovered_over(ids: set[int], error: Callable[[int], BookieError]) -> ReadHandle:
    """Opens a ledger whose only bookie cannot read `ids`: the ledger keeps its end, and all other entries can be
    read."""
    scene = Scene(1)
    ledger_id = await abandoned_ledger(scene, (1, 1, 1))
    (bookie,) = scene.cluster.bookies.values()
    make_unreadable(bookie, ids, error)
    reader = await scene.client("r", STANDALONE).open_ledger(ledger_id)
    assert reader.last_add_confirmed == COUNT - 1
    for entry_id in set(range(COUNT)) - ids:
        assert (await reader.read(entry_id, entry_id))[0].endswith(b"entry %d" % entry_id)
    return reader


@pytest.mark.parametrize("ids", [{0}, {5, 6, 7}, {3, 4, 20, 38}, set(range(30))], ids=str)
@pytest.mark.parametrize("error", [given_up, damaged])
def test_what_stands_behind_a_gap_is_recovered(ids: set[int], error: Callable[[int], BookieError]) -> None:
    async def story() -> None:
        reader = await recovered_over(ids, error)
        assert reader.metadata.length == sum(len(b"entry %d" % number) for number in range(COUNT))

    run(story())


@pytest.mark.parametrize("ids", [{COUNT - 1}, set(range(30, COUNT)), set(range(COUNT))], ids=lambda ids: f"{len(ids)}")
def test_damaged_entries_at_the_end_stay_entries_of_the_ledger(ids: set[int]) -> None:
    """An entry that is damaged today can be read when its file is put back."""

    run(recovered_over(ids, damaged))


@pytest.mark.parametrize("error", [given_up, damaged])
def test_in_a_cluster_nothing_is_closed_short_of_or_over_a_gap(error: Callable[[int], BookieError]) -> None:
    async def story() -> None:
        scene = Scene(2)
        ledger_id = await abandoned_ledger(scene, (2, 2, 2))
        for bookie in scene.cluster.bookies.values():
            make_unreadable(bookie, {7}, error)
        with pytest.raises(LedgerRecoveryFailed):
            await scene.client("r", CONFIG).open_ledger(ledger_id)

    run(story())


@pytest.mark.parametrize("error", [given_up, damaged])
def test_one_good_copy_fills_the_gap(error: Callable[[int], BookieError]) -> None:
    async def story() -> None:
        scene = Scene(2)
        ledger_id = await abandoned_ledger(scene, (2, 2, 2))
        make_unreadable(next(iter(scene.cluster.bookies.values())), {7}, error)
        reader = await scene.client("r", CONFIG).open_ledger(ledger_id)
        assert reader.last_add_confirmed == COUNT - 1

    run(story())
