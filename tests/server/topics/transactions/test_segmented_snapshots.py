"""Snapshots in segments: what is written, and what is found again."""

import pytest

from magnetar.server.topics.transactions.snapshot_table import SnapshotKind
from magnetar.server.topics.transactions.transaction_buffer import BufferState
from pulsar_proto.errors import MetadataFault, PersistenceFault
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.records.payload import body, parse_metadata
from tests.server.topics.scene import FakeConnection, in_virtual_time, pass_time, publish, settle
from tests.server.topics.transactions.scene import TxnScene, recorded_ledger, send

SEGMENTS = {"transaction_buffer_segmented_snapshot_enabled": True, "transaction_buffer_snapshot_segment_size": 70}
NAME = "persistent://public/default/sg"
INDEXES = "public/default/persistent/__transaction_buffer_snapshot_indexes"


async def segmented(**settings: object) -> TxnScene:
    return await TxnScene(name=NAME, settings={**SEGMENTS, **settings}).start()


async def abort(scene: TxnScene, *counts: int) -> None:
    producer = await scene.producer(FakeConnection())
    for least in counts:
        send(producer, b"x", scene.known.begin(least), least)
        await settle()
        await scene.buffer.end(TxnId(0, least), False, -1)
    producer.close()


def stats(scene: TxnScene) -> dict[str, object]:
    shown = scene.buffer.snapshots.segment_stats()["segmentsStats"]
    assert isinstance(shown, dict)
    return shown


@in_virtual_time
async def test_full_segments_are_sealed_and_all_aborted_transactions_are_found_again() -> None:
    scene = await segmented()
    await abort(scene, *range(25))
    await pass_time(6)
    assert [key for key, _ in scene.logs.of(SnapshotKind.SEGMENTS).messages] == [
        f"multiple-{number}-{NAME}" for number in range(2)
    ]
    assert (stats(scene)["segmentsSize"], stats(scene)["unsealedAbortTxnIDSize"]) == (2, 5)
    assert stats(scene)["currentSegmentCapacity"] == 10
    await abort(scene, 25, 26)
    await scene.reload()
    assert set(scene.buffer.transactions.aborted) == {TxnId(0, least) for least in range(27)}
    assert stats(scene)["unsealedAbortTxnIDSize"] == 7
    await abort(scene, 27, 28, 29)
    await pass_time(6)
    assert (stats(scene)["segmentsSize"], stats(scene)["unsealedAbortTxnIDSize"]) == (3, 0)
    await scene.reload()
    assert set(scene.buffer.transactions.aborted) == {TxnId(0, least) for least in range(30)}
    assert scene.buffer.transactions.open == {}
    scene.topic.detach()


@in_virtual_time
async def test_a_segment_is_written_again_when_the_index_that_names_it_was_not_stored() -> None:
    scene = await segmented()
    await abort(scene, *range(12))
    indexes = scene.logs.of(SnapshotKind.INDEXES)
    indexes.failure = PersistenceFault("no bookies")
    await pass_time(6)
    assert len(scene.logs.of(SnapshotKind.SEGMENTS).messages) == 1
    assert stats(scene)["segmentsSize"] == 0
    indexes.failure = None
    await pass_time(6)
    assert len({key for key, _ in scene.logs.of(SnapshotKind.SEGMENTS).messages}) == 1
    await scene.reload()
    assert set(scene.buffer.transactions.aborted) == {TxnId(0, least) for least in range(12)}
    scene.topic.detach()


