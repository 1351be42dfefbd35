"""What open and aborted transactions mean for the other features of a topic."""

from typing import Any, cast

import pytest

from magnetar.server.topics import backlog
from magnetar.server.topics.transactions.readable_log import CommittedLog
from pulsar_proto.ids import EARLIEST, LATEST, Position, TxnId
from tests.server.topics.scene import FakeConnection, settle
from tests.server.topics.transactions.scene import TxnScene, send


async def sent(scene: TxnScene, *messages: tuple[bytes, TxnId | None]) -> None:
    producer = await scene.producer(FakeConnection())
    for body, txn_id in messages:
        send(producer, body, txn_id)
    await settle()


# --- the last message -------------------------------------------------------------------------------------------------


async def test_the_last_message_is_neither_a_marker_nor_aborted_nor_behind_an_open_transaction() -> None:
    scene = await TxnScene().start()
    committed, aborted, opened = (scene.known.begin(least) for least in (1, 2, 3))
    await sent(scene, (b"a", None), (b"b", committed))
    assert await scene.topic.last_message_id() == (Position(10, 0), -1)
    await scene.buffer.end(committed, True, 0)
    assert await scene.topic.last_message_id() == (Position(10, 1), -1)
    await sent(scene, (b"c", aborted))
    await scene.buffer.end(aborted, False, 0)
    assert await scene.topic.last_message_id() == (Position(10, 1), -1)
    await sent(scene, (b"d", opened), (b"e", None))
    assert await scene.topic.last_message_id() == (Position(10, 1), -1)
    await scene.buffer.end(opened, True, 2)
    assert await scene.topic.last_message_id() == (Position(10, 6), -1)


async def test_the_last_message_is_found_behind_hundreds_of_aborted_ones_and_they_are_read_once() -> None:
    scene = await TxnScene().start()
    await sent(scene, (b"first", None))
    aborted = scene.known.begin(1)
    scene.ledger.roll_now()
    await sent(scene, *((b"x", aborted) for _ in range(350)))
    await scene.buffer.end(aborted, False, 0)
    assert await scene.topic.last_message_id() == (Position(10, 0), -1)
    reads = len(scene.ledger.reads)
    assert await scene.topic.last_message_id() == (Position(10, 0), -1)
    assert len(scene.ledger.reads) <= reads + 1
    await sent(scene, (b"last", None))
    assert await scene.topic.last_message_id() == (Position(11, 351), -1)


async def test_a_topic_of_which_everything_was_aborted_has_no_last_message() -> None:
    scene = await TxnScene().start()
    aborted = scene.known.begin(1)
    await sent(scene, (b"x", aborted))
    await scene.buffer.end(aborted, False, 0)
    assert await scene.topic.last_message_id() == (EARLIEST, -1)


# --- seeks and readers ------------------------------------------------------------------------------------------------


async def test_a_reader_that_begins_behind_the_read_limit_gets_what_is_released() -> None:
    scene = await TxnScene().start()
    opened = scene.known.begin(1)
    await sent(scene, (b"a", None), (b"b", opened), (b"c", None))
    seen = await scene.seen("reader", durable=False, start_message_id=None)
    await scene.topic.subscriptions["reader"].reset(Position(10, 2))
    seen = await scene.seen("reader", durable=False)
    assert seen.bodies == []
    await scene.buffer.end(opened, True, 0)
    await settle()
    assert seen.bodies == [b"c"]


async def test_redelivery_gives_committed_messages_again_and_nothing_else() -> None:
    scene = await TxnScene().start()
    committed, aborted, opened = (scene.known.begin(least) for least in (1, 2, 3))
    await sent(scene, (b"a", None), (b"b", committed), (b"c", aborted))
    await scene.buffer.end(committed, True, 0)
    await scene.buffer.end(aborted, False, 0)
    await sent(scene, (b"d", opened))
    for sub_type in ("Exclusive", "Shared", "Key_Shared"):
        seen = await scene.seen(sub_type, sub_type)
        assert seen.bodies == [b"a", b"b"]
        scene.topic.subscriptions[sub_type].redeliver(scene.topic.subscriptions[sub_type].consumers[0], [])
        await settle()
        assert seen.bodies == [b"a", b"b"] * 2


# --- expiry and skipped backlogs --------------------------------------------------------------------------------------


async def open_behind_one(scene: TxnScene) -> TxnId:
    opened = scene.known.begin(1)
    await scene.topic.create_subscription("s", EARLIEST)
    await sent(scene, (b"a", None), (b"b", opened), (b"c", None))
    return opened


@pytest.mark.parametrize("how", ["clear", "skip", "expire"])
async def test_a_backlog_is_skipped_up_to_the_first_open_transaction_whose_messages_are_not_lost(how: str) -> None:
    scene = await TxnScene().start()
    opened = await open_behind_one(scene)
    subscription = scene.topic.subscriptions["s"]
    if how == "clear":
        assert await backlog.clear(subscription) == 1
    elif how == "skip":
        assert await backlog.skip(subscription, 3) == 1
    else:
        assert await backlog.expire_older(subscription, 5, 1_000_000) == 1
    await scene.buffer.end(opened, True, 0)
    await settle()
    assert (await scene.seen("s")).bodies == [b"b", b"c"]


async def test_peeking_shows_what_no_consumer_gets_yet_too() -> None:
    scene = await TxnScene().start()
    await open_behind_one(scene)
    found = await backlog.peek(scene.topic.subscriptions["s"], 2)
    assert found is not None
    assert found.position == Position(10, 1)


# --- the log as far as it may be read ---------------------------------------------------------------------------------


async def test_reads_end_at_the_limit_wherever_the_ledgers_end() -> None:
    scene = await TxnScene().start()
    opened = scene.known.begin(1)
    await sent(scene, (b"a", None), (b"b", None))
    scene.ledger.roll_now()
    await sent(scene, (b"c", None), (b"d", opened), (b"e", None))
    log = cast(CommittedLog, scene.topic.readable_log)
    assert log.last_confirmed == Position(11, 0)
    for position, wanted in (((10, 0), 2), ((10, 1), 1), ((11, 0), 1), ((11, 1), 0), ((11, 2), 0)):
        assert len((await log.read(Position(*position), 100, 10_000)).entries) == wanted
        cached: Any = log.cached(Position(*position), 100, 10_000)
        assert len(cached.entries) == wanted
    await scene.buffer.end(opened, True, 0)
    assert len((await log.read(Position(11, 0), 100, 10_000)).entries) == 4


async def test_a_subscription_at_the_latest_message_gets_what_is_published_after_it() -> None:
    scene = await TxnScene().start()
    opened = scene.known.begin(1)
    await sent(scene, (b"a", opened))
    await scene.topic.create_subscription("s", LATEST)
    await sent(scene, (b"b", opened))
    await scene.buffer.end(opened, True, 0)
    assert (await scene.seen("s")).bodies == [b"b"]
