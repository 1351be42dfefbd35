"""Producers of a topic: receipts, names, access modes, and a storage that fails."""

import logging

import pytest

from magnetar.server.topics.publishing.publish_fence_rules import HOLD_FIRST_SECONDS
from magnetar.storage.managed.managed_ledger_errors import AppendFault, ManagedLedgerFenced
from pulsar_proto.errors import QuotaExceeded, ServiceNotReady, TopicTerminated
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import send_error_frame
from tests.server.topics.scene import FakeConnection, Scene, in_virtual_time, pass_time, payload, publish, settle


async def test_a_group_is_answered_in_order_with_one_write() -> None:
    scene, cnx = Scene(), FakeConnection()
    producer = await scene.producer(cnx)
    publish(producer, [b"a", b"b", b"c"], first_sequence_id=5)
    assert producer.pending == 3
    assert cnx.receipts == []
    await settle()
    assert cnx.receipts == [(5, Position(10, 0)), (6, Position(10, 1)), (7, Position(10, 2))]
    assert cnx.writes == 1
    assert producer.pending == 0


async def test_single_messages_that_are_handed_over_without_commands_are_answered_alike() -> None:
    scene, cnx = Scene(), FakeConnection()
    producer = await scene.producer(cnx)
    producer.publish_singles(5, [payload(b"a"), payload(b"b")])
    assert producer.pending == 2
    await settle()
    assert cnx.receipts == [(5, Position(10, 0)), (6, Position(10, 1))]
    assert (producer.counters.messages_in, scene.topic.publishing.counters.messages_in) == (2, 2)
    producer.close()
    producer.publish_singles(7, [payload(b"late")])
    await settle()
    assert len(cnx.receipts) == 2


async def test_batches_are_answered_with_both_sequence_ids() -> None:
    scene, cnx = Scene(), FakeConnection()
    producer = await scene.producer(cnx)
    sends = [
        pb.CommandSend(producer_id=producer.producer_id, sequence_id=4, highest_sequence_id=9, num_messages=6),
        pb.CommandSend(producer_id=producer.producer_id, sequence_id=10, highest_sequence_id=3),
        pb.CommandSend(producer_id=producer.producer_id, sequence_id=11),
    ]
    producer.publish([(send, payload(b"x")) for send in sends])
    await settle()
    receipts = [each.send_receipt for each in cnx.of_type("SEND_RECEIPT")]
    assert [(each.sequence_id, each.highest_sequence_id) for each in receipts] == [(4, 9), (10, 0), (11, 0)]
    assert [each.HasField("highest_sequence_id") for each in receipts] == [True, False, False]
    assert scene.topic.publishing.counters.messages_in == 8


async def test_a_group_that_was_stored_in_two_ledgers_is_answered_with_both() -> None:
    scene, cnx = Scene(), FakeConnection()
    producer = await scene.producer(cnx)
    scene.ledger.holds_appends = True
    publish(producer, [b"a"], 0)
    publish(producer, [b"b", b"c"], 1)
    scene.ledger.confirm()
    scene.ledger.roll_now()
    scene.ledger.confirm()
    assert cnx.receipts == [(0, Position(10, 0)), (1, Position(11, 0)), (2, Position(11, 1))]


async def test_a_refusal_comes_after_the_receipts_of_what_was_sent_before() -> None:
    scene, cnx = Scene(), FakeConnection()
    producer = await scene.producer(cnx)
    scene.ledger.holds_appends = True
    publish(producer, [b"a"], 0)
    producer.refuse(send_error_frame(producer.producer_id, 1, pb.ChecksumError, "no"))
    publish(producer, [b"b"], 2)
    assert cnx.of_type("SEND_ERROR") == []
    scene.ledger.confirm()
    scene.ledger.confirm()
    kinds = [pb.BaseCommand.Type.Name(command.type) for command, _ in cnx.frames]
    assert kinds == ["SEND_RECEIPT", "SEND_ERROR", "SEND_RECEIPT"]
    producer.refuse(send_error_frame(producer.producer_id, 3, pb.ChecksumError, "no"))
    assert [each.send_error.sequence_id for each in cnx.of_type("SEND_ERROR")] == [1, 3]


async def test_a_producer_that_was_disconnected_hears_no_refusals() -> None:
    scene, cnx = Scene(), FakeConnection()
    producer = await scene.producer(cnx)
    scene.ledger.holds_appends = True
    publish(producer, [b"a"], 0)
    producer.refuse(send_error_frame(producer.producer_id, 1, pb.ChecksumError, "no"))
    producer.disconnect()
    scene.ledger.confirm()
    assert cnx.of_type("SEND_ERROR") == []


async def test_names_are_generated_or_the_client_s_own() -> None:
    scene, cnx = Scene(), FakeConnection()
    assert (await scene.producer(cnx)).name == "standalone-0-0"
    assert (await scene.producer(cnx, "mine")).name == "mine"
    assert sorted(scene.topic.producers) == ["mine", "standalone-0-0"]
    assert (await scene.producer(cnx)).last_sequence_id == -1


