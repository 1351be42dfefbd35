"""The journal: a thread that makes groups of adds durable, many groups with one write and one fdatasync.

    queued     a b c             d e f g h            i ...
    thread     │                 │                    │
               ╰ write, sync abc ╰ write, sync defgh  ╰ write, sync i ...

The thread takes all queued groups as one batch, at once when it was idle. Groups that arrive while it writes and syncs
form the next batch. No timer is needed: a lone add waits for nobody, and the busier the journal is, the larger its
batches grow. One batch is written at a time, and the next batch is written only after this batch's sync has returned.
Replay relies on this order: a whole batch proves that every batch before it was durable (`journal_replay`).

A batch that fails because the disk has no room is cut off again: its groups fail, and the journal goes on. Any other
failure of a write or a sync leaves the content of the file unknown, since the kernel may have dropped pages. After such
a failure the journal is dead and every further group fails. Only a restart helps, because it reads the file again.

An old file may be written over instead of making a new file (`old_journals`). docs/DATA_FILES.md, "Written over", says
why the old content does no harm.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from itertools import chain
from queue import Empty, SimpleQueue
from typing import Any

from magnetar.storage.bookie.bookie_errors import is_no_room
from magnetar.storage.bookie.bookie_latencies import BatchTimes, Latencies
from magnetar.storage.bookie.durable_file import DurableFile, OpenFile, replace_file
from magnetar.storage.bookie.journal_format import (
    FILE_HEADER_SIZE,
    SALT_BITS,
    BatchKind,
    JournalPosition,
    Salt,
    encode_batch,
    file_header,
    padding,
    salt_of,
    salt_of_bits,
)
from magnetar.storage.bookie.journal_replay import journal_path
from magnetar.storage.bookie.old_journals import OldJournals

log = logging.getLogger(__name__)

JournalGroup = tuple[list[bytes], list[int], int, Sequence[bytes], Any]
"""A group of adds: (entries, lengths of the entries, sum of the lengths, control records, an object that the submitter
gets back)."""


class JournalLatencies:
    """How long the journal takes. Each batch is counted once, as `add_batch` says."""

    __slots__ = ("add", "queue", "sync")

    def __init__(self) -> None:
        self.sync = Latencies()
        """By the time of an fdatasync."""
        self.queue = Latencies()
        """By the time that an entry waits for its batch to begin."""
        self.add = Latencies()
        """By the time from an entry's submission to the end of its batch."""


class Committed:
    """The outcome of the groups of one batch. The journal's thread hands over one such object for each sync."""

    __slots__ = ("error", "fatal", "groups", "position", "submitted")

    def __init__(
        self,
        groups: list[JournalGroup],
        position: JournalPosition,
        error: OSError | None,
        fatal: bool,
        submitted: BatchTimes,
    ) -> None:
        self.groups = groups
        self.submitted = submitted
        self.position = position
        """The position where the journal goes on. When `error` is None, these groups and all groups that were submitted
        earlier are before this position."""
        self.error = error
        self.fatal = fatal


