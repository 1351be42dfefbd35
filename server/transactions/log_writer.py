"""Appends the records of a log of transactions to its managed ledger, each as an entry of its own or several as one.

Records of one turn of the event loop are appended together. With batching, records wait a little longer for more of
them, and become one entry. A record for which nobody waits is appended together with the next one. The records become
durable in the order in which they came, and their `done` is called in that order. Source: TxnLogBufferedWriter.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from magnetar.server.transactions.batch_counters import BatchCounters, Flush
from magnetar.server.transactions.log_place import LogPlace, places_in
from magnetar.storage.managed.append_queue import AddDone, AddResult
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.records.batched_log import batch_entry

RecordDone = Callable[[LogPlace | ManagedLedgerError], None]
"""A callback that gets the record's place when the record is durable, or the error. After an error it is unknown
whether the record is in the log. The callback must not raise."""


PATIENCE_SECONDS = 0.1
"""How long a record for which nobody waits is kept for the next one."""


class Batching(NamedTuple):
    """When the records that wait are put into one entry: as soon as one of the limits is reached."""

    records_max: int
    bytes_max: int
    delay_ms: int


class EntryLog(Protocol):
    """What a writer uses of a managed ledger."""

    def add_entries(self, payloads: list[bytes], done: AddDone) -> None:
        """See `ManagedLedger.add_entries`."""


class LogWriter:
    """Appends records to one managed ledger. Every method is called on the event loop's thread."""

    def __init__(self, ledger: EntryLog, batching: Batching | None, counters: BatchCounters) -> None:
        """`batching` is None for entries of one record. `counters` counts batches."""
        self._ledger = ledger
        self._batching = batching
        self._counters = counters
        self._records: list[bytes] = []
        self._done: list[RecordDone] = []
        self._bytes = 0
        self._since_s = 0.0
        """When the first record of a batch came, by the loop's clock."""
        self._timer: asyncio.Handle | None = None
        self._is_patient = False
        """Whether the timer waits for a record for which somebody waits."""

    def append(self, record: bytes, done: RecordDone, *, is_awaited: bool = True) -> None:
        """Appends a serialized record. `done` is called once, never from inside this call. `is_awaited` says whether
        somebody waits for it."""
        batching = self._batching
        if batching is not None and len(record) >= batching.bytes_max:
            self.flush(Flush.LARGE_DATA)
            self._ledger.add_entries([record], lambda result: _tell(result, [done], is_batch=False))
            return
        if batching is not None and self._bytes + len(record) > batching.bytes_max:
            self.flush(Flush.MAX_SIZE)
        if batching is not None and not self._records:
            self._since_s = asyncio.get_running_loop().time()
        self._records.append(record)
        self._done.append(done)
        self._bytes += len(record)
        if batching is not None and len(self._records) >= batching.records_max:
            self.flush(Flush.MAX_RECORDS)
        elif self._timer is None or (self._is_patient and is_awaited):
            if self._timer is not None:
                self._timer.cancel()
            loop = asyncio.get_running_loop()
            self._is_patient = batching is None and not is_awaited
            delay_s = PATIENCE_SECONDS if self._is_patient else 0.0 if batching is None else batching.delay_ms / 1000
            self._timer = loop.call_later(delay_s, self.flush) if delay_s else loop.call_soon(self.flush)

    def push(self) -> None:
        """Appends the records that wait, unless they wait for a batch. For a caller who has gathered the records of
        this turn of the event loop already."""
        if self._batching is None:
            self.flush()

    def flush(self, reason: Flush = Flush.MAX_DELAY) -> None:
        """Appends the records that wait. `reason` is for metrics; a log that is being closed flushes as if the delay
        were over."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._records:
            return
        records, done, size = self._records, self._done, self._bytes
        self._records, self._done, self._bytes = [], [], 0
        is_batch = self._batching is not None
        if is_batch:
            waited_s = asyncio.get_running_loop().time() - self._since_s
            self._counters.flushed(reason, len(records), size, waited_s)
        payloads = [batch_entry(records)] if is_batch else records
        self._ledger.add_entries(payloads, lambda result: _tell(result, done, is_batch=is_batch))


def _tell(result: AddResult, done: list[RecordDone], *, is_batch: bool) -> None:
    """Tells the callbacks of one group their outcomes."""
    records = len(done) if is_batch else 1
    told = 0
    for ledger_id, first, count in result.runs:
        for entry_id in range(first, first + count):
            for place in places_in(ledger_id, entry_id, records):
                done[told](place)
                told += 1
    for callback in done[told:]:
        assert result.error is not None, "entries that are not confirmed have an error"
        callback(result.error)
