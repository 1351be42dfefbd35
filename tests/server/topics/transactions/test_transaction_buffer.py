"""Messages of transactions on a topic: when consumers get them, and what is refused."""

import asyncio

import pytest

from magnetar.server.topics.transactions.snapshot_table import SnapshotKind
from magnetar.server.topics.transactions.transaction_buffer import BufferState
from magnetar.storage.managed.managed_ledger_errors import AppendFault
from pulsar_proto.errors import PersistenceFault, ServiceNotReady
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import metadata_and_body, parse_metadata, txn_of, verify_checksum
from pulsar_proto.records.transaction_marker import marker_of
from tests.server.topics.scene import FakeConnection, in_virtual_time, pass_time, publish, settle
from tests.server.topics.transactions.scene import TxnScene, refusals, send, send_of

TYPES = ("Exclusive", "Failover", "Shared", "Key_Shared")
ENDED = "Transaction [(0,1)] has been ended. Please use a new transaction to send message."


@pytest.mark.parametrize("sub_type", TYPES)
async def test_an_open_transaction_holds_back_all_that_stands_behind_it_until_it_is_committed(sub_type: str) -> None:
    scene = await TxnScene().start()
    txn_id = scene.known.begin(1)
    seen = await scene.seen("s", sub_type)
    producer = await scene.producer(FakeConnection())
    send(producer, b"before")
    send(producer, b"inside", txn_id, 1)
    send(producer, b"behind", None, 2)
    await settle()
    assert seen.bodies == [b"before"]
    assert scene.buffer.max_read_position == Position(10, 0)
    await scene.buffer.end(txn_id, True, 0)
    await settle()
    assert seen.bodies == [b"before", b"inside", b"behind"]


@pytest.mark.parametrize("sub_type", TYPES)
async def test_messages_of_an_aborted_transaction_are_left_out_and_acknowledged(sub_type: str) -> None:
    scene = await TxnScene().start()
    txn_id = scene.known.begin(1)
    seen = await scene.seen("s", sub_type)
    producer = await scene.producer(FakeConnection())
    send(producer, b"inside", txn_id)
    send(producer, b"behind", None, 1)
    await settle()
    assert seen.bodies == []
    await scene.buffer.end(txn_id, False, 0)
    await settle()
    assert seen.bodies == [b"behind"]
    cursor = scene.topic.subscriptions["s"].cursor
    assert [cursor.is_acked(10, entry) for entry in range(3)] == [True, False, True]
    assert (await scene.seen("late", sub_type)).bodies == [b"behind"]


async def test_transactions_that_overlap_are_released_in_the_order_of_the_log() -> None:
    scene = await TxnScene().start()
    first, second, third = (scene.known.begin(least) for least in (1, 2, 3))
    seen = await scene.seen("s")
    producer = await scene.producer(FakeConnection())
    for number, (body, txn_id) in enumerate([(b"a", first), (b"b", second), (b"c", first), (b"d", third)]):
        send(producer, body, txn_id, number)
    await settle()
    await scene.buffer.end(second, True, 0)
    await settle()
    assert seen.bodies == []
    await scene.buffer.end(first, True, 0)
    await settle()
    assert seen.bodies == [b"a", b"b", b"c"]
    await scene.buffer.end(third, False, 0)
    await settle()
    assert seen.bodies == [b"a", b"b", b"c"]
    assert scene.buffer.max_read_position == scene.ledger.last_confirmed == Position(10, 6)


async def test_a_marker_is_that_of_apache_and_is_given_to_nobody() -> None:
    scene = await TxnScene().start()
    txn_id = scene.known.begin(7, most=3)
    producer = await scene.producer(FakeConnection())
    send(producer, b"a", txn_id)
    await settle()
    await scene.buffer.end(txn_id, True, 6)
    metadata = parse_metadata(scene.ledger.entries[10][1], 36)
    marker = marker_of(metadata)
    assert marker is not None
    assert marker == (txn_id, True)
    assert metadata.producer_name == "pulsar.txn.marker"
    assert metadata.publish_time == scene.now_ms
    assert (await scene.seen("s")).bodies == [b"a"]