class Journal:
    """One journal folder's writer. The loop's thread calls `submit`. `close` may be called on another thread, after the
    last `submit`. `notify` is called on the journal's own thread.

    The queue itself has no bound: the submitter counts the bytes that it has submitted and that are not answered yet
    (`AddPath`).
    """

    def __init__(
        self,
        directory: str,
        start: JournalPosition,
        notify: Callable[[Committed], object],
        *,
        max_file_bytes: int,
        max_batch_bytes: int,
        open_file: OpenFile = DurableFile,
        old: OldJournals | None = None,
    ) -> None:
        """Opens the file at `start`, where replay ended, and starts the thread. The file is made when `start.offset` is
        0. `old` supplies the old files that are written over. Blocks. Raises OSError."""
        self._directory = directory
        self._notify = notify
        self._max_file_bytes = max_file_bytes
        self._max_batch_bytes = max_batch_bytes
        self._open_file = open_file
        self._old = old
        self._former_end = 0
        """Up to this offset the file may hold bytes of its former use. The offset is 0 in the file in which replay
        ended, since replay has cut off such bytes."""
        if start.offset == 0:
            start = start._replace(offset=FILE_HEADER_SIZE)
            self._file, self._salt, self._former_end = self._create(start.journal_id, start.sequence)
        else:
            self._file = open_file(journal_path(directory, start.journal_id))
            salt = salt_of(self._file.read(FILE_HEADER_SIZE, 0))
            assert salt is not None, "replay verified batches of this file"
            self._salt = salt
        self.start_position = start
        self._position = start
        self._queue: SimpleQueue[tuple[float, JournalGroup] | None] = SimpleQueue()
        """The groups with the time of their submission. None ends the thread."""
        self.latencies = JournalLatencies()
        self.is_writing = False
        self._closing = False
        self._dead: OSError | None = None
        self.batches = 0
        self.bytes_written = 0
        self.busy_seconds = 0.0
        self._begin()

    def _begin(self) -> None:
        self._worker = threading.Thread(target=self._run, name="bookie-journal", daemon=True)
        self._worker.start()

    def submit(self, group: JournalGroup) -> None:
        """Queues a group. `notify` is called when the group is durable or has failed."""
        self._queue.put((time.monotonic(), group))

    @property
    def queued_groups(self) -> int:
        return self._queue.qsize()

    def close(self) -> None:
        """Makes all submitted groups durable, then ends the thread. Blocks until that is done."""
        self._queue.put(None)
        self._worker.join()
        self._close_file()

    def _close_file(self) -> None:
        """Closes the file. Cuts off the bytes of its former use after the last batch, so that the next start need not
        search them."""
        if self._dead is None and self._position.offset < self._former_end:
            try:
                self._file.truncate(self._position.offset)
                self._file.sync()
            except OSError as error:
                log.warning("journal %s: the next start will cut it: %s", self._file.path, error)
        self._file.close()

    def _run(self) -> None:
        while not self._closing:
            groups, submitted = self._take()
            if groups:
                self._commit(groups, submitted)
            del groups  # so that the last batch does not stay in memory until the next one comes

    def _take(self) -> tuple[list[JournalGroup], BatchTimes]:
        """Waits for a group, and takes all further queued groups, until the bound of a batch is reached."""
        queued = self._queue.get()
        groups: list[JournalGroup] = []
        size = entries = 0
        first_s = last_s = 0.0 if queued is None else queued[0]
        while queued is not None:
            last_s, group = queued
            groups.append(group)
            size += group[2]
            entries += len(group[0])
            if size >= self._max_batch_bytes:
                return groups, BatchTimes(first_s, last_s, entries)
            try:
                queued = self._queue.get_nowait()
            except Empty:
                return groups, BatchTimes(first_s, last_s, entries)
        self._closing = True
        return groups, BatchTimes(first_s, last_s, entries)

    def _commit(self, groups: list[JournalGroup], submitted: BatchTimes) -> None:
        """Writes one batch, and tells the submitter the outcome."""
        started = time.monotonic()
        error: OSError | None = None
        fatal = False
        self.is_writing = True
        try:
            if self._dead is None:
                self._write(groups)
            error, fatal = self._dead, self._dead is not None
        except OSError as failure:
            error, fatal = failure, self._recover(failure)
        except Exception as failure:
            log.exception("journal: a batch could not be written; no add is accepted any more")
            self._dead = error = OSError(f"journal failed: {failure}")
            fatal = True
        self.is_writing = False
        self._notify(Committed(groups, self._position, error, fatal, submitted))
        ended = time.monotonic()
        self.busy_seconds += ended - started
        self.latencies.queue.add_batch(submitted, started, ok=True)
        self.latencies.add.add_batch(submitted, ended, ok=error is None)

    def _write(self, groups: list[JournalGroup]) -> None:
        """Writes and syncs one batch. Raises OSError.

        When bytes of the file's former use follow the batch, zeros fill the rest of its last page. The page is then
        written as a whole, so the kernel need not read it from the disk first. The next batch overwrites these zeros:

            │ batch 7 ......│ batch 8 .... 0000│ former use ...        after batch 8
            │ batch 7 ......│ batch 8 ....│ batch 9 ... 00000000│      after batch 9
        """
        if self._position.offset >= self._max_file_bytes:
            self._continue_in_next_file()
        if len(groups) == 1:
            entries, lengths, _, controls, _ = groups[0]
        else:
            entries = list(chain.from_iterable([group[0] for group in groups]))
            lengths = list(chain.from_iterable([group[1] for group in groups]))
            controls = list(chain.from_iterable([group[3] for group in groups]))
        journal_id, offset, sequence = self._position
        buffers = encode_batch(journal_id, sequence, self._salt, controls, entries, lengths)
        end = offset + sum(map(len, buffers))
        if end < self._former_end:
            buffers.append(bytes(padding(end)))
        self._file.write(buffers, offset)
        written_s = time.monotonic()
        self._file.sync()
        self.latencies.sync.ok.add(time.monotonic() - written_s)
        self._position = JournalPosition(journal_id, end, sequence + 1)
        self.batches += 1
        self.bytes_written += end - offset

    def _recover(self, error: OSError) -> bool:
        """After an error for lack of room, cuts off the bytes of the failed batch. Declares the journal dead after any
        other error, or when the cut itself fails. Returns whether the journal is dead."""
        file, offset = self._file, self._position.offset
        if is_no_room(error):
            try:
                file.truncate(offset)
                file.sync()
            except OSError as second:
                error = second
            else:
                self._former_end = 0
                return False
        self._dead = error
        log.error(
            "journal %s: write or sync at offset %d failed, nothing is stored any more: %s", file.path, offset, error
        )
        return True

    def _continue_in_next_file(self) -> None:
        """Makes the next file durably, and after that writes the batch CONTINUED into the present file."""
        journal_id, offset, sequence = self._position
        fresh, salt, former_end = self._create(journal_id + 1, sequence + 1)
        try:
            self._file.write(encode_batch(journal_id, sequence, self._salt, (), [], [], BatchKind.CONTINUED), offset)
            self._file.sync()
        except OSError:
            # The new file stays, because the record that names it may have reached the disk. If the record did not,
            # replay removes the file.
            fresh.close()
            raise
        self._file.close()
        self._file, self._salt, self._former_end = fresh, salt, former_end
        self._position = JournalPosition(journal_id + 1, FILE_HEADER_SIZE, sequence + 1)

    def _create(self, journal_id: int, first_sequence: int) -> tuple[DurableFile, Salt, int]:
        """Makes the file of a new journal, from an old file if there is a spare. Returns the file, its salt, and the
        offset up to which it may hold bytes of its former use. Raises OSError."""
        bits = secrets.randbits(SALT_BITS)
        header = file_header(journal_id, first_sequence, bits)
        file = self._old.take(journal_id, header, self._open_file) if self._old is not None else None
        if file is not None:
            size = file.size()
            return file, salt_of_bits(bits), size + padding(size)
        path = journal_path(self._directory, journal_id)
        replace_file(path, header)
        return self._open_file(path), salt_of_bits(bits), 0
