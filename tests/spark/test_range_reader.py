"""How long a task reads, and what ends it: chunks that never come, views that end early, topics that are deleted."""

import time

import numpy as np
import pytest

from magnetar.spark.source import range_reader
from magnetar.spark.source.client.partition_reader import ReaderSettings
from magnetar.spark.source.decoding.compression import compress
from magnetar.spark.source.decoding.entry_block import CorruptEntry, EntryBlock
from magnetar.spark.source.range_reader import RangeReader, ReadTask
from magnetar.spark.source.ranges.bounds import BEFORE_ALL
from magnetar.spark.source.ranges.continuity_rules import Continuity, DataLoss
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload
from tests.spark.sent_blocks import LEDGER, TOPIC, Played, builder, ordinary_payload, sent_block

TASK = ReadTask(TOPIC, str(BEFORE_ALL), f"{LEDGER}:3")


def chunk(number: int, name: str = "u") -> bytes:
    meta = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, uuid=name)
    meta.num_chunks_from_msg, meta.total_chunk_msg_size, meta.chunk_id = 3, 9, number
    return build_payload(meta, b"abc")


def rows(reader: Played, *, sparse: bool = False, seconds: float = 0.2, strict: bool = True) -> int:
    continuity = Continuity(TOPIC, TASK.wanted, protected=False, sparse=sparse)
    made = RangeReader(
        reader, TASK, builder(), continuity, poll_timeout_seconds=seconds, fail_on_data_loss=strict
    ).batches()
    return sum(batch.num_rows for batch in made)


class Busy(Played):
    """A topic to which others write without end, behind the range."""

    def read_block(self, deadline: float) -> EntryBlock | None:
        assert time.monotonic() < self.until, "reads for ever"
        return super().read_block(deadline) or sent_block([ordinary_payload(9)] * 6).pick(np.array([4, 5]))

    until = 0.0


def test_a_chunked_message_that_never_ends_is_given_up_although_others_come() -> None:
    busy = Busy([sent_block([ordinary_payload(0), chunk(0), ordinary_payload(2), ordinary_payload(3)])])
    busy.until = time.monotonic() + 60
    assert rows(busy) == 3


def test_the_rest_of_a_chunked_message_is_read_behind_the_range() -> None:
    first = [ordinary_payload(0), chunk(0), ordinary_payload(2), ordinary_payload(3)]
    later = [ordinary_payload(4), chunk(1), ordinary_payload(6), chunk(2)]
    whole = sent_block([*first, *later])
    assert rows(Played([whole.pick(part) for part in (whole.entries[:4], whole.entries[4:])]), seconds=20) == 4


def test_a_chunked_message_with_a_hole_is_not_waited_for() -> None:
    holed = [chunk(0), chunk(2), ordinary_payload(2), ordinary_payload(3)]
    with pytest.raises(CorruptEntry, match="chunk 1 of message u is missing"):
        rows(Played([sent_block(holed)]))
    busy = Busy([sent_block(holed)])
    busy.until = time.monotonic() + 60
    assert rows(busy, seconds=1000, strict=False) == 2


class Compacted(Played):
    """A compacted view that ends before the range does, because the range's last message was a tombstone."""

    def __init__(self, blocks: list[EntryBlock]) -> None:
        super().__init__(blocks)
        self._settings = ReaderSettings(read_compacted=True)

    def read_block(self, deadline: float) -> EntryBlock | None:
        block = super().read_block(deadline)
        assert block is not None or deadline < time.monotonic() + 100, "waits for what never comes"
        return block

    def is_at_end(self) -> bool:
        return not self.blocks


def test_a_compacted_view_that_ends_before_the_range_is_not_waited_for() -> None:
    assert rows(Compacted([sent_block([ordinary_payload(n) for n in range(3)])]), sparse=True, seconds=1000) == 3


def packed(size: int) -> bytes:
    meta = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, uncompressed_size=size)
    meta.compression = pb.ZSTD
    return build_payload(meta, compress(bytes(size), pb.ZSTD))


def test_entries_that_unpack_to_much_are_unpacked_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_reader, "PORTION_BYTES", 4 << 20)
    task = ReadTask(TOPIC, str(BEFORE_ALL), f"{LEDGER}:39")
    continuity = Continuity(TOPIC, task.wanted, protected=False, sparse=False)
    played = Played([sent_block([packed(1 << 20)] * 40)])
    made = RangeReader(played, task, builder(), continuity, poll_timeout_seconds=1, fail_on_data_loss=True).batches()
    counts = [batch.num_rows for batch in made]
    assert sum(counts) == 40
    assert max(counts) <= 5


class Deleted(Played):
    def read_block(self, deadline: float) -> EntryBlock | None:
        raise TopicNotFound("no such topic")


def test_a_topic_that_was_deleted_since_it_was_planned_is_a_loss() -> None:
    with pytest.raises(DataLoss, match=f"{TOPIC}: it does not exist any more, {LEDGER}:3 was to be read"):
        rows(Deleted([]))
    assert rows(Deleted([]), strict=False) == 0


def test_the_reader_is_closed_at_the_end_and_when_rows_are_not_wanted_any_more() -> None:
    class Noted(Played):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    whole = Noted([sent_block([ordinary_payload(number) for number in range(4)])])
    assert rows(whole) == 4
    assert whole.closed == 1
    broken = Noted([sent_block([chunk(0), chunk(2), ordinary_payload(2), ordinary_payload(3)])])
    with pytest.raises(CorruptEntry):
        rows(broken)
    assert broken.closed == 1