async def test_the_first_message_of_a_transaction_waits_for_a_snapshot_and_later_sends_wait_behind_it() -> None:
    scene = await TxnScene().start()
    txn_id = scene.known.begin(1)
    log = scene.logs.of(SnapshotKind.WHOLE)
    log.gate = asyncio.Event()
    cnx = FakeConnection()
    producer = await scene.producer(cnx)
    send(producer, b"plain")
    send(producer, b"first", txn_id, 1)
    publish(producer, [b"later"], 2)
    await settle()
    assert [sequence_id for sequence_id, _ in cnx.receipts] == [0]
    assert producer.pending == 2
    assert scene.buffer.state is BufferState.NO_SNAPSHOT
    log.gate.set()
    await settle()
    assert cnx.receipts == [(0, Position(10, 0)), (1, Position(10, 1)), (2, Position(10, 2))]
    assert (producer.pending, scene.buffer.state) == (0, BufferState.READY)
    assert len(log.messages) == 1
    publish(producer, [b"on the short way"], 3)
    assert not scene.topic.publishing.is_checked


async def test_a_failed_first_snapshot_refuses_the_message_so_that_the_client_sends_it_again() -> None:
    scene = await TxnScene().start()
    txn_id = scene.known.begin(1)
    log = scene.logs.of(SnapshotKind.WHOLE)
    log.failure = PersistenceFault("no bookies")
    cnx = FakeConnection()
    producer = await scene.producer(cnx)
    send(producer, b"first", txn_id)
    publish(producer, [b"plain"], 1)
    await settle()
    assert refusals(cnx) == [(0, "no bookies")]
    assert [sequence_id for sequence_id, _ in cnx.receipts] == [1]
    log.failure = None
    send(producer, b"again", txn_id, 2)
    await settle()
    assert [sequence_id for sequence_id, _ in cnx.receipts] == [1, 2]


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_an_id_that_no_coordinator_knows_is_refused_and_blocks_nobody(is_elsewhere: bool) -> None:
    scene = await TxnScene().start()
    scene.known.is_elsewhere = is_elsewhere
    seen = await scene.seen("s")
    cnx = FakeConnection()
    producer = await scene.producer(cnx)
    send(producer, b"plain")
    send(producer, b"wild", TxnId(0, 1), 1)
    send(producer, b"behind", None, 2)
    await settle()
    assert refusals(cnx) == [(1, ENDED)]
    assert cnx.kinds[-3:] == ["SEND_RECEIPT", "SEND_ERROR", "SEND_RECEIPT"]
    assert seen.bodies == [b"plain", b"behind"]
    assert scene.logs.of(SnapshotKind.WHOLE).messages == []


async def test_a_coordinator_elsewhere_is_asked_once_for_each_transaction_and_order_is_kept() -> None:
    scene = await TxnScene().start()
    scene.known.is_elsewhere = True
    txn_id = scene.known.begin(1)
    cnx = FakeConnection()
    producer = await scene.producer(cnx)
    for number in range(4):
        send(producer, b"%d" % number, txn_id, number)
    await settle(60)
    assert [sequence_id for sequence_id, _ in cnx.receipts] == [0, 1, 2, 3]
    assert scene.known.asked == 1


async def test_nobody_who_can_tell_whether_an_id_is_live_means_that_the_client_tries_again() -> None:
    scene = await TxnScene().start()
    scene.known.failure = ServiceNotReady("the coordinator is being loaded")
    cnx = FakeConnection()
    producer = await scene.producer(cnx)
    send(producer, b"a", TxnId(0, 1))
    await settle()
    assert [each.send_error.error for each in cnx.of_type("SEND_ERROR")] == [pb.ServiceNotReady]


async def test_a_message_that_comes_after_the_end_is_refused_even_while_its_coordinator_still_ends_others() -> None:
    scene = await TxnScene().start()
    txn_id = scene.known.begin(1)
    cnx = FakeConnection()
    producer = await scene.producer(cnx)
    send(producer, b"a", txn_id)
    await settle()
    await scene.buffer.end(txn_id, False, 0)
    send(producer, b"late", txn_id, 1)
    await settle()
    assert refusals(cnx) == [(1, ENDED)]


