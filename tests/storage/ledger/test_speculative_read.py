"""The next replica is asked while the first one is silent."""

import asyncio
from functools import partial

import pytest

from magnetar.storage.ledger.ledger_errors import BookieTimeout, LedgerError, NoSuchEntry, ReadFault
from magnetar.storage.ledger.speculative_read import first_good
from tests.storage.ledger.fake_bookie import LinkState
from tests.storage.ledger.scene import Scene, answered, members, new_ledger
from tests.storage.ledger.virtual_loop import run


class Replicas:
    """Questions that take some seconds and then return their name or raise. `asked` records who was asked, and when."""

    def __init__(self, *replicas: tuple[str, float, LedgerError | None]) -> None:
        self._replicas = replicas
        self.asked: list[tuple[str, float]] = []
        self.cancelled: list[str] = []

    async def ask(self, patience: float) -> str:
        return await first_good([partial(self._answer, *replica) for replica in self._replicas], patience)

    async def _answer(self, name: str, seconds: float, error: LedgerError | None) -> str:
        self.asked.append((name, asyncio.get_running_loop().time()))
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        if error is not None:
            raise error
        return name


def test_a_silent_replica_is_joined_by_the_next_and_the_first_answer_counts() -> None:
    replicas = Replicas(("silent", 100, None), ("slow", 3, None), ("third", 100, None))
    assert run(replicas.ask(2)) == "slow"
    assert replicas.asked == [("silent", 0), ("slow", 2)]
    assert replicas.cancelled == ["silent"]


def test_each_further_wait_is_twice_as_long() -> None:
    replicas = Replicas(("a", 100, None), ("b", 100, None), ("c", 100, None), ("d", 1, None))
    assert run(replicas.ask(1)) == "d"
    assert replicas.asked == [("a", 0), ("b", 1), ("c", 3), ("d", 7)]


def test_a_failure_asks_the_next_replica_at_once() -> None:
    replicas = Replicas(("broken", 0.5, ReadFault()), ("good", 1, None), ("never", 1, None))
    assert run(replicas.ask(2)) == "good"
    assert replicas.asked == [("broken", 0), ("good", 0.5)]


def test_without_patience_the_next_is_asked_only_after_a_failure() -> None:
    replicas = Replicas(("slow", 50, None), ("never", 1, None))
    assert run(replicas.ask(0)) == "slow"
    assert replicas.asked == [("slow", 0)]


def test_when_all_fail_the_error_that_says_most_is_raised() -> None:
    replicas = Replicas(("gone", 0.1, NoSuchEntry()), ("late", 5, BookieTimeout()), ("broken", 0.1, NoSuchEntry()))
    with pytest.raises(BookieTimeout):
        run(replicas.ask(1))
    assert len(replicas.asked) == 3


@pytest.mark.parametrize("sizes", [(3, 3, 2), (4, 2, 2)])
def test_a_read_does_not_wait_for_a_bookie_that_hangs(sizes: tuple[int, int, int]) -> None:
    async def story() -> None:
        scene = Scene(4)
        handle, writer = await new_ledger(scene.client("w"), sizes)
        writer.append(*(b"entry %d" % number for number in range(8)))
        await answered(writer)
        await handle.close()
        reading = await scene.client("r").open_ledger(handle.ledger_id)
        scene.cluster.bookies[members(handle)[0]].network = LinkState.SILENT
        began = asyncio.get_running_loop().time()
        read = 0
        while read < 8:
            read += len(await reading.read(read, 7))
        assert asyncio.get_running_loop().time() - began <= 8 * 2.1

    run(story())
