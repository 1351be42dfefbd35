"""Deduplication of a topic: answers and their order, snapshots, replay, chunks, and switching it on and off."""

from dataclasses import replace
from typing import Any

import pytest

from magnetar.server.policies.effective_policies import of_broker
from magnetar.server.topics.publishing.deduplication import CANNOT_TELL, DEDUP_CURSOR
from magnetar.server.topics.publishing.producer import Producer
from magnetar.storage.managed.managed_ledger_errors import AppendFault, CursorFault
from pulsar_proto.errors import MetadataFault, NotAllowed
from pulsar_proto.ids import EARLIEST, Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.scene import FakeConnection, Scene, in_virtual_time, message, settle

DUPLICATE = Position(-1, -1)


def send(producer: Producer, *sequence_ids: int, chunk: tuple[int, int] | None = None) -> None:
    producer.publish(
        [
            (
                pb.CommandSend(producer_id=producer.producer_id, sequence_id=each, is_chunk=chunk is not None),
                message(each, producer.name, chunk),
            )
            for each in sequence_ids
        ]
    )


async def deduplicating(**settings: Any) -> Scene:
    scene = Scene(broker_deduplication_enabled=True, **settings)
    await scene.topic.prepare()
    return scene


async def reloaded(scene: Scene) -> Scene:
    """Returns the topic as a broker finds it after a kill: with the same log, and with the cursors as they were
    stored."""
    scene.load()
    await scene.topic.prepare()
    return scene


def entries(scene: Scene) -> int:
    return scene.ledger.ledgers.entries


@in_virtual_time
async def test_single_messages_that_are_handed_over_without_commands_are_deduplicated_too() -> None:
    scene = await deduplicating()
    cnx = FakeConnection()
    producer = await scene.producer(cnx, "p")
    producer.publish_singles(0, [message(0, "p"), message(1, "p")])
    await settle()
    producer.publish_singles(1, [message(1, "p"), message(2, "p")])
    await settle()
    assert [position == DUPLICATE for _, position in cnx.receipts] == [False, False, True, False]
    assert entries(scene) == 3


@in_virtual_time
async def test_a_duplicate_gets_a_receipt_without_a_place_and_is_not_stored() -> None:
    scene = await deduplicating()
    cnx = FakeConnection()
    producer = await scene.producer(cnx, "p")
    assert producer.last_sequence_id == -1
    send(producer, 0, 1, 2)
    await settle()
    send(producer, 1, 2, 3)
    await settle()
    assert cnx.receipts == [
        (0, Position(10, 0)),
        (1, Position(10, 1)),
        (2, Position(10, 2)),
        (1, DUPLICATE),
        (2, DUPLICATE),
        (3, Position(10, 3)),
    ]
    assert entries(scene) == 4


@in_virtual_time
async def test_answers_keep_the_order_of_the_sends() -> None:
    scene = await deduplicating()
    cnx = FakeConnection()
    producer = await scene.producer(cnx, "p")
    send(producer, 0, 1)
    await settle()
    cnx.forget()
    scene.ledger.holds_appends = True
    send(producer, 5, 1, 6, 0)
    await settle()
    assert cnx.frames == []
    scene.ledger.confirm()
    assert [each for each, _ in cnx.receipts] == [5, 1]
    scene.ledger.confirm()
    assert [each for each, _ in cnx.receipts] == [5, 1, 6, 0]


@in_virtual_time
async def test_what_another_connection_has_under_way_cannot_be_judged() -> None:
    scene = await deduplicating()
    scene.ledger.holds_appends = True
    old, new = FakeConnection(), FakeConnection()
    producer = await scene.producer(old, "p")
    send(producer, 7)
    old.close("gone")
    again = await scene.producer(new, "p")
    assert again.last_sequence_id == 7
    send(again, 7)
    await settle()
    (error,) = new.of_type("SEND_ERROR")
    assert (error.send_error.error, error.send_error.sequence_id) == (pb.PersistenceError, 7)
    assert error.send_error.message == CANNOT_TELL
    scene.ledger.confirm()
    send(again, 7)
    assert new.receipts == [(7, DUPLICATE)]
    assert entries(scene) == 1


class FragileConnection(FakeConnection):
    """Closes with the first answer to a SEND, as the connection of a client does that does not read its answers."""

    def write(self, data: bytes) -> None:
        super().write(data)
        if self.receipts:
            self.close("too much output")


@in_virtual_time
async def test_what_was_not_looked_at_because_the_connection_ended_may_come_again() -> None:
    scene = await deduplicating()
    send(await scene.producer(FakeConnection(), "p"), 0)
    await settle()
    scene.topic.producers["p"].close()
    send(await scene.producer(FragileConnection(), "p"), 0, 1)
    await settle()
    cnx = FakeConnection()
    again = await scene.producer(cnx, "p")
    assert again.last_sequence_id == 0
    send(again, 1)
    await settle()
    assert cnx.receipts == [(1, Position(10, 1))]


