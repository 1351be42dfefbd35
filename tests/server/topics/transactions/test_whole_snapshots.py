"""Snapshots in one piece that are written while transactions go on to end."""

import asyncio
from collections import OrderedDict
from typing import Any, cast

import pytest

from magnetar.server.process import turns
from magnetar.server.topics.transactions.snapshots import WholeSnapshots
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.names import TopicName
from pulsar_proto.records.transaction_snapshot import decode_snapshot
from tests.server.steps import finish

MANY = 1_000
NAME = TopicName.parse("persistent://public/default/t")


class Table:
    """Keeps the last content that was stored."""

    def __init__(self) -> None:
        self.value = b""

    async def put(self, key: str, value: bytes) -> None:
        await asyncio.sleep(0)
        self.value = value


async def test_transactions_may_end_and_be_forgotten_while_a_snapshot_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PORTION_SECONDS", 0.0)
    aborted = OrderedDict((TxnId(0, least), Position(1, least)) for least in range(MANY))
    table = Table()
    writing = asyncio.create_task(WholeSnapshots(NAME, cast(Any, table)).write(aborted, Position(1, 7)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not writing.done()
    del aborted[TxnId(0, MANY - 1)]
    aborted[TxnId(0, MANY)] = Position(1, MANY)
    await writing
    snapshot = finish(decode_snapshot(table.value))
    assert [each.txn_id.least for each in snapshot.aborts] == list(range(MANY - 1))
    assert snapshot.max_read_position == Position(1, 7)
