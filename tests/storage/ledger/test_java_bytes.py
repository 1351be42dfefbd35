"""The records that a ledger leaves in the store, step by step, against those of Apache's client (BookKeeper 4.17.2).

The expected bytes were captured from ZooKeeper while that client worked; only the choice of bookies, the ledger id and
the creation token, which are random there, are given here.
"""

from collections.abc import MutableSequence, Sequence
from random import Random
from typing import Any

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import LedgerRecoveryFailed
from magnetar.storage.ledger.ledger_handle import WriteHandle
from pulsar_proto.wire.bookie_wire import BookieRc
from tests.storage.ledger.fake_bookie import FakeBookie, FakeCluster
from tests.storage.ledger.virtual_loop import run

OPEN = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a5708031003180020ffffffffffffffffff01280132320a0e313237"
    "2e302e302e313a333138370a0e3132372e302e302e313a333138380a0e3132372e302e302e313a33313839100038034200480260a7b0f8ebd3"
    "e4d58f19"
)
IN_RECOVERY = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a4f08031003180020ffffffffffffffffff01280232320a0e313237"
    "2e302e302e313a333138380a0e3132372e302e302e313a333138370a0e3132372e302e302e313a3331383910003803420048026000"
)
CLOSED = bytes.fromhex(
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a470803100318ac022002280332320a0e3132372e302e302e313a33"
    "3138390a0e3132372e302e302e313a333138370a0e3132372e302e302e313a3331383610003803420048026000"
)


class Chosen(Random):
    """A source of chance that leaves the bookies in the given order and draws the given token."""

    def __init__(self, order: Sequence[str], token: int) -> None:
        super().__init__(0)
        self._order = order
        self._token = token

    def shuffle(self, x: MutableSequence[Any]) -> None:
        x[:] = self._order

    def getrandbits(self, k: int, /) -> int:
        return self._token


class Java:
    """Our client in the place of Apache's: the same bookies by port, ledger id and token."""

    def __init__(self, ledger_id: int, ports: Sequence[int], token: int = 0) -> None:
        names = [f"127.0.0.1:{port}" for port in ports]
        self.cluster = FakeCluster(0)
        self.cluster.bookies = {name: FakeBookie(name) for name in names}
        self.store = MemoryStore()
        self._ledger_id = ledger_id
        self.client = BookKeeper(
            self.store,
            self.cluster.channel_of("client"),
            bookies=lambda: names,
            next_ledger_id=self._next_id,
            rng=Chosen(names, token),
        )

    async def create(self) -> WriteHandle:
        return await self.client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)

    async def record(self, path: str) -> bytes:
        record = await self.store.get(path)
        assert record is not None
        return record.value

    async def _next_id(self) -> int:
        return self._ledger_id


def test_a_new_ledger() -> None:
    async def story() -> None:
        java = Java(3, (3187, 3188, 3189), token=1810261392683309095)
        await java.create()
        assert await java.record("/ledgers/00/0000/L0003") == OPEN

    run(story())


def test_a_ledger_closed_after_three_entries_of_a_hundred_bytes() -> None:
    async def story() -> None:
        java = Java(12345, (3189, 3187, 3186), token=7)
        handle = await java.create()
        for _ in range(3):
            await handle.add(bytes(100))
        await handle.close()
        assert await java.record("/ledgers/00/0001/L2345") == CLOSED

    run(story())


def test_a_ledger_whose_recovery_closed_it() -> None:
    async def story() -> None:
        java = Java(12345, (3189, 3187, 3186), token=7)
        handle = await java.create()
        for _ in range(3):
            await handle.add(bytes(100))
        await java.client.open_ledger(12345)
        assert await java.record("/ledgers/00/0001/L2345") == CLOSED

    run(story())


def test_a_ledger_whose_recovery_did_not_come_to_an_end() -> None:
    async def story() -> None:
        java = Java(5, (3188, 3187, 3189), token=7)
        await java.create()
        for bookie in java.cluster.bookies.values():
            bookie.rc_of_read = BookieRc.EIO
        with pytest.raises(LedgerRecoveryFailed):
            await java.client.open_ledger(5)
        assert await java.record("/ledgers/00/0000/L0005") == IN_RECOVERY

    run(story())