async def test_closing_frees_the_name_at_once_and_ends_when_everything_is_answered() -> None:
    scene, cnx = Scene(), FakeConnection()
    producer = await scene.producer(cnx, "p")
    assert producer.close() is None
    producer = await scene.producer(cnx, "p")
    scene.ledger.holds_appends = True
    publish(producer, [b"a"])
    closing = producer.close()
    assert closing is not None
    assert scene.topic.producers == {}
    publish(producer, [b"not taken any more"])
    scene.ledger.confirm()
    await closing
    assert len(cnx.receipts) == 1
    assert scene.ledger.groups_waiting == 0


# --- a storage that fails


async def test_a_failed_append_closes_all_producers_and_answers_nothing() -> None:
    scene, cnx, other = Scene(), FakeConnection(), FakeConnection("/other")
    producer = await scene.producer(cnx)
    await scene.producer(other)
    scene.ledger.holds_appends = True
    publish(producer, [b"a"], 0)
    publish(producer, [b"b"], 1)
    scene.ledger.append_failure = AppendFault("t", "write failed")
    scene.ledger.confirm()
    assert cnx.kinds == other.kinds == ["CLOSE_PRODUCER"]
    assert scene.topic.producers == {}
    with pytest.raises(ServiceNotReady, match="temporarily unavailable"):
        await scene.producer(cnx)
    scene.ledger.confirm()
    assert cnx.kinds == ["CLOSE_PRODUCER"], "nothing more, and no SEND_ERROR"
    assert producer.pending == 0
    scene.ledger.append_failure = None
    await settle()
    assert scene.ledger.opened == 1
    again = await scene.producer(cnx)
    publish(again, [b"a"], 0)
    scene.ledger.confirm()
    assert cnx.receipts == [(0, Position(10, 0))]


@in_virtual_time
async def test_while_storage_is_down_clients_are_told_so_and_let_in_when_it_works_again() -> None:
    scene, cnx = Scene(), FakeConnection()
    failure = AppendFault("t", "disk full")
    scene.ledger.append_failure = scene.ledger.open_failure = failure
    publish(await scene.producer(cnx), [b"a"])
    await settle()
    with pytest.raises(QuotaExceeded, match=r"Storage does not take messages: .*disk full"):
        await scene.producer(cnx)
    scene.ledger.append_failure = scene.ledger.open_failure = None
    await pass_time(HOLD_FIRST_SECONDS)
    publish(await scene.producer(cnx), [b"a"])
    await settle()
    assert cnx.receipts == [(0, Position(10, 0))]


@in_virtual_time
async def test_while_the_metadata_is_away_clients_keep_their_messages_and_come_again() -> None:
    """On ServiceNotReady clients send again what was not answered; on any quota error they fail it."""
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_failure = scene.ledger.open_failure = AppendFault("t", "no answer")
    scene.ledger.metadata_is_away = True
    publish(await scene.producer(cnx), [b"a"])
    await settle()
    with pytest.raises(ServiceNotReady, match="temporarily unavailable"):
        await scene.producer(cnx)
    scene.ledger.metadata_is_away = False
    with pytest.raises(ServiceNotReady, match="temporarily unavailable"):
        await scene.producer(cnx)  # the store is back, and the next try to open a ledger is still to come
    await pass_time(HOLD_FIRST_SECONDS)
    with pytest.raises(QuotaExceeded):
        await scene.producer(cnx)  # this try failed although the store is there
    scene.ledger.append_failure = scene.ledger.open_failure = None
    await pass_time(2 * HOLD_FIRST_SECONDS)
    publish(await scene.producer(cnx), [b"a"])
    await settle()
    assert cnx.receipts == [(0, Position(10, 0))]


async def test_receipts_of_what_was_stored_before_the_failure_are_sent() -> None:
    scene, cnx = Scene(), FakeConnection()
    producer = await scene.producer(cnx)
    scene.ledger.holds_appends = True
    publish(producer, [b"a"], 0)
    publish(producer, [b"b"], 1)
    scene.ledger.confirm()
    scene.ledger.append_failure = AppendFault("t", "write failed")
    scene.ledger.confirm()
    assert cnx.kinds == ["SEND_RECEIPT", "CLOSE_PRODUCER"]


async def test_a_log_that_somebody_else_owns_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_failure = ManagedLedgerFenced("t", "owned by another broker")
    publish(await scene.producer(cnx), [b"a"])
    await settle()
    assert scene.lost == [scene.topic]
    assert not scene.topic.is_open
    assert "cannot go on" in caplog.text
    with pytest.raises(ServiceNotReady):
        await scene.producer(cnx)


async def test_a_terminated_topic_closes_its_producers_and_takes_no_new_ones() -> None:
    scene, cnx = Scene(), FakeConnection()
    producer = await scene.producer(cnx)
    publish(producer, [b"a"])
    await settle()
    assert await scene.topic.terminate() == Position(10, 0)
    assert cnx.kinds == ["SEND_RECEIPT", "CLOSE_PRODUCER"]
    with pytest.raises(TopicTerminated, match="Topic was already terminated"):
        await scene.producer(cnx)


async def test_sends_that_met_the_end_are_not_answered() -> None:
    scene, cnx = Scene(), FakeConnection()
    producer = await scene.producer(cnx)
    scene.ledger.holds_appends = True
    publish(producer, [b"a"])
    await scene.topic.terminate()
    scene.ledger.confirm()
    assert cnx.kinds == ["CLOSE_PRODUCER"]
