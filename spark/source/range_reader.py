"""The executor's part of reading: one range of one partition, as Arrow record batches.

`RangeReader` takes blocks of entries from a `PartitionReader`, shows them to `Continuity` and decodes them.
`BlockDecoder` decodes ordinary entries, all at once. `RowDecoder` decodes odd entries, and runs of entries that
`BlockDecoder` refuses, one by one.
"""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from magnetar.spark.source.client.partition_reader import PartitionReader
from magnetar.spark.source.columns.batch_builder import PARTS, BatchBuilder
from magnetar.spark.source.columns.metadata_columns import PUBLISH_TIME
from magnetar.spark.source.columns.row_filters import RowFilters
from magnetar.spark.source.decoding.batch_walk import Unusual
from magnetar.spark.source.decoding.block_decoder import BlockDecoder
from magnetar.spark.source.decoding.compression import UNCOMPRESSED_BYTES_MAX
from magnetar.spark.source.decoding.entry_block import CorruptEntry, EntryBlock
from magnetar.spark.source.decoding.row_columns import RowColumns, columns_of, joined, times
from magnetar.spark.source.decoding.row_decoder import DecodedRows, RowDecoder
from magnetar.spark.source.decoding.wire_scan import Bools, Ints
from magnetar.spark.source.planner import partition_of
from magnetar.spark.source.ranges.bounds import Bound, Range
from magnetar.spark.source.ranges.continuity_rules import Continuity
from pulsar_proto.errors import TopicNotFound
from pulsar_proto.pb import pulsar_api_pb2 as pb

log = logging.getLogger(__name__)

BATCH_ROWS = 10_000
BATCH_BYTES = 3 * 1024 * 1024
"""A record batch goes to the JVM when it holds BATCH_ROWS rows, or values of BATCH_BYTES bytes."""
PORTION_BYTES = 64 * 1024 * 1024
"""At most this much is decompressed at once, plus one entry."""
_PUBLISH_TIME = pb.MessageMetadata.DESCRIPTOR.fields_by_name["publish_time"].number
_UNCOMPRESSED_SIZE = pb.MessageMetadata.DESCRIPTOR.fields_by_name["uncompressed_size"].number
ODD_SHARE = 8
"""When more than one in ODD_SHARE entries of a block is odd, all entries of the block are read one by one."""


@dataclass
class ReadTask(InputPartition):
    """The range that one Spark task reads. The object holds strings only, because Spark pickles it."""

    topic: str
    after: str
    upto: str
    may_lack: bool = False
    """Whether the range may lie where no messages are, which is no loss."""

    @property
    def wanted(self) -> Range:
        return Range(Bound.parse(self.after), Bound.parse(self.upto))


