"""What a topic finds after a restart: by its own snapshots, and by what Apache's broker has stored."""

import json
from typing import Any, cast

import pytest

from magnetar.server.topics.transactions.snapshot_table import SnapshotKind
from magnetar.server.topics.transactions.transaction_buffer import BufferState
from magnetar.storage.managed.ledger_list import LedgerList
from pulsar_proto.errors import MetadataFault
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.records.payload import body, parse_metadata
from tests.server.topics.fake_managed_ledger import FakeManagedLedger
from tests.server.topics.scene import FakeConnection, in_virtual_time, pass_time, publish, settle
from tests.server.topics.transactions.scene import TxnScene, recorded, recorded_ledger, send

SNAPSHOTS = "public/default/persistent/__transaction_buffer_snapshot"


async def test_a_topic_without_a_snapshot_is_not_read() -> None:
    scene = await TxnScene().start()
    publish(await scene.producer(FakeConnection()), [b"a", b"b"])
    await settle()
    await scene.reload()
    assert scene.ledger.reads == []
    assert scene.buffer.state is BufferState.NO_SNAPSHOT


@in_virtual_time
async def test_a_topic_does_not_inherit_the_snapshot_of_a_deleted_topic_of_its_name() -> None:
    scene = await TxnScene().start()
    aborted = scene.known.begin(1)
    send(await scene.producer(FakeConnection()), b"a", aborted)
    await settle()
    await scene.buffer.end(aborted, False, 0)
    await pass_time(6)
    scene.topic.detach()
    # While transactions are off, deletion leaves the snapshot.
    scene.ledger = FakeManagedLedger()
    scene.ledger.ledgers = LedgerList()  # a new log has no ledger before its first message
    scene.load()
    await scene.start()
    assert scene.topic.transactions is None
    scene.ledger = FakeManagedLedger(first_ledger_id=20)
    scene.load()
    await scene.start()
    assert not scene.buffer.is_aborted(aborted)
    scene.topic.detach()


@in_virtual_time
async def test_while_no_coordinator_was_used_nothing_is_looked_for() -> None:
    scene = TxnScene()
    scene.known.are_in_use = False
    await scene.start()
    assert scene.topic.transactions is None
    assert scene.logs.opened == 0


@pytest.mark.parametrize("snapshots_after", range(7))
@in_virtual_time
async def test_open_and_aborted_transactions_are_found_again_wherever_the_last_snapshot_was(
    snapshots_after: int,
) -> None:
    scene = await TxnScene().start()
    committed, aborted, opened = (scene.known.begin(least) for least in (1, 2, 3))
    producer = await scene.producer(FakeConnection())

    async def end(txn_id: TxnId, commit: bool) -> None:
        await scene.buffer.end(txn_id, commit, 0)

    async def sent(body: bytes, txn_id: TxnId | None) -> None:
        send(producer, body, txn_id)

    steps = [
        sent(b"c", committed),
        sent(b"a", aborted),
        end(aborted, False),
        sent(b"o", opened),
        end(committed, True),
        sent(b"behind", None),
    ]
    for number, step in enumerate(steps):
        await step
        await settle()
        if number < snapshots_after:
            await pass_time(6)
    await scene.reload()
    assert list(scene.buffer.transactions.open) == [opened]
    assert list(scene.buffer.transactions.aborted) == [aborted]
    assert scene.buffer.max_read_position == Position(10, 2)
    assert (await scene.seen("s")).bodies == [b"c"]
    await scene.buffer.end(opened, True, 2)
    await settle()
    assert (await scene.seen("s2")).bodies == [b"c", b"o", b"behind"]
    scene.topic.detach()


@in_virtual_time
async def test_recovery_aborts_what_the_coordinators_do_not_know_any_more() -> None:
    scene = await TxnScene().start()
    gone, live = scene.known.begin(1), scene.known.begin(2)
    producer = await scene.producer(FakeConnection())
    send(producer, b"g", gone, 1)
    send(producer, b"l", live, 2)
    await settle()
    scene.known.live.discard(gone)
    await scene.reload()
    await settle()
    assert list(scene.buffer.transactions.open) == [live]
    assert scene.buffer.is_aborted(gone)
    scene.topic.detach()


@pytest.mark.parametrize("seed", range(5))
@in_virtual_time
async def test_a_transaction_that_commits_while_its_coordinator_is_asked_is_not_aborted(seed: int) -> None:
    """The coordinator forgets it as soon as it has committed, and only then answers that it is not alive."""
    scene = await TxnScene(seed=seed).start()
    txn_id = scene.known.begin(1)
    producer = await scene.producer(FakeConnection())
    send(producer, b"a", txn_id)
    await settle()
    scene.known.is_elsewhere = True
    await scene.reload()
    scene.known.live.discard(txn_id)
    await scene.buffer.end(txn_id, True, 0)
    await settle()
    assert scene.known.asked > 1
    assert (await scene.seen("s")).bodies == [b"a"]
    assert not scene.buffer.is_aborted(txn_id)
    scene.topic.detach()


