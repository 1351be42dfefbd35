"""Ends of transactions on a topic that only need a marker, as the coordinator of the same broker makes them."""

import asyncio

from tests.server.topics.scene import FakeConnection, settle
from tests.server.topics.transactions.scene import TxnScene, send


async def test_an_end_that_only_needs_a_marker_needs_no_task_and_is_shared() -> None:
    scene = await TxnScene().start()
    committed, aborted = scene.known.begin(1), scene.known.begin(2)
    assert scene.buffer.end_soon(committed, True, -1) is None, "the topic has no snapshot yet"
    producer = await scene.producer(FakeConnection())
    for number, txn_id in enumerate((committed, aborted)):
        send(producer, b"%d" % number, txn_id, number)
    await settle()
    endings = [scene.buffer.end_soon(committed, True, -1) for _ in range(2)]
    assert endings[0] is not None
    assert endings[0] is endings[1]
    ending = scene.buffer.end_soon(aborted, False, 0)
    assert ending is not None
    await asyncio.gather(endings[0], ending)
    assert (await scene.seen("s")).bodies == [b"0"]
    assert scene.buffer.end_soon(committed, True, -1) is None, "the transaction has ended here"
    assert scene.ledger.ledgers.entries == 2 + 2


async def test_an_end_that_tells_of_an_orphan_is_left_to_the_caller() -> None:
    scene = await TxnScene().start()
    blocking, orphan, later = (scene.known.begin(least, most) for least, most in ((9, 1), (3, 0), (8, 0)))
    producer = await scene.producer(FakeConnection())
    for number, txn_id in enumerate((blocking, orphan, later)):
        send(producer, b"%d" % number, txn_id, number)
    await settle()
    assert scene.buffer.end_soon(later, True, 7) is None
    await scene.buffer.end(later, True, 7)
    assert scene.buffer.end_soon(blocking, True, 8) is None, "the orphan is the oldest one after this end"
