"""The index on disk (RocksDB): where each ledger's entries are (`index_runs`), and each ledger's state.

docs/DATA_FILES.md describes the keys and values, in "4. Index: `index/` (RocksDB)". The flush thread does all writes,
and any thread may read. There is only one record for about 64 KB of entries, so RocksDB gets tiny buffers and one
background thread.
"""

import logging
import os
import struct
import threading
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from typing import Any

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    WriteBatch,
)

from magnetar.storage.bookie.bookie_errors import IndexDamaged, IndexFailure
from magnetar.storage.bookie.entry_log_writer import PlacedBlock
from magnetar.storage.bookie.index_log import IndexLog
from magnetar.storage.bookie.index_manifest import Manifest, read_manifest
from magnetar.storage.bookie.index_runs import IdsOf, IndexRun, overlay
from magnetar.storage.bookie.ledger_state import BookieLedgerState

log = logging.getLogger(__name__)

_RUN_KEY = struct.Struct(">cQQ")
_RUN_VALUE = struct.Struct(">qIQI?")
_LEDGER_KEY = struct.Struct(">cQ")
_ID_OFFSET = 1 << 63
_MAX_ENTRY_ID = (1 << 63) - 1
_BLOCK_CACHE_BYTES = 2 << 20
_WRITE_BUFFER_BYTES = 1 << 20
_OPEN_FILES = 64
_BATCH_RECORDS = 500
"""How many records RocksDB writes at once. Meanwhile no other thread has the interpreter (`index_log`)."""

SAMPLED_RUNS = 256
"""From how many runs the number of entries is estimated."""


