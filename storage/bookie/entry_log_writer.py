"""Appends ledgers' entries to the current entry log, on the flush thread. The writer begins a log when there is
something to write. After a restart it begins a new log and never appends to an old log, whose end may be torn.
"""

import os
import secrets
from collections.abc import Sequence

from magnetar.storage.bookie.durable_file import DurableFile, OpenFile, sync_directory
from magnetar.storage.bookie.entry_log_format import (
    FILE_HEADER_SIZE,
    Block,
    encode_block,
    encode_footer,
    file_header,
    plan_blocks,
)
from magnetar.storage.bookie.entry_logs import EntryLogs
from magnetar.storage.bookie.index_runs import IndexRun
from magnetar.storage.bookie.recent_pages import RecentPages, kept_bytes

_WRITE_BYTES = 1 << 20
"""The approximate size of one write. Between two writes the event loop gets the interpreter lock."""
_SYNC_BYTES = 4 << 20
"""The number of bytes that are written between two syncs: a single sync of a large flush would hold up the journal's
sync if both are on one disk."""

PlacedBlock = tuple[IndexRun, Sequence[int]]
"""A block that was written: the run that says where it is, and its entry ids."""


class EntryLogWriter:
    """The current entry log. Callers `append` and `copy` blocks, then call `finish`, which makes the blocks durable,
    and call `indexed` when the index knows the blocks. If any of these calls raises an OSError, the caller calls
    `abort`."""

    def __init__(
        self, logs: EntryLogs, *, log_size_limit: int, block_bytes: int, open_file: OpenFile = DurableFile
    ) -> None:
        self._logs = logs
        self._recent = RecentPages(kept_bytes())
        self._log_size_limit = log_size_limit
        self._block_bytes = block_bytes
        self._open_file = open_file
        self._file: DurableFile | None = None
        self.log_id: int | None = None
        """The current log, which must not be deleted; None before the first write and after `close_log`."""
        self.unindexed: set[int] = set()
        """Logs with blocks that the index does not know yet: the collector must not judge them by the index."""
        self._salt = 0
        self._ledgers: dict[int, int] = {}
        self._pending_ledgers: dict[int, int] = {}
        self._buffers: list[bytes] = []
        self._finished = 0
        self._written = 0
        self._synced = 0
        self._offset = 0
        self.bytes_written = 0

    @property
    def next_log_id(self) -> int:
        return self._logs.next_id

    def append(
        self, generation: int, ledger_id: int, ids: Sequence[int], entries: Sequence[bytes]
    ) -> list[PlacedBlock]:
        """Appends entries of one ledger, in ascending order, and returns their blocks. Raises OSError."""
        lengths = list(map(len, entries))
        placed: list[PlacedBlock] = []
        for start, end in plan_blocks(ids, lengths, self._block_bytes):
            block_ids = ids[start:end]
            buffers = encode_block(generation, ledger_id, block_ids, entries[start:end], lengths[start:end])
            placed.append((self._place(ledger_id, block_ids, buffers), block_ids))
        return placed

    def copy(self, block: Block) -> IndexRun:
        """Appends a block of another log unchanged, with its generation, and returns the place of the copy. Raises
        OSError."""
        return self._place(block.header.ledger_id, block.ids, block.buffers())

    def _place(self, ledger_id: int, ids: Sequence[int], buffers: list[bytes]) -> IndexRun:
        if self._file is None or self._offset >= self._log_size_limit:
            self.close_log()
            self._begin_log()
        assert self.log_id is not None
        length = sum(map(len, buffers))
        dense = ids[-1] - ids[0] == len(ids) - 1
        run = IndexRun(ids[0], ids[-1], self.log_id, self._offset, length, dense)
        self.unindexed.add(self.log_id)
        self._buffers.extend(buffers)
        self._offset += length
        self._pending_ledgers[ledger_id] = self._pending_ledgers.get(ledger_id, 0) + length
        if self._offset - self._written >= _WRITE_BYTES:
            self._write()
        return run

    def finish(self) -> None:
        """Makes all blocks durable that were appended so far. Raises OSError."""
        self._write()
        if self._synced < self._written:
            self._sync()
        self._finished = self._written
        for ledger_id, length in self._pending_ledgers.items():
            self._ledgers[ledger_id] = self._ledgers.get(ledger_id, 0) + length
        self._pending_ledgers.clear()

    def indexed(self) -> None:
        """Called when the index has all finished blocks: `unindexed` is empty from now on."""
        self.unindexed.clear()

    def abort(self) -> None:
        """Forgets the blocks that were written since the last `finish`, and truncates the file behind the last
        finished block. Raises OSError."""
        self._buffers.clear()
        self._pending_ledgers.clear()
        self._offset = self._written = self._synced = self._finished
        if self._file is not None:
            self._file.truncate(self._finished)

    def ledgers(self) -> dict[int, int]:
        """Returns the bytes of each ledger's finished blocks in the current log."""
        return self._ledgers

    def close_log(self) -> None:
        """Finishes the current log and writes its footer; the next block begins another log. Raises OSError."""
        if self._file is None:
            return
        self.finish()
        self._file.write([encode_footer(self._ledgers, self._offset, self._salt)], self._offset)
        self._file.sync()
        self._file.close()
        self._file = None
        self.log_id = None

    def _begin_log(self) -> None:
        log_id, path = self._logs.new_log()
        file = self._open_file(path, create=True)
        try:
            salt = secrets.randbits(32)
            file.write([file_header(log_id, salt)], 0)
            file.sync()
            sync_directory(os.path.dirname(path))
        except OSError:
            file.close()
            os.unlink(path)
            raise
        self._file, self.log_id, self._ledgers, self._salt = file, log_id, {}, salt
        self._logs.add(log_id, path)
        self._offset = self._written = self._synced = self._finished = FILE_HEADER_SIZE

    def _write(self) -> None:
        if not self._buffers:
            return
        assert self._file is not None
        end = self._file.write(self._buffers, self._written)
        self.bytes_written += end - self._written
        self._written = end
        self._buffers.clear()
        if self._written - self._synced >= _SYNC_BYTES:
            self._sync()

    def _sync(self) -> None:
        assert self._file is not None
        self._file.sync()
        self._recent.synced(self._file.path, self._synced, self._written)
        self._synced = self._written
