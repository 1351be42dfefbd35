"""Producers of a topic: receipts, names, access modes, and a storage that fails."""

import asyncio
import logging

import pytest

from magnetar.server.topics.publishing.producer_access_rules import TOPIC_EPOCH
from magnetar.server.topics.publishing.publish_fence_rules import HOLD_FIRST_SECONDS
from magnetar.storage.managed.managed_ledger_errors import AppendFault, ManagedLedgerFenced
from pulsar_proto.errors import ProducerBusy, ProducerFenced, QuotaExceeded, ServiceNotReady, TopicTerminated
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


async def test_a_taken_name_is_refused_while_its_owner_lives() -> None:
    scene, old, new = Scene(), FakeConnection("/old"), FakeConnection("/new")
    await scene.producer(old, "p")
    with pytest.raises(ProducerBusy, match=r"Producer with name 'p' is already connected to topic '.*/t'"):
        await scene.producer(new, "p")
    with pytest.raises(ProducerBusy):
        await scene.producer(old, "p")
    old.is_alive = False
    second = await scene.producer(new, "p")
    assert scene.topic.producers == {"p": second}
    assert not old.is_open


async def test_the_newcomer_waits_for_the_probe_s_answer() -> None:
    scene, old, new = Scene(), FakeConnection("/old"), FakeConnection("/new")
    await scene.producer(old, "p")
    old.probe = asyncio.Event()
    coming = asyncio.ensure_future(scene.producer(new, "p"))
    await settle()
    assert not coming.done()
    old.close("reset by peer")
    old.probe.set()
    assert (await coming).cnx is new


async def test_a_generated_name_comes_back_from_a_new_connection_without_a_probe() -> None:
    scene, old, new = Scene(), FakeConnection("/old"), FakeConnection("/new")
    await scene.producer(old, "generated", user_provided_producer_name=False, epoch=0)
    second = await scene.producer(new, "generated", user_provided_producer_name=False, epoch=1)
    assert scene.topic.producers == {"generated": second}
    assert old.kinds == ["CLOSE_PRODUCER"]


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


async def test_too_many_producers_are_busy() -> None:
    scene, cnx = Scene(max_producers_per_topic=1), FakeConnection()
    await scene.producer(cnx)
    with pytest.raises(ProducerBusy, match="max producers limit"):
        await scene.producer(cnx)


async def test_a_connection_that_closed_meanwhile_gets_no_producer() -> None:
    scene, old, new = Scene(), FakeConnection("/old"), FakeConnection("/new")
    await scene.producer(old, "p")
    old.probe, old.is_alive = asyncio.Event(), False
    coming = asyncio.ensure_future(scene.producer(new, "p"))
    await settle()
    new.close("gone")
    old.probe.set()
    with pytest.raises(ServiceNotReady):
        await coming
    assert scene.topic.producers == {}


# --- exclusive access


async def test_exclusive_producers_keep_others_out_and_store_their_epoch() -> None:
    scene, cnx = Scene(), FakeConnection()
    producer = await scene.producer(cnx, "ex", producer_access_mode=pb.Exclusive)
    assert producer.topic_epoch == 0
    assert scene.ledger.properties == {TOPIC_EPOCH: "0"}
    with pytest.raises(ProducerFenced, match="Topic has an existing exclusive producer: ex"):
        await scene.producer(cnx, producer_access_mode=pb.Exclusive)
    with pytest.raises(ProducerBusy, match="Topic has an existing exclusive producer: ex"):
        await scene.producer(cnx)
    producer.close()
    assert (await scene.producer(cnx, "ex2", producer_access_mode=pb.Exclusive)).topic_epoch == 1
    scene.load()
    assert (await scene.producer(cnx)).topic_epoch == 1, "told to shared producers, too"


async def test_a_producer_that_was_replaced_cannot_come_back() -> None:
    scene, cnx = Scene(), FakeConnection()
    first = await scene.producer(cnx, "a", producer_access_mode=pb.Exclusive)
    second = await scene.producer(cnx, "b", producer_access_mode=pb.ExclusiveWithFencing)
    assert first.is_closed
    assert cnx.kinds == ["CLOSE_PRODUCER"]
    assert second.topic_epoch == 1
    second.close()
    with pytest.raises(ProducerFenced, match="Topic epoch has already moved"):
        await scene.producer(cnx, "a", producer_access_mode=pb.Exclusive, topic_epoch=0)
    assert (await scene.producer(cnx, "b", producer_access_mode=pb.Exclusive, topic_epoch=1)).topic_epoch == 1


async def test_waiting_producers_are_told_and_get_their_turn_in_order() -> None:
    scene, cnx, dead = Scene(), FakeConnection(), FakeConnection("/dead")
    first = await scene.producer(cnx, "first", producer_access_mode=pb.WaitForExclusive)
    lost = asyncio.ensure_future(scene.producer(dead, "lost", producer_access_mode=pb.WaitForExclusive))
    second = asyncio.ensure_future(scene.producer(cnx, "second", producer_access_mode=pb.WaitForExclusive))
    await settle()
    (answer,) = cnx.of_type("PRODUCER_SUCCESS")
    assert (answer.producer_success.producer_name, answer.producer_success.producer_ready) == ("second", False)
    with pytest.raises(ProducerBusy):
        await scene.producer(cnx)
    dead.close("gone")
    first.close()
    granted = await second
    assert granted.topic_epoch == 1
    assert scene.topic.producers == {"second": granted}
    with pytest.raises(ServiceNotReady):
        await lost


@pytest.mark.parametrize("turns", range(8))
async def test_who_leaves_while_it_gets_exclusive_access_does_not_keep_it(turns: int) -> None:
    scene, cnx, leaving = Scene(), FakeConnection(), FakeConnection("/leaving")
    first = await scene.producer(cnx, "first", producer_access_mode=pb.WaitForExclusive)
    waiting = asyncio.ensure_future(scene.producer(leaving, "waits", producer_access_mode=pb.WaitForExclusive))
    await settle()
    first.close()
    await settle(turns)
    leaving.is_open = False
    if waiting.done():
        waiting.result().close()  # its connection closes a producer that was told that it may produce
    waiting.cancel()
    await settle()
    assert scene.topic.producers == {}
    after = await scene.producer(cnx, "after", producer_access_mode=pb.Exclusive)
    assert scene.topic.producers == {"after": after}


async def test_fencing_refuses_those_who_wait() -> None:
    scene, cnx = Scene(), FakeConnection()
    await scene.producer(cnx)
    waiting = asyncio.ensure_future(scene.producer(cnx, producer_access_mode=pb.WaitForExclusive))
    await settle()
    await scene.producer(cnx, "fencer", producer_access_mode=pb.ExclusiveWithFencing)
    with pytest.raises(ProducerFenced, match="Fenced out"):
        await waiting
    assert list(scene.topic.producers) == ["fencer"]


async def test_an_epoch_that_cannot_be_stored_grants_nothing() -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.open_failure = AppendFault("t", "no space")
    with pytest.raises(Exception, match="no space"):
        await scene.producer(cnx, producer_access_mode=pb.Exclusive)
    scene.ledger.open_failure = None
    assert (await scene.producer(cnx)).topic_epoch is None


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