@in_virtual_time
async def test_an_open_transaction_from_before_the_segments_keeps_later_aborts_known() -> None:
    """The markers of sealed segments then stand behind the read limit, and are read again."""
    scene = await segmented()
    opened = scene.known.begin(100)
    send(await scene.producer(FakeConnection()), b"open", opened)
    await settle()
    await abort(scene, *range(15))
    await scene.reload()
    assert set(scene.buffer.transactions.aborted) == {TxnId(0, least) for least in range(15)}
    publish(await scene.producer(FakeConnection()), [b"behind"], 200)
    await settle()
    await scene.buffer.end(opened, True, -1)
    await pass_time(6)
    assert stats(scene)["segmentsSize"] == 1
    await scene.reload()
    assert set(scene.buffer.transactions.aborted) == {TxnId(0, least) for least in range(15)}
    assert (await scene.seen("s")).bodies == [b"open", b"behind"]
    scene.topic.detach()


@in_virtual_time
async def test_segments_of_trimmed_ledgers_are_deleted() -> None:
    scene = await segmented()
    await abort(scene, *range(10))
    await pass_time(6)
    scene.ledger.roll_now()
    await abort(scene, *range(10, 20))
    await pass_time(6)
    assert stats(scene)["segmentsSize"] == 2
    scene.ledger.trim_now(10)
    await abort(scene, 20)
    await pass_time(6)
    assert scene.logs.of(SnapshotKind.SEGMENTS).messages[-1] == (f"multiple-0-{NAME}", None)
    assert stats(scene)["segmentsSize"] == 1
    await scene.reload()
    assert set(scene.buffer.transactions.aborted) == {TxnId(0, least) for least in range(10, 21)}
    scene.topic.detach()


@in_virtual_time
async def test_a_snapshot_in_one_piece_is_taken_over_when_segments_are_switched_on() -> None:
    scene = await TxnScene(name=NAME).start()
    await abort(scene, 1, 2)
    await pass_time(6)
    later = TxnScene(name=NAME, settings=SEGMENTS)
    later.ledger, later.logs = scene.ledger, scene.logs
    later.load()
    await later.start()
    assert later.buffer.state is BufferState.READY
    assert set(later.buffer.transactions.aborted) == {TxnId(0, 1), TxnId(0, 2)}
    await abort(later, 3)
    await pass_time(6)
    await later.reload()
    assert set(later.buffer.transactions.aborted) == {TxnId(0, 1), TxnId(0, 2), TxnId(0, 3)}
    for each in (scene, later):
        each.topic.detach()


@in_virtual_time
async def test_a_deleted_topic_leaves_neither_index_nor_segments() -> None:
    scene = await segmented()
    await abort(scene, *range(12))
    await pass_time(6)
    await scene.buffer.snapshots.delete()
    assert scene.logs.of(SnapshotKind.INDEXES).messages[-1] == (NAME, None)
    assert scene.logs.of(SnapshotKind.SEGMENTS).messages[-1] == (f"multiple-0-{NAME}", None)
    scene.topic.detach()


@pytest.mark.parametrize("count", [2, 3])
async def test_the_index_of_apache_is_read(count: int) -> None:
    """Apache's broker showed 8 aborted transactions and the read limit 151:15 for the last one."""
    scene = await TxnScene(name=NAME, settings=SEGMENTS).start()
    for payload in recorded_ledger(INDEXES, "2")[:count]:
        scene.logs.of(SnapshotKind.INDEXES).messages.append((parse_metadata(payload).partition_key, body(payload)))
    start = await scene.buffer.snapshots.latest()
    assert start is not None
    if count == 3:
        assert [each.txn_id for each in start.aborted] == [TxnId(0, least) for least in range(60, 68)]
        assert start.max_read_position == Position(151, 15)
        assert stats(scene) == {
            "segmentsSize": 0,
            "currentSegmentCapacity": 10,
            "unsealedAbortTxnIDSize": 8,
            "segmentStats": [],
            "lastTookSnapshotSegmentTimestamp": 0,
        }
    else:
        assert start == ([], Position(151, -1))


async def test_a_damaged_index_is_named() -> None:
    scene = TxnScene(name=NAME, settings=SEGMENTS)
    scene.logs.of(SnapshotKind.INDEXES).messages.append((NAME, b"\x02\x04"))
    with pytest.raises(MetadataFault, match="is damaged"):
        await scene.start()