@in_virtual_time
async def test_what_failed_may_come_again() -> None:
    scene = await deduplicating()
    cnx = FakeConnection()
    producer = await scene.producer(cnx, "p")
    scene.ledger.append_failure = AppendFault("t", "no bookies")
    send(producer, 0, 1)
    await settle()
    assert cnx.kinds == ["CLOSE_PRODUCER"]
    scene.ledger.append_failure = None
    again = await scene.producer(cnx, "p")
    assert again.last_sequence_id == -1
    send(again, 0, 1)
    await settle()
    assert [position for _, position in cnx.receipts] == [Position(10, 0), Position(10, 1)]


@in_virtual_time
async def test_only_the_last_chunk_counts() -> None:
    scene = await deduplicating()
    cnx = FakeConnection()
    producer = await scene.producer(cnx, "p")
    for chunk in range(3):
        send(producer, 4, chunk=(chunk, 3))
    await settle()
    assert entries(scene) == 3
    assert scene.topic.publishing.dedup is not None
    assert scene.topic.publishing.dedup.table.snapshot() == {"p": 4}
    send(producer, 4, chunk=(2, 3))
    assert cnx.receipts[-1] == (4, DUPLICATE)
    await reloaded(scene)
    assert (await scene.producer(FakeConnection(), "p")).last_sequence_id == 4


@in_virtual_time
async def test_a_batch_counts_up_to_its_highest_sequence_id() -> None:
    scene = await deduplicating()
    cnx = FakeConnection()
    producer = await scene.producer(cnx, "p")
    batch = message(0, num_messages_in_batch=5, highest_sequence_id=4)
    command = pb.CommandSend(producer_id=producer.producer_id, sequence_id=0, highest_sequence_id=4, num_messages=5)
    producer.publish([(command, batch)])
    await settle()
    producer.publish([(command, batch)])
    send(producer, 5)
    await settle()
    receipts = [each.send_receipt for each in cnx.of_type("SEND_RECEIPT")]
    assert [(each.sequence_id, each.highest_sequence_id) for each in receipts] == [(0, 4), (0, 4), (5, 0)]
    assert entries(scene) == 2
    await reloaded(scene)
    assert (await scene.producer(FakeConnection(), "p")).last_sequence_id == 5


@in_virtual_time
async def test_a_snapshot_is_taken_after_so_many_entries_and_after_so_much_time() -> None:
    scene = await deduplicating(broker_deduplication_entries_interval=3)
    producer = await scene.producer(FakeConnection(), "p")
    send(producer, 0, 1)
    await settle()
    cursor = scene.ledger.cursors[DEDUP_CURSOR]
    assert cursor.mark_delete == Position(10, -1)
    send(producer, 2, 3)
    await settle()
    assert (cursor.mark_delete, cursor.position_properties) == (Position(10, 3), {"p": 3})
    send(producer, 4)
    await settle()
    now_s = 10**12
    scene.topic.deduplication.tick(now_s, 120)
    assert (cursor.mark_delete, cursor.position_properties) == (Position(10, 4), {"p": 4})
    send(producer, 5)
    await settle()
    scene.topic.deduplication.tick(now_s + 119, 120)
    assert cursor.mark_delete == Position(10, 4)
    await scene.topic.close()
    assert (cursor.mark_delete, cursor.position_properties) == (Position(10, 5), {"p": 5})


@in_virtual_time
async def test_the_log_behind_the_last_stored_snapshot_is_held_until_the_next_one_is_stored() -> None:
    scene = await deduplicating()
    producer = await scene.producer(FakeConnection(), "p")
    store = scene.ledger.stores[DEDUP_CURSOR]
    store.failure = CursorFault("t", "no bookies")
    send(producer, 0, 1)
    await settle()
    scene.topic.deduplication.tick(10**12, 120)
    await settle()
    assert scene.ledger.held == [Position(10, -1)]
    store.failure = None
    scene.topic.deduplication.tick(10**12 + 1, 120)
    await settle()
    assert scene.ledger.held == []
    assert store.stored == [Position(10, 1)]


@in_virtual_time
async def test_turned_off_while_a_snapshot_is_being_stored_it_holds_nothing() -> None:
    scene = await deduplicating(broker_deduplication_entries_interval=1)
    scene.ledger.stores[DEDUP_CURSOR].failure = CursorFault("s", "disk full")
    send(await scene.producer(FakeConnection(), "p"), 0)
    await settle()
    assert scene.ledger.held
    scene.ledger.stores[DEDUP_CURSOR].failure = None
    scene.topic.set_policies(replace(of_broker(scene.settings), deduplication_enabled=False))
    await settle()
    assert scene.topic.deduplication.status == "Disabled"
    assert not scene.ledger.held, "or nothing is ever trimmed"