@in_virtual_time
async def test_a_snapshot_is_written_after_the_period_only_if_the_read_limit_has_moved() -> None:
    scene = await TxnScene(settings={"transaction_buffer_snapshot_min_time_in_millis": 2_000}).start()
    log = scene.logs.of(SnapshotKind.WHOLE)
    producer = await scene.producer(FakeConnection())
    txn_id = scene.known.begin(1)
    send(producer, b"a", txn_id)
    await settle()
    await pass_time(10)
    assert len(log.messages) == 1
    await scene.buffer.end(txn_id, True, 0)
    await pass_time(3)
    assert len(log.messages) == 2
    publish(producer, [b"b"], 1)
    await pass_time(3)
    assert len(log.messages) == 3
    scene.now_ms = 77
    log.failure = MetadataFault("no")
    publish(producer, [b"c"], 2)
    await pass_time(3)
    log.failure = None
    assert scene.buffer.snapshot_ms == 1_000
    await pass_time(3)
    assert (len(log.messages), scene.buffer.snapshot_ms) == (4, 77)
    scene.topic.detach()


@in_virtual_time
async def test_a_snapshot_is_written_after_so_many_ends_whatever_the_time() -> None:
    scene = await TxnScene(settings={"transaction_buffer_snapshot_max_transaction_count": 3}).start()
    producer = await scene.producer(FakeConnection())
    for least in range(7):
        send(producer, b"a", scene.known.begin(least), least)
        await settle()
        await scene.buffer.end(TxnId(0, least), True, least - 1)
        await settle()
    assert len(scene.logs.of(SnapshotKind.WHOLE).messages) == 1 + 2
    scene.topic.detach()


async def test_a_damaged_snapshot_keeps_the_topic_from_being_loaded_with_a_name() -> None:
    scene = TxnScene()
    scene.logs.of(SnapshotKind.WHOLE).messages.append((scene.name.full, b"\x02\x90"))
    with pytest.raises(MetadataFault, match=r"snapshot of persistent://public/default/t's transactions is damaged"):
        await scene.start()


# --- what Apache has stored -------------------------------------------------------------------------------------------


def apache_scene(topic: str, ledger_id: int, snapshots: int, when: str = "1") -> TxnScene:
    """Returns a topic with the log that Apache's broker has written, after `snapshots` messages of the topic of
    snapshots."""
    scene = TxnScene(name=f"persistent://{topic.replace('/persistent', '')}")
    ledger = FakeManagedLedger(topic, first_ledger_id=ledger_id)
    ledger.append_now(recorded_ledger(topic, when))
    scene.ledger = ledger
    scene.load()
    for payload in recorded_ledger(SNAPSHOTS, when)[:snapshots]:
        metadata = parse_metadata(payload)
        value = None if metadata.null_value else body(payload)
        scene.logs.of(SnapshotKind.WHOLE).messages.append((metadata.partition_key, value))
    return scene


@pytest.mark.parametrize("snapshots", [1, 2, 3])
async def test_the_log_of_apache_gives_the_state_that_its_admin_calls_have_shown(snapshots: int) -> None:
    scene = apache_scene("public/default/persistent/block-1795354099", 6, snapshots)
    scene.known.begin(5_000_000)
    await scene.start()
    call = "GET /admin/v3/transactions/transactionBufferStats/public/default/block-1795354099?lowWaterMarks=true"
    shown = json.loads([each["answer"] for each in recorded()["rest"] if each["call"] == call][-1])
    transactions = scene.buffer.transactions
    assert scene.buffer.state.value == shown["state"]
    assert str(scene.buffer.max_read_position) == shown["maxReadPosition"] == "6:11"
    assert len(transactions.open) == shown["ongoingTxnSize"] == 1
    assert len(transactions.aborted) == shown["totalAbortedTransactions"] == 2
    assert transactions.open[TxnId(0, 5_000_000)].first == Position(6, 12)
    assert [each.position.entry_id for each in (await scene.seen("s")).messages] == [0, 1, 2, 3, 7]


async def test_the_log_of_a_broker_that_was_killed_is_read_to_its_end() -> None:
    scene = apache_scene("public/default/persistent/crash", 124, 29, "2")
    scene.known.live |= {TxnId(0, least) for least in range(45, 50)}
    await scene.start()
    assert TxnId(0, 44) in scene.buffer.transactions.aborted
    assert cast(Any, scene.ledger).reads[0][0] == Position(124, 3)