class EntryIndex:
    """The stored runs and states of ledgers; a run says which block of an entry log holds an interval of entry ids. All
    methods raise IndexFailure unless they say otherwise."""

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        """Opens the index, or makes a new one. With `read_only` the existing index can only be read, even while a
        bookie has it open. Raises IndexDamaged."""
        self._path = path
        self._read_only = read_only
        self._lock = threading.Lock()
        """A look-up holds this lock while it has a cursor: an open cursor would keep the files locked when `reopen`
        closes them. `runs`, `ledger_states` and `last_entry_ids` take no lock, so they must not be under way during
        `reopen`."""
        self._open()

    def _open(self) -> None:
        try:
            if self._read_only:
                self._db = Rdict(self._path, _options(), access_type=AccessType.read_only())
                return
            os.makedirs(self._path, exist_ok=True)
            self._db = Rdict(self._path, _options())
            self._log = IndexLog(self._path)
        except Exception as error:
            raise IndexDamaged(f"the index {self._path} cannot be opened: {error}") from None

    def reopen(self) -> None:
        """Closes the index and opens it again, because RocksDB takes no write after a failed write. All durable records
        are there again. Raises IndexDamaged."""
        with self._lock:
            self._close()
            self._open()

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        """Closes RocksDB. If RocksDB reports an earlier failed write once more, that is only logged, because all writes
        that it confirmed are durable."""
        try:
            self._db.close()
        except Exception as error:
            log.warning("index: closing it: %s", error)

    @property
    def sequence(self) -> int:
        """The number of records that RocksDB ever wrote to this index. The number survives restarts, so that a lost
        write is noticed."""
        return int(self._db.latest_sequence_number())

    def manifest(self) -> Manifest:
        """Returns the state of RocksDB's list of its files, which the next start compares (`index_manifest`)."""
        try:
            return read_manifest(self._path)
        except (OSError, ValueError) as error:
            raise IndexFailure(f"{self._path}: {error}") from error

    def ledger_states(self) -> Iterator[BookieLedgerState]:
        """Yields every ledger's state. Raises IndexDamaged."""
        try:
            for key, value in self._scan(b"l", b"m"):
                yield BookieLedgerState.decode(_LEDGER_KEY.unpack(key)[1], value)
        except (IndexFailure, ValueError, struct.error) as error:
            raise IndexDamaged(f"the index {self._path} is damaged: {error}") from None

    def runs(self) -> Iterator[tuple[int, IndexRun]]:
        """Yields every run with its ledger's id, ascending."""
        for key, value in self._scan(b"e", b"f"):
            _, ledger_id, first = _RUN_KEY.unpack(key)
            yield ledger_id, IndexRun(first - _ID_OFFSET, *_RUN_VALUE.unpack(value))

    def estimated_entries(self, ledgers: int) -> int:
        """Returns about how many entries the index finds: RocksDB's estimate of its records, times the average length
        of the first SAMPLED_RUNS runs. `ledgers` is the number of ledgers, each of which has a record that is no run.
        Raises IndexFailure."""
        lengths = [run.last - run.first + 1 for _, run in islice(self.runs(), SAMPLED_RUNS)]
        records = self._db.property_int_value("rocksdb.estimate-num-keys") or 0
        return round(max(0, records - ledgers) * sum(lengths) / len(lengths)) if lengths else 0

    def lookup(self, ledger_id: int, entry_id: int, max_bytes: int) -> list[IndexRun]:
        """Returns the run that contains `entry_id`, or else the first run behind it, and the runs that follow as long
        as all blocks together have at most `max_bytes`. The list is empty when there is no such run."""
        with self._lock:
            found: list[IndexRun] = []
            for run in self._runs_from(ledger_id, entry_id):
                max_bytes -= run.length
                if found and max_bytes < 0:
                    break
                found.append(run)
            return found

    def overlapping(self, ledger_id: int, first: int, last: int) -> list[IndexRun]:
        """Returns all runs that share ids with an interval, ascending."""
        with self._lock:
            return list(takewhile(lambda run: run.first <= last, self._runs_from(ledger_id, first)))

    def last_run(self, ledger_id: int) -> IndexRun | None:
        """Returns the run with the ledger's highest entry id, or None when the index has no run of the ledger."""
        with self._lock:
            cursor = self._cursor()
            cursor.seek_for_prev(_run_key(ledger_id, _MAX_ENTRY_ID))
            return self._run_at(cursor, ledger_id)

    def last_entry_ids(self, ledger_ids: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Yields the highest entry id of each of these ledgers that has a run, with the ledger's id before it. Only the
        flush thread may call this, since all look-ups share one cursor without the lock: to make a cursor takes longer
        than to use it."""
        cursor = self._cursor()
        for ledger_id in ledger_ids:
            cursor.seek_for_prev(_run_key(ledger_id, _MAX_ENTRY_ID))
            run = self._run_at(cursor, ledger_id)
            if run is not None:
                yield ledger_id, run.last

    def _runs_from(self, ledger_id: int, entry_id: int) -> Iterator[IndexRun]:
        cursor = self._cursor()
        cursor.seek_for_prev(_run_key(ledger_id, entry_id))
        run = self._run_at(cursor, ledger_id)
        if run is None or run.last < entry_id:
            cursor.seek(_run_key(ledger_id, entry_id))
            run = self._run_at(cursor, ledger_id)
        while run is not None:
            yield run
            cursor.next()
            run = self._run_at(cursor, ledger_id)

    def apply(
        self, placed: Iterable[tuple[int, list[PlacedBlock]]], states: Iterable[tuple[int, bytes]], ids_of: IdsOf
    ) -> None:
        """Stores new blocks and the states of ledgers durably. The blocks of each ledger must be in ascending order.
        After a failure the caller may repeat the call. When a new block cuts an older run, `ids_of` returns the entry
        ids in the block of that run."""
        batch = WriteBatch(raw_mode=True)
        for ledger_id, blocks in placed:
            last = self.last_run(ledger_id)
            for new, ids in blocks:
                if last is None or last.last < new.first:
                    batch = self._unless_full(batch)
                    batch.put(_run_key(ledger_id, new.first), _run_value(new))
                else:
                    self._write(batch)
                    batch = WriteBatch(raw_mode=True)
                    self._overlay(batch, ledger_id, new, ids, ids_of)
        for ledger_id, record in states:
            batch = self._unless_full(batch)
            batch.put(_LEDGER_KEY.pack(b"l", ledger_id), record)
        self._write(batch)
        self._sync()

    def _overlay(self, batch: Any, ledger_id: int, new: IndexRun, ids: Any, ids_of: IdsOf) -> None:
        """Puts into `batch` the changes that lay a new block over the older runs. All earlier blocks must be in the
        index already, since they may have cut the same older runs."""
        existing = self.overlapping(ledger_id, new.first, new.last)
        for run in existing:
            batch.delete(_run_key(ledger_id, run.first))
        for run in overlay(existing, new, ids, ids_of):
            batch.put(_run_key(ledger_id, run.first), _run_value(run))

    def points_to(self, ledger_id: int, block: IndexRun) -> bool:
        """Returns whether any run points to the block. If so, readers still get some of their entries from this
        block."""
        return any(run.is_of(block) for run in self.overlapping(ledger_id, block.first, block.last))

    def move_blocks(self, moves: Iterable[tuple[int, IndexRun, IndexRun]]) -> None:
        """Points the runs of blocks to copies of these blocks, durably. `moves` holds (ledger id, block, its copy)."""
        batch = WriteBatch(raw_mode=True)
        for ledger_id, old, new in moves:
            for run in self.overlapping(ledger_id, old.first, old.last):
                if run.is_of(old):
                    moved = IndexRun(run.first, run.last, new.log_id, new.offset, new.length, run.dense)
                    batch.put(_run_key(ledger_id, run.first), _run_value(moved))
        self._write(batch)
        self._sync()

    def delete_ledgers(self, ledger_ids: Iterable[int]) -> None:
        """Deletes the runs and the states of ledgers, durably."""
        batch = WriteBatch(raw_mode=True)
        for ledger_id in ledger_ids:
            batch.delete_range(_RUN_KEY.pack(b"e", ledger_id, 0), _RUN_KEY.pack(b"e", ledger_id + 1, 0))
            batch.delete(_LEDGER_KEY.pack(b"l", ledger_id))
        self._write(batch)
        self._sync()

    def _unless_full(self, batch: Any) -> Any:
        """Returns the batch, or writes it if it is full and returns another one."""
        if batch.len() < _BATCH_RECORDS:
            return batch
        self._write(batch)
        return WriteBatch(raw_mode=True)

    def _write(self, batch: Any) -> None:
        """Writes a batch as a whole. It is durable after the next `_sync`."""
        if batch.is_empty():
            return
        try:
            self._db.write(batch)
        except Exception as error:
            raise IndexFailure(str(error)) from None

    def _sync(self) -> None:
        try:
            self._log.sync()
        except OSError as error:
            raise IndexFailure(str(error)) from None

    def _scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        cursor = self._cursor()
        cursor.seek(start)
        while self._valid(cursor) and (key := cursor.key()) < end:
            yield key, cursor.value()
            cursor.next()

    def _cursor(self) -> Any:
        try:
            return self._db.iter()
        except Exception as error:
            raise IndexFailure(str(error)) from None

    def _valid(self, cursor: Any) -> bool:
        """Returns whether the cursor stands on a record; False means that the cursor is at the end. RocksDB calls a
        cursor invalid at the end and also after damage; only the cursor's status tells the two apart. Raises
        IndexFailure for damage."""
        if cursor.valid():
            return True
        try:
            cursor.status()
        except Exception as error:
            raise IndexFailure(str(error)) from None
        return False

    def _run_at(self, cursor: Any, ledger_id: int) -> IndexRun | None:
        """Returns the run that the cursor stands on, or None when it stands on no run of this ledger."""
        if not self._valid(cursor):
            return None
        key = cursor.key()
        if len(key) != _RUN_KEY.size:
            return None
        kind, found_ledger, first = _RUN_KEY.unpack(key)
        if kind != b"e" or found_ledger != ledger_id:
            return None
        return IndexRun(first - _ID_OFFSET, *_RUN_VALUE.unpack(cursor.value()))


def _run_key(ledger_id: int, entry_id: int) -> bytes:
    return _RUN_KEY.pack(b"e", ledger_id, entry_id + _ID_OFFSET)


def _run_value(run: IndexRun) -> bytes:
    return _RUN_VALUE.pack(run.last, run.log_id, run.offset, run.length, run.dense)


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_paranoid_checks(True)
    # A record that a crash tore at the very end of RocksDB's log is dropped: its write was never confirmed. Damage
    # before that refuses the start; by default RocksDB would silently drop everything behind the damage.
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    options.set_compression_type(DBCompressionType.none())
    options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(2)
    options.set_arena_block_size(64 << 10)
    options.set_max_background_jobs(1)
    options.set_max_open_files(_OPEN_FILES)
    options.set_max_file_opening_threads(1)
    # The kernel may read ahead in the tables, so that fewer look-ups wait for the disk: rocksdict holds the interpreter
    # meanwhile.
    options.set_advise_random_on_open(False)
    options.set_target_file_size_base(8 << 20)
    options.set_max_manifest_file_size(4 << 20)
    options.set_keep_log_file_num(1)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    table = BlockBasedOptions()
    table.set_block_cache(Cache(_BLOCK_CACHE_BYTES))
    options.set_block_based_table_factory(table)
    return options
