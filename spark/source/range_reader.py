"""An executor's part of reading: one range of one partition, as Arrow record batches."""

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from spark.source.columns import BatchBuilder
from spark.source.continuity import Continuity
from spark.source.ledger_plan import Range
from spark.source.message_id import Bound
from spark.source.partition_reader import CorruptEntry, Entry, PartitionReader
from spark.source.planner import partition_of
from spark.source.rows import RowDecoder, Rows

log = logging.getLogger(__name__)

BATCH_ROWS = 20_000
BATCH_BYTES = 8 * 1024 * 1024
"""A record batch goes to the JVM when it holds so many rows, or values of so many bytes."""


@dataclass
class Task(InputPartition):
    """What one Spark task reads: strings only, because it is pickled."""

    topic: str
    after: str
    upto: str

    @property
    def wanted(self) -> Range:
        return Range(Bound.parse(self.after), Bound.parse(self.upto))


class RangeReader:
    """Reads one task's range; `batches` once."""

    def __init__(
        self,
        reader: PartitionReader,
        task: Task,
        builder: BatchBuilder,
        continuity: Continuity,
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
        self._decoder = RowDecoder(task.topic, partition_of(task.topic), self._wanted, with_ids=builder.wants_ids)
        self._rows = Rows()
        self._reached = False

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Raises DataLoss and CorruptEntry when losses are to be errors; else they are logged."""
        try:
            while not self._is_finished():
                entries = self._entries()
                if entries is None:
                    break
                for entry in entries:
                    self._take(entry)
                    rows = self._rows
                    if len(rows) >= BATCH_ROWS or rows.size >= BATCH_BYTES:
                        yield self._flush()
                    if self._is_finished():
                        break
        finally:
            self._reader.close()
        if self._rows:
            yield self._flush()
        self._finish()

    def _is_finished(self) -> bool:
        return self._reached and not self._decoder.has_unfinished_chunks

    def _entries(self) -> list[Entry] | None:
        """None: nothing came in time."""
        while True:
            try:
                return self._reader.read(time.monotonic() + self._timeout) or None
            except CorruptEntry as damage:
                self._forgive(damage)

    def _take(self, entry: Entry) -> None:
        ledger, entry_id = entry[0], entry[1]
        if not self._reached:
            self._continuity.entry(ledger, entry_id)
            if self._strict:
                self._continuity.check()
        try:
            self._decoder.decode(entry, self._rows)
        except CorruptEntry as damage:
            self._forgive(damage)
        if (ledger, entry_id) >= self._wanted.upto[:2]:
            self._reached = True

    def _forgive(self, damage: CorruptEntry) -> None:
        if self._strict:
            raise damage
        log.warning("%s; skipped", damage)

    def _flush(self) -> pa.RecordBatch:
        rows, self._rows = self._rows, Rows()
        return self._builder.batch(rows)

    def _finish(self) -> None:
        abandoned = self._decoder.give_up_chunks()
        if abandoned:
            log.warning("%d chunked messages never got their last chunk; skipped", abandoned)
        self._continuity.finished(self._reached)
        if self._strict:
            self._continuity.check()
        for sentence in self._continuity.missing:
            log.warning("data loss: %s", sentence)