@in_virtual_time
async def test_a_reload_reads_what_stands_behind_the_snapshot() -> None:
    scene = await deduplicating(broker_deduplication_entries_interval=2)
    producer = await scene.producer(FakeConnection(), "p")
    other = await scene.producer(FakeConnection(), "q")
    send(producer, 0, 1)
    send(other, 7)
    send(producer, 2)
    await settle()
    scene.ledger.cursors[DEDUP_CURSOR].ack_cumulative(10, 0, None, {"p": 0})
    await reloaded(scene)
    cnx = FakeConnection()
    assert (await scene.producer(cnx, "q")).last_sequence_id == 7
    again = await scene.producer(cnx, "p")
    assert again.last_sequence_id == 2
    send(again, 2, 3)
    await settle()
    assert cnx.receipts == [(2, DUPLICATE), (3, Position(10, 4))]


@in_virtual_time
async def test_its_cursor_is_nobody_s_subscription_and_goes_when_it_is_turned_off() -> None:
    scene = await deduplicating()
    assert scene.topic.deduplication.status == "Enabled"
    assert scene.topic.subscriptions == {}
    cnx = FakeConnection()
    producer = await scene.producer(cnx, "p")
    send(producer, 0)
    await settle()
    off = replace(of_broker(scene.settings), deduplication_enabled=False)
    scene.topic.set_policies(off)
    await settle()
    assert scene.topic.deduplication.status == "Disabled"
    assert DEDUP_CURSOR not in scene.ledger.cursors
    send(producer, 0)
    await settle()
    assert entries(scene) == 2
    scene.topic.set_policies(of_broker(scene.settings))
    await settle()
    assert scene.topic.deduplication.status == "Enabled"
    send(producer, 3, 3)
    await settle()
    assert entries(scene) == 3
    assert cnx.receipts[-1] == (3, DUPLICATE)


@in_virtual_time
async def test_without_it_sends_go_as_groups_and_nothing_is_looked_at() -> None:
    scene = Scene()
    await scene.topic.prepare()
    producer = await scene.producer(FakeConnection(), "p")
    assert not scene.topic.publishing.is_checked
    send(producer, 0, 0, 0)
    await settle()
    assert entries(scene) == 3
    assert scene.ledger.cursors == {}


@in_virtual_time
async def test_what_a_policy_refuses_is_answered_in_turn_and_the_rest_is_stored() -> None:
    scene = Scene(encryption_require_on_producer=True, delayed_delivery_max_delay_in_millis=1_000)
    await scene.topic.prepare()
    cnx = FakeConnection()
    producer = await scene.producer(cnx, "p", encrypted=True)
    keys = [pb.EncryptionKeys(key="k", value=b"v")]
    late = message(2, encryption_keys=keys, deliver_at_time=5_000)
    sends = [message(0, encryption_keys=keys), message(1), late, message(3, encryption_keys=keys)]
    producer.publish(
        [
            (pb.CommandSend(producer_id=producer.producer_id, sequence_id=number), each)
            for number, each in enumerate(sends)
        ]
    )
    await settle()
    assert cnx.kinds == ["SEND_RECEIPT", "SEND_ERROR", "SEND_ERROR", "SEND_RECEIPT"]
    errors = [(each.send_error.error, each.send_error.message) for each in cnx.of_type("SEND_ERROR")]
    assert errors == [
        (pb.MetadataError, "Messages must be encrypted"),
        (pb.NotAllowedError, "Exceeds max allowed delivery delay of 1000 milliseconds"),
    ]
    assert entries(scene) == 2
    assert scene.ledger.last_confirmed > EARLIEST


@in_virtual_time
async def test_a_name_that_is_too_long_to_be_remembered_is_refused() -> None:
    scene = await deduplicating()
    with pytest.raises(NotAllowed, match="1025 characters: deduplication takes at most 1024"):
        await scene.producer(FakeConnection(), "n" * 1_025)
    await scene.producer(FakeConnection(), "n" * 1_024)
    await Scene().producer(FakeConnection(), "n" * 1_025)


@in_virtual_time
async def test_a_producer_that_is_refused_leaves_no_subscription_behind() -> None:
    scene = Scene(encryption_require_on_producer=True)
    with pytest.raises(MetadataFault, match="Encryption is required in persistent://public/default/t"):
        await scene.producer(FakeConnection(), "p", initial_subscription_name="s")
    assert scene.topic.subscriptions == {}
    await scene.producer(FakeConnection(), "p", initial_subscription_name="s", encrypted=True)
    assert list(scene.topic.subscriptions) == ["s"]
