"""The journal: a thread that makes groups of adds durable, many groups with one write and one fdatasync.

The thread takes all that is queued as one batch, at once when it was idle; what arrives while it writes and syncs forms
the next batch. So there is no timer, a lone add waits for nobody, and the busier it is the larger the batches grow.

A batch that fails for want of room is cut off again and the journal goes on: its groups fail, nothing else. Any other
failure of a write or sync leaves the file's content unknown (the kernel may have dropped pages): the journal is dead,
and every group from then on fails. Only a restart, which reads what is really there, helps.

A new file may be an old one that is written over (`old_journals.py`); `journal_format.py` says why what still stands
in it does no harm.
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
"""(entries, their lengths, the sum of these, control records, what the submitter wants back)"""


class Committed:
    """What became of some groups; handed over on the journal's thread, once per fsync."""

    __slots__ = ("error", "fatal", "groups", "position")

    def __init__(
        self, groups: list[JournalGroup], position: JournalPosition, error: OSError | None, fatal: bool
    ) -> None:
        self.groups = groups
        self.position = position
        """Everything submitted up to and including these groups stands before it, when `error` is None."""
        self.error = error
        self.fatal = fatal


class Journal:
    """`submit` and `close` belong to one thread (the loop's); `notify` is called on the journal's own.

    The queue's bound is the submitter's: it counts what it submitted and did not get back.
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
        """Opens the file at `start`, creating it when `start.offset` is 0. `old`: where files to write over come from.

        Raises OSError. Blocks.
        """
        self._directory = directory
        self._notify = notify
        self._max_file_bytes = max_file_bytes
        self._max_batch_bytes = max_batch_bytes
        self._open_file = open_file
        self._old = old
        self._former_end = 0
        """Before it the file may hold bytes of its former use; replay cut them off the file that it left."""
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
        self._queue: SimpleQueue[JournalGroup | None] = SimpleQueue()
        self._closing = False
        self._dead: OSError | None = None
        self.batches = 0
        self.bytes_written = 0
        self.busy_seconds = 0.0
        self._begin()

    def _begin(self) -> None:
        self._thread = threading.Thread(target=self._run, name="bookie-journal", daemon=True)
        self._thread.start()

    def submit(self, group: JournalGroup) -> None:
        self._queue.put(group)

    def close(self) -> None:
        """Commits what was submitted, then ends the thread. Blocks for it."""
        self._queue.put(None)
        self._thread.join()
        self._close_file()

    def _close_file(self) -> None:
        """A file that ends where the journal does needs no word at the next start."""
        if self._dead is None and self._position.offset < self._former_end:
            try:
                self._file.truncate(self._position.offset)
                self._file.sync()
            except OSError as error:
                log.warning("journal %s: the next start will cut it: %s", self._file.path, error)
        self._file.close()

    def _run(self) -> None:
        while not self._closing:
            groups = self._take()
            if groups:
                self._commit(groups)

    def _take(self) -> list[JournalGroup]:
        """Waits for a group, then takes what else is there, up to the bound of a batch."""
        group = self._queue.get()
        groups: list[JournalGroup] = []
        size = 0
        while group is not None:
            groups.append(group)
            size += group[2]
            if size >= self._max_batch_bytes:
                return groups
            try:
                group = self._queue.get_nowait()
            except Empty:
                return groups
        self._closing = True
        return groups

    def _commit(self, groups: list[JournalGroup]) -> None:
        started = time.perf_counter()
        try:
            if self._dead is None:
                self._write(groups)
        except OSError as error:
            self._notify(Committed(groups, self._position, error, self._recover(error)))
        except Exception as error:
            log.exception("journal: a batch could not be written; no add is accepted any more")
            self._dead = OSError(f"journal failed: {error}")
            self._notify(Committed(groups, self._position, self._dead, True))
        else:
            self._notify(Committed(groups, self._position, self._dead, self._dead is not None))
        self.busy_seconds += time.perf_counter() - started

    def _write(self, groups: list[JournalGroup]) -> None:
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
        self._file.sync()
        self._position = JournalPosition(journal_id, end, sequence + 1)
        self.batches += 1
        self.bytes_written += end - offset

    def _recover(self, error: OSError) -> bool:
        """Cuts off what a failed batch left; True when the journal is dead."""
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
        """The next file exists durably before this one says that the journal goes on there."""
        journal_id, offset, sequence = self._position
        fresh, salt, former_end = self._create(journal_id + 1, sequence + 1)
        try:
            self._file.write(encode_batch(journal_id, sequence, self._salt, (), [], [], BatchKind.CONTINUED), offset)
            self._file.sync()
        except OSError:
            fresh.close()  # and left there: the record may have reached the disk, and replay removes an unused file
            raise
        self._file.close()
        self._file, self._salt, self._former_end = fresh, salt, former_end
        self._position = JournalPosition(journal_id + 1, FILE_HEADER_SIZE, sequence + 1)

    def _create(self, journal_id: int, first_sequence: int) -> tuple[DurableFile, Salt, int]:
        """(the file, its salt, before which offset it holds bytes of a former use)."""
        bits = secrets.randbits(SALT_BITS)
        header = file_header(journal_id, first_sequence, bits)
        file = self._old.take(journal_id, header, self._open_file) if self._old is not None else None
        if file is not None:
            size = file.size()
            return file, salt_of_bits(bits), size + padding(size)
        path = journal_path(self._directory, journal_id)
        replace_file(path, header)
        return self._open_file(path), salt_of_bits(bits), 0