async def test_a_send_whose_metadata_names_another_transaction_is_refused() -> None:
    scene = await TxnScene().start()
    txn_id = scene.known.begin(1)
    cnx = FakeConnection()
    producer = await scene.producer(cnx)
    command, _ = send_of(producer, b"a", txn_id)
    producer.publish_in_transactions([(command, send_of(producer, b"a", TxnId(0, 2))[1])])
    await settle()
    assert [text for _, text in refusals(cnx)] == [
        "The metadata of a message of transaction (0,1) names transaction (0,2)",
    ]


async def test_a_send_whose_metadata_names_no_transaction_is_stored_with_the_id_of_its_transaction() -> None:
    scene = await TxnScene().start()
    txn_id = scene.known.begin(1)
    cnx = FakeConnection()
    producer = await scene.producer(cnx)
    command, _ = send_of(producer, b"hidden", txn_id)
    producer.publish_in_transactions([(command, send_of(producer, b"hidden")[1])])
    await settle()
    assert refusals(cnx) == []
    position = cnx.receipts[0][1]
    run = scene.ledger.cached(position, 1, 1)
    assert run is not None
    stored = run.entries[0][run.payload_offset :]
    assert verify_checksum(stored)
    metadata, text = metadata_and_body(stored)
    assert txn_of(metadata) == txn_id
    assert text == b"hidden"
    await scene.buffer.end(txn_id, False, 0)
    reading = FakeConnection()
    (await scene.consumer(reading)).flow(10)
    await settle()
    assert reading.messages == []


@pytest.mark.parametrize("sub_type", ["Exclusive", "Shared", "Key_Shared"])
async def test_a_consumer_that_was_there_before_the_topic_s_first_transaction_waits_for_its_end(sub_type: str) -> None:
    scene = await TxnScene().start()
    producer = await scene.producer(FakeConnection())
    seen = await scene.seen("s", sub_type)
    send(producer, b"before")
    await settle()
    assert scene.topic.transactions is None
    txn_id = scene.known.begin(1)
    send(producer, b"in it", txn_id, 1)
    send(producer, b"behind", None, 2)
    await settle()
    assert seen.bodies == [b"before"]
    await scene.buffer.end(txn_id, True, 0)
    await settle()
    assert seen.bodies == [b"before", b"in it", b"behind"]


async def test_a_topic_without_transactions_refuses_their_messages() -> None:
    scene = TxnScene()  # transactions are off: the topic is not made to take them
    await scene.topic.prepare()
    cnx = FakeConnection()
    producer = await scene.producer(cnx)
    send(producer, b"a", TxnId(0, 1))
    assert refusals(cnx) == [(0, "Transactions are not enabled.")]


async def test_deduplication_counts_messages_of_transactions_and_those_of_aborted_ones_too() -> None:
    scene = await TxnScene(broker_deduplication_enabled=True).start()
    await settle()
    first, second = scene.known.begin(1), scene.known.begin(2)
    cnx = FakeConnection()
    producer = await scene.producer(cnx, "p")
    send(producer, b"a", first, 5)
    send(producer, b"a", first, 5)
    await settle()
    await scene.buffer.end(first, False, 0)
    send(producer, b"a again", second, 5)
    await settle()
    assert cnx.receipts == [(5, Position(10, 0)), (5, Position(-1, -1)), (5, Position(-1, -1))]


async def test_a_second_end_changes_nothing_that_anybody_sees() -> None:
    scene = await TxnScene().start()
    committed, aborted = scene.known.begin(1), scene.known.begin(2)
    producer = await scene.producer(FakeConnection())
    send(producer, b"a", committed)
    send(producer, b"b", aborted, 1)
    await settle()
    for _ in range(2):
        await asyncio.gather(*(scene.buffer.end(committed, True, 0) for _ in range(3)))
        await asyncio.gather(*(scene.buffer.end(aborted, False, 0) for _ in range(3)))
    assert (await scene.seen("s")).bodies == [b"a"]
    assert scene.buffer.transactions.open == {}
    assert scene.ledger.ledgers.entries == 2 + 2 + 1, "a commit is marked again, an abort is not"


async def test_an_abort_on_a_topic_without_a_snapshot_writes_nothing_and_a_commit_its_marker() -> None:
    scene = await TxnScene().start()
    await scene.buffer.end(TxnId(0, 28), False, 27)
    assert scene.ledger.ledgers.entries == 0
    await scene.buffer.end(TxnId(0, 29), True, 28)
    assert scene.ledger.ledgers.entries == 1
    assert scene.buffer.state is BufferState.NO_SNAPSHOT
    assert scene.buffer.transactions.low_watermarks == {0: 28}