def portions(block: EntryBlock) -> list[EntryBlock]:
    """Splits a block whose entries claim to hold more than PORTION_BYTES uncompressed. Without this limit, a client
    that may write to a topic could use up the memory of the topic's readers."""
    sizes = block.metadata.number(_UNCOMPRESSED_SIZE)
    if sizes is None:
        return [block]
    sizes = sizes.clip(0, UNCOMPRESSED_BYTES_MAX)
    if sizes.sum() <= PORTION_BYTES:
        return [block]
    borders = np.flatnonzero(np.diff(np.cumsum(sizes) // PORTION_BYTES)) + 1
    return [block.pick(part) for part in np.split(np.arange(len(block)), borders)]


class RangeReader:
    """Reads one task's range; `batches` may be called once."""

    def __init__(
        self,
        reader: PartitionReader,
        task: ReadTask,
        builder: BatchBuilder,
        continuity: Continuity,
        filters: RowFilters | None = None,
        *,
        poll_timeout_seconds: float,
        fail_on_data_loss: bool,
    ) -> None:
        self._reader = reader
        self._wanted = task.wanted
        self._builder = builder
        self._continuity = continuity
        self._timeout = poll_timeout_seconds
        self._strict = fail_on_data_loss
        partition = partition_of(task.topic)
        self._topic = task.topic
        self._filters = (filters or RowFilters()).on(PARTS)
        self._time_filters = self._filters.on({PUBLISH_TIME})
        parts = builder.parts | {PARTS[name] for name in self._filters.columns}
        self._plain = RowDecoder(task.topic, partition, self._wanted, with_ids="ids" in parts)
        self._fast = BlockDecoder(partition, self._wanted, parts)
        self._pieces: list[RowColumns] = []
        self._reached = False
        self._chunks_until = 0.0

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the range's rows. Raises DataLoss and CorruptEntry with the option failOnDataLoss=true; otherwise
        losses and damaged entries are logged and skipped."""
        try:
            while not self._is_finished():
                block = self._next_block()
                if block is None:
                    break
                for portion in portions(block):
                    self._take(portion)
                    if self._is_full():
                        yield self._flush()
        except TopicNotFound:
            self._continuity.absent()
        finally:
            self._reader.close()
        if self._pieces:
            yield self._flush()
        self._finish()

    def _next_block(self) -> EntryBlock | None:
        """Returns the next block, or None when nothing came in time. Once the range's end is reached, the remaining
        chunks of messages that began in it get one timeout in all: other messages may come behind the range for ever,
        and each would start a timeout anew."""
        now = time.monotonic()
        if not self._reached:
            return self._reader.read_block_or_end(now + self._timeout)
        self._chunks_until = self._chunks_until or now + self._timeout
        return None if now >= self._chunks_until else self._reader.read_block(self._chunks_until)

    def _is_finished(self) -> bool:
        return self._reached and not self._plain.has_unfinished_chunks

    def _is_full(self) -> bool:
        return sum(piece.size for piece in self._pieces) >= BATCH_BYTES or sum(map(len, self._pieces)) >= BATCH_ROWS

    def _take(self, block: EntryBlock) -> None:
        inside = 0
        if not self._reached:
            inside = self._watched(block)
            self._decode(block, np.arange(inside))
        if self._plain.has_unfinished_chunks:
            self._read_plainly(block, np.arange(inside, len(block)))

    def _watched(self, block: EntryBlock) -> int:
        """Shows the block's entries to the continuity check. Returns how many entries of the block are to be decoded:
        all up to and including the range's last entry, or up to the first entry behind it."""
        ledgers, entries = block.ledgers, block.entries
        ledger, entry, _ = self._wanted.upto
        behind = (ledgers > ledger) | ((ledgers == ledger) & (entries >= entry))
        inside = len(block)
        if behind.any():
            self._reached = True
            inside = int(behind.argmax()) + 1
        self._continuity.run(ledgers[:inside].tolist(), entries[:inside].tolist())
        if self._strict:
            self._continuity.check()
        return inside

    def _decode(self, block: EntryBlock, indexes: Ints) -> None:
        if self._time_filters.conditions:
            block = block.pick(indexes[self._are_in_time(block, indexes)])
            indexes = np.arange(len(block))
        odd = np.flatnonzero(block.odd[: len(indexes)])
        if len(odd) * ODD_SHARE > len(indexes):
            self._read_plainly(block, indexes)
            return
        done = 0
        for at in [*odd.tolist(), len(indexes)]:
            self._read_fast(block, indexes[done:at])
            self._read_plainly(block, indexes[at : at + 1])
            done = at + 1

    def _are_in_time(self, block: EntryBlock, indexes: Ints) -> Bools:
        """Returns which entries may have rows by the conditions on publish times, so that the others are not even
        decompressed. Odd entries always may: a chunked message has the time of its last chunk."""
        found = block.metadata.number(_PUBLISH_TIME)
        published = times(np.zeros(len(indexes), np.int64) if found is None else found[indexes])
        truth = self._time_filters.holds(lambda name: published)
        assert truth is not None
        inside: Bools = block.odd[indexes] | truth.fill_null(False).to_numpy(zero_copy_only=False)
        return inside

    def _read_fast(self, block: EntryBlock, indexes: Ints) -> None:
        if not len(indexes):
            return
        try:
            for piece in self._fast.decode(block if len(indexes) == len(block) else block.pick(indexes)):
                self._keep(piece)
        except Unusual:
            self._read_plainly(block, indexes)

    def _read_plainly(self, block: EntryBlock, indexes: Ints) -> None:
        rows = DecodedRows()
        for index in indexes.tolist():
            try:
                self._plain.decode(block.entry(index, self._topic), rows)
            except CorruptEntry as damage:
                self._forgive(damage)
        if len(rows):
            self._keep(columns_of(rows))

    def _keep(self, piece: RowColumns) -> None:
        """Keeps the rows that fulfil all conditions, so that values of others are never decoded."""
        truth = self._filters.holds(lambda name: getattr(piece, PARTS[name]))
        kept = piece if truth is None else piece.where(truth)
        if len(kept):
            self._pieces.append(kept)

    def _forgive(self, damage: CorruptEntry) -> None:
        if self._strict:
            raise damage
        log.warning("%s; skipped", damage)

    def _flush(self) -> pa.RecordBatch:
        pieces, self._pieces = self._pieces, []
        return self._builder.batch(joined(pieces))

    def _finish(self) -> None:
        abandoned = self._plain.give_up_chunks()
        if abandoned:
            log.warning("%d chunked messages never got their last chunk; skipped", abandoned)
        self._continuity.finished(self._reached)
        if self._strict:
            self._continuity.check()
        for sentence in self._continuity.missing:
            log.warning("data loss: %s", sentence)
