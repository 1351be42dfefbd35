"""The index on disk (RocksDB): where each ledger's entries are, and each ledger's state.

    key "e", u64 ledger id, u64 first entry id + 2^63
        value i64 last entry id, u32 log id, u64 offset, u32 length, u8 dense
    key "l", u64 ledger id
        value see `ledger_state.LedgerState.encode`

All writes come from the flush thread; reads from any. RocksDB is kept small: records are few (one for some 64 KB of
entries), so tiny buffers and one background thread do.
"""

import logging
import os
import struct
import threading
from collections.abc import Iterable, Iterator
from itertools import takewhile
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
    WriteOptions,
)

from magnetar.storage.bookie.bookie_errors import IndexDamaged, IndexFailure
from magnetar.storage.bookie.entry_log_writer import PlacedBlock
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


class EntryIndex:
    """Runs and ledger states. Methods raise IndexFailure unless they say otherwise."""

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        """Opens or creates; `read_only` only reads what is there, also beside a bookie that has it open. Raises
        IndexDamaged."""
        self._path = path
        self._read_only = read_only
        self._sync = WriteOptions()
        self._sync.sync = True
        self._lock = threading.Lock()
        """Held while a cursor lives: an open cursor would keep the files locked when `reopen` closes them."""
        self._open()

    def _open(self) -> None:
        try:
            if self._read_only:
                self._db = Rdict(self._path, _options(), access_type=AccessType.read_only())
                return
            os.makedirs(self._path, exist_ok=True)
            self._db = Rdict(self._path, _options())
        except Exception as error:
            raise IndexDamaged(f"the index {self._path} cannot be opened: {error}") from None

    def reopen(self) -> None:
        """After a failed write RocksDB takes no more; a new start reads what is durable. Raises IndexDamaged."""
        with self._lock:
            self._close()
            self._open()

    def close(self) -> None:
        with self._lock:
            self._close()

    def _close(self) -> None:
        """RocksDB reports an earlier failed write once more; what was confirmed is durable without it."""
        try:
            self._db.close()
        except Exception as error:
            log.warning("index: closing it: %s", error)

    @property
    def sequence(self) -> int:
        """Grows with every record written and survives restarts, so that a lost write is noticed."""
        return int(self._db.latest_sequence_number())

    def manifest(self) -> Manifest:
        """What RocksDB holds for the list of its files, for the next start to compare."""
        try:
            return read_manifest(self._path)
        except ValueError as error:
            raise IndexFailure(f"{self._path}: {error}") from None

    def ledger_states(self) -> Iterator[BookieLedgerState]:
        """Every ledger's state. Raises IndexDamaged."""
        try:
            for key, value in self._scan(b"l", b"m"):
                yield BookieLedgerState.decode(_LEDGER_KEY.unpack(key)[1], value)
        except (IndexFailure, ValueError, struct.error) as error:
            raise IndexDamaged(f"the index {self._path} is damaged: {error}") from None

    def runs(self) -> Iterator[tuple[int, IndexRun]]:
        """Every run with its ledger, ascending."""
        for key, value in self._scan(b"e", b"f"):
            _, ledger_id, first = _RUN_KEY.unpack(key)
            yield ledger_id, IndexRun(first - _ID_OFFSET, *_RUN_VALUE.unpack(value))

    def lookup(self, ledger_id: int, entry_id: int, max_bytes: int) -> list[IndexRun]:
        """The run that contains `entry_id` or else the first one behind it, then those that follow while their blocks
        sum up to at most `max_bytes`; empty when there is none."""
        with self._lock:
            found: list[IndexRun] = []
            for run in self._runs_from(ledger_id, entry_id):
                max_bytes -= run.length
                if found and max_bytes < 0:
                    break
                found.append(run)
            return found

    def overlapping(self, ledger_id: int, first: int, last: int) -> list[IndexRun]:
        """All runs that share ids of an interval, ascending."""
        with self._lock:
            return list(takewhile(lambda run: run.first <= last, self._runs_from(ledger_id, first)))

    def last_run(self, ledger_id: int) -> IndexRun | None:
        """The run with the ledger's highest entry id."""
        with self._lock:
            cursor = self._cursor()
            cursor.seek_for_prev(_run_key(ledger_id, _MAX_ENTRY_ID))
            return self._run_at(cursor, ledger_id)

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
        """Adds new blocks (ascending per ledger) and states, durably. Doing it again after a failure is harmless."""
        batch = WriteBatch(raw_mode=True)
        for ledger_id, blocks in placed:
            last = self.last_run(ledger_id)
            for new, ids in blocks:
                if last is None or last.last < new.first:
                    batch.put(_run_key(ledger_id, new.first), _run_value(new))
                else:
                    self._write(batch, sync=False)
                    batch = WriteBatch(raw_mode=True)
                    self._overlay(batch, ledger_id, new, ids, ids_of)
        for ledger_id, record in states:
            batch.put(_LEDGER_KEY.pack(b"l", ledger_id), record)
        self._write(batch, sync=True)

    def _overlay(self, batch: Any, ledger_id: int, new: IndexRun, ids: Any, ids_of: IdsOf) -> None:
        """What was written before must be visible: blocks of one batch may meet the same older run."""
        existing = self.overlapping(ledger_id, new.first, new.last)
        for run in existing:
            batch.delete(_run_key(ledger_id, run.first))
        for run in overlay(existing, new, ids, ids_of):
            batch.put(_run_key(ledger_id, run.first), _run_value(run))

    def points_to(self, ledger_id: int, block: IndexRun) -> bool:
        """True when some of the block's entries are the ones that count."""
        return any(run.is_of(block) for run in self.overlapping(ledger_id, block.first, block.last))

    def move_blocks(self, moves: Iterable[tuple[int, IndexRun, IndexRun]]) -> None:
        """(ledger, block, its copy): the runs of the blocks are those of the copies from now on, durably."""
        batch = WriteBatch(raw_mode=True)
        for ledger_id, old, new in moves:
            for run in self.overlapping(ledger_id, old.first, old.last):
                if run.is_of(old):
                    moved = IndexRun(run.first, run.last, new.log_id, new.offset, new.length, run.dense)
                    batch.put(_run_key(ledger_id, run.first), _run_value(moved))
        self._write(batch, sync=True)

    def delete_ledgers(self, ledger_ids: Iterable[int]) -> None:
        """Runs and states, durably."""
        batch = WriteBatch(raw_mode=True)
        for ledger_id in ledger_ids:
            batch.delete_range(_RUN_KEY.pack(b"e", ledger_id, 0), _RUN_KEY.pack(b"e", ledger_id + 1, 0))
            batch.delete(_LEDGER_KEY.pack(b"l", ledger_id))
        self._write(batch, sync=True)

    def _write(self, batch: Any, *, sync: bool) -> None:
        if batch.is_empty():
            return
        try:
            if sync:
                self._db.write(batch, self._sync)
            else:
                self._db.write(batch)
        except Exception as error:
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
        """False at the end; an iterator that met damage also says it is not valid, its status tells."""
        if cursor.valid():
            return True
        try:
            cursor.status()
        except Exception as error:
            raise IndexFailure(str(error)) from None
        return False

    def _run_at(self, cursor: Any, ledger_id: int) -> IndexRun | None:
        """The cursor's run when it is one of this ledger."""
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
    # A record torn by a crash at the very end of RocksDB's log is dropped (its write was never confirmed); damage
    # before that refuses the start. The default would silently drop everything behind it.
    options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    options.set_compression_type(DBCompressionType.none())
    options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(2)
    options.set_arena_block_size(64 << 10)
    options.set_max_background_jobs(1)
    options.set_max_open_files(_OPEN_FILES)
    options.set_max_file_opening_threads(1)
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