async def test_an_end_whose_marker_is_not_stored_fails_and_succeeds_when_it_is_tried_again() -> None:
    scene = await TxnScene().start()
    txn_id = scene.known.begin(1)
    producer = await scene.producer(FakeConnection())
    send(producer, b"a", txn_id)
    await settle()
    scene.ledger.append_failure = AppendFault("t", "no bookies")
    with pytest.raises(PersistenceFault, match="no bookies"):
        await scene.buffer.end(txn_id, True, 0)
    assert scene.buffer.max_read_position == Position(-1, -1) or scene.buffer.max_read_position < Position(10, 0)
    scene.ledger.append_failure = None
    await scene.buffer.end(txn_id, True, 0)
    assert (await scene.seen("s")).bodies == [b"a"]


async def test_an_end_on_a_closed_topic_is_refused_so_that_the_coordinator_asks_again() -> None:
    scene = await TxnScene().start()
    scene.topic.detach()
    with pytest.raises(ServiceNotReady):
        await scene.buffer.end(TxnId(0, 1), True, 0)
    assert isinstance(scene.buffer.admission(TxnId(0, 1)), ServiceNotReady)


async def test_a_low_watermark_aborts_what_its_coordinator_has_ended_without_telling_this_topic() -> None:
    scene = await TxnScene().start()
    orphan, other, later = scene.known.begin(3), scene.known.begin(3, most=1), scene.known.begin(8)
    seen = await scene.seen("s")
    cnx = FakeConnection()
    producer = await scene.producer(cnx)
    for number, txn_id in enumerate((orphan, other, later)):
        send(producer, b"%d" % number, txn_id, number)
    await settle()
    await scene.buffer.end(later, True, 7)
    await settle()
    assert scene.buffer.is_aborted(orphan)
    assert list(scene.buffer.transactions.open) == [other], "another coordinator's count says nothing"
    await scene.buffer.end(other, True, -1)
    await settle()
    assert seen.bodies == [b"1", b"2"]
    send(producer, b"late", TxnId(0, 7), 3)
    assert refusals(cnx) == [(3, "Transaction [(0,7)] has been ended. Please use a new transaction to send message.")]


@pytest.mark.parametrize("is_elsewhere", [False, True])
@in_virtual_time
async def test_a_transaction_that_its_coordinator_has_forgotten_does_not_block_the_topic(is_elsewhere: bool) -> None:
    scene = await TxnScene().start()
    forgotten, live = scene.known.begin(3), scene.known.begin(4)
    seen = await scene.seen("s")
    producer = await scene.producer(FakeConnection())
    send(producer, b"a", forgotten)
    send(producer, b"b", live, 1)
    await settle()
    scene.known.is_elsewhere = is_elsewhere
    scene.known.live.discard(forgotten)
    scene.known.failure = ServiceNotReady("the coordinator is being loaded")
    await pass_time(11)
    assert list(scene.buffer.transactions.open) == [forgotten, live]
    scene.known.failure = None
    await pass_time(11)
    assert list(scene.buffer.transactions.open) == [live]
    await scene.buffer.end(live, True, 3)
    await settle()
    assert seen.bodies == [b"b"]
    scene.topic.detach()


async def test_a_producer_that_closes_while_its_sends_wait_is_let_go() -> None:
    scene = await TxnScene().start()
    log = scene.logs.of(SnapshotKind.WHOLE)
    log.gate = asyncio.Event()
    producer = await scene.producer(FakeConnection())
    send(producer, b"a", scene.known.begin(1))
    closing = producer.close()
    assert closing is not None
    log.gate.set()
    await closing
    assert producer.pending == 0
    assert scene.ledger.ledgers.entries == 0


async def test_a_batch_of_a_transaction_is_one_entry_of_it() -> None:
    scene = await TxnScene().start()
    txn_id = scene.known.begin(1)
    producer = await scene.producer(FakeConnection())
    send(producer, b"xyz", txn_id, batch=3)
    await settle()
    seen = await scene.seen("s")
    await scene.buffer.end(txn_id, True, 0)
    await settle()
    assert [each.messages for each in seen.messages] == [3]
