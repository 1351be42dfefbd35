"""A topic with open transactions cannot be terminated, because their ends could not be marked any more."""

import pytest

from pulsar_proto.errors import NotAllowed
from pulsar_proto.ids import Position, TxnId
from tests.server.topics.scene import FakeConnection, settle
from tests.server.topics.transactions.scene import TxnScene, send


async def test_a_topic_is_terminated_after_its_transactions() -> None:
    scene = await TxnScene().start()
    txn_id = scene.known.begin(1)
    send(await scene.producer(FakeConnection()), b"a", txn_id)
    await settle()
    with pytest.raises(NotAllowed, match=r"Transaction \(0,1\) is open in persistent://public/default/t"):
        await scene.topic.terminate()
    await scene.buffer.end(txn_id, True, 0)
    assert await scene.topic.terminate() == Position(10, 1)
    await scene.buffer.end(txn_id, True, 0)
    await scene.buffer.end(TxnId(0, 2), False, 1)
    assert (await scene.seen("s")).bodies == [b"a"]
