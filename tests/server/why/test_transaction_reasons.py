"""Why a subscription gets nothing while a transaction is open: told with its figures, and not told after its end."""

import pytest

from magnetar.server.why.reasons import Holds
from pulsar_proto.ids import Position
from tests.server.topics.scene import FakeConnection, settle
from tests.server.topics.transactions.scene import TxnScene, send
from tests.server.why.why_scene import subscription_reasons


@pytest.mark.parametrize("kind", ["Exclusive", "Failover", "Shared", "Key_Shared"])
async def test_an_open_transaction_is_named_with_what_it_holds_back(kind: str) -> None:
    scene = await TxnScene().start()
    opened, other = scene.known.begin(7), scene.known.begin(8)
    producer = await scene.producer(FakeConnection())
    send(producer, b"before")
    send(producer, b"inside", opened, 1)
    send(producer, b"behind", None, 2)
    send(producer, b"other", other, 3)
    await settle()
    (await scene.consumer(FakeConnection(), kind)).flow(10)
    await settle()
    reason = subscription_reasons(scene.topic)["TRANSACTION_OPEN"]
    assert reason.holds is Holds.EVERYTHING
    assert "Transaction (0,7) has been open for" in reason.sentence
    assert "holds 3 entries back, from its first message 10:1 on. 1 other transaction" in reason.sentence
    assert (reason.figures["transaction"], reason.figures["position"]) == ("(0,7)", str(Position(10, 1)))
    await scene.buffer.end(opened, True, 0)
    await settle()
    assert subscription_reasons(scene.topic)["TRANSACTION_OPEN"].figures["transaction"] == "(0,8)"
    await scene.buffer.end(other, False, 0)
    await settle()
    assert "TRANSACTION_OPEN" not in subscription_reasons(scene.topic)


async def test_what_stands_before_an_open_transaction_is_still_delivered() -> None:
    scene = await TxnScene().start()
    producer = await scene.producer(FakeConnection())
    send(producer, b"before")
    send(producer, b"inside", scene.known.begin(1), 1)
    await settle()
    await scene.consumer(FakeConnection(), "Shared")
    assert subscription_reasons(scene.topic)["TRANSACTION_OPEN"].holds is Holds.SOME
