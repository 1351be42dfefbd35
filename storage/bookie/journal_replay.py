"""Reads the journal from the mark to its end when the bookie starts, and tells a torn tail from damage.

A crash can leave one unfinished batch, at the very end, because one batch at a time is written and synced. So bytes
that are no batch and have nothing valid behind them were never acknowledged: they are cut. With a whole batch behind
them they are damage of something that may have been acknowledged: JournalDamaged, and the files stay as they are
(Apache's bookie starts without a word). With `skip_damage` the operator gave up that part: what is whole is applied, no
file is changed, and the journal goes on in a new file.

In a file that was written over, the batches of its former use are no batches, because they have another journal's id,
older sequence numbers and another salt. So the rule is the same there, and its live part ends at the first place behind
which no batch of this file is to be found; all of the rest is searched.
"""

import logging
import mmap
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

from magnetar.storage.bookie.bookie_errors import JournalDamaged, JournalMissing, MarkDamaged, Skippable
from magnetar.storage.bookie.durable_file import DurableFile, sync_directory
from magnetar.storage.bookie.journal_format import (
    BATCH_HEADER_SIZE,
    BATCH_MAGIC,
    FILE_HEADER_SIZE,
    BatchHeader,
    BatchKind,
    ControlRecord,
    JournalPosition,
    Salt,
    batch_pattern,
    padding,
    parse_batch_header,
    parse_file_header,
    salt_of,
    split_batch,
    verify_batch,
)

log = logging.getLogger(__name__)

FIRST_POSITION = JournalPosition(1, FILE_HEADER_SIZE, 1)
_NAME = re.compile(r"([0-9a-f]{16})\.journal")

Data = mmap.mmap | bytes
"""A whole file; an empty one cannot be mapped."""

ApplyBatch = Callable[[list[ControlRecord], list[bytes], bool], None]
"""(control records, entries, whether a part of the journal before them was given up)"""


def journal_path(directory: str, journal_id: int) -> str:
    return os.path.join(directory, f"{journal_id:016x}.journal")


def list_journals(directory: str) -> list[int]:
    """The ids of the journal files in a folder, ascending; none in a folder that is still to be made."""
    names = map(_NAME.fullmatch, os.listdir(directory) if os.path.isdir(directory) else ())
    return sorted(int(name.group(1), 16) for name in names if name)


class JournalReplay:
    """One pass over the journal; afterwards `end` is where the journal goes on.

    `run` reads, and changes nothing on disk; `finish` cuts off what a crash left unfinished. Between the two the caller
    judges the other files of the start. `end.offset` 0 means that no such file exists yet. `skipped` tells that damage
    was passed over: then `end` is in a new file, and the mark must move there before an add is taken, or the next start
    would find the damage again.
    """

    def __init__(
        self, directory: str, mark: JournalPosition | None, apply: ApplyBatch, skip_damage: bool = False
    ) -> None:
        self._directory = directory
        self._mark = mark
        self._apply = apply
        self._skip_damage = skip_damage
        self.skipped = False
        self._torn_at: JournalPosition | None = None
        self._unused: list[int] = []
        """Files behind the end that hold no batch."""
        self.batches = 0
        self.end = JournalPosition(1, 0, 1)

    def run(self) -> None:
        """Raises JournalDamaged, JournalMissing, MarkDamaged."""
        self._replay(self._chain())
        if self.skipped:
            self.end = self._behind_all()

    def _replay(self, chain: list[int]) -> None:
        for index, journal_id in enumerate(chain):
            with _mapped(journal_path(self._directory, journal_id)) as data:
                continued, torn = self._replay_file(data, journal_id)
                if continued:
                    self._demand_next(chain, index)
                    continue
                behind = self._find_batches(chain[index + 1 :])
                if behind is not None:
                    self._damage(journal_id, self.end.offset, f"journal {behind} behind it holds batches")
                    continue
                torn_at = self.end if torn else None
            if not self.skipped:
                self._torn_at, self._unused = torn_at, chain[index + 1 :]
            return

    def _behind_all(self) -> JournalPosition:
        """The begin of a new file. Its id and its batches' numbers are higher than any that the mark or a batch in the
        damaged part can have, so that nothing of that part is ever taken for a part of the journal again."""
        ids = list_journals(self._directory)
        mark = self._mark or FIRST_POSITION
        batches_max = sum(os.path.getsize(journal_path(self._directory, i)) for i in ids) // BATCH_HEADER_SIZE
        sequence = max(self.end.sequence, mark.sequence) + batches_max + 1
        return JournalPosition(max([*ids, mark.journal_id]) + 1, 0, sequence)

    def _chain(self) -> list[int]:
        """The files to read, in order; ids must follow one another from the mark on."""
        ids = list_journals(self._directory)
        mark = self._mark
        if mark is None:
            self.end = FIRST_POSITION if ids else self.end
            if ids and ids[0] != FIRST_POSITION.journal_id:
                what = "but there is no mark (lastMark) that says from where to replay, and journal 1 is missing"
                self._give_up(MarkDamaged(f"{self._directory} holds journal {ids[0]}, {what}"))
                self.end = JournalPosition(ids[0], 0, 1)
        else:
            self.end = mark
            ids = [journal_id for journal_id in ids if journal_id >= mark.journal_id]
            if not ids or ids[0] != mark.journal_id:
                self._missing(mark.journal_id, "the mark of the last checkpoint (lastMark) names it")
                self.end = JournalPosition(ids[0] if ids else mark.journal_id + 1, 0, mark.sequence)
        for before, after in pairwise(ids):
            if after != before + 1:
                self._missing(before + 1, f"journal {after} exists")
        return ids

    def _replay_file(self, data: Data, journal_id: int) -> tuple[bool, bool]:
        """(the file says that the next one goes on, bytes that are no batch stand at the end)."""
        if journal_id != self.end.journal_id or self.end.offset == 0:
            self.end = JournalPosition(journal_id, FILE_HEADER_SIZE, self.end.sequence)
        self._check_file_header(data, journal_id)
        salt = salt_of(data[:FILE_HEADER_SIZE])
        if salt is None:
            return False, False  # neither copy of the header is whole: nothing in the file can be believed
        if self.end.offset > len(data):
            self._damage(journal_id, len(data), f"the mark stands at offset {self.end.offset}, behind its end")
            self.end = self.end._replace(offset=len(data))
        while True:
            header = self._replay_batches(data, salt)
            if header is not None:
                return True, False
            if self.end.offset == len(data):
                return False, False
            found = _find_batch(data, self.end, salt)
            if found is None:
                self._check_mark_reached(data, salt)
                return False, True
            offset, sequence = found
            expected = f"batch {self.end.sequence} should stand there"
            self._damage(journal_id, self.end.offset, f"{expected}, and offset {offset} holds batch {sequence}")
            self.end = JournalPosition(journal_id, offset, sequence)

    def _check_mark_reached(self, data: Data, salt: Salt) -> None:
        """A file that was written over does not end where its last batch does, so with nothing of it behind the mark
        the batch before the mark must tell that the file once reached so far."""
        mark = self._mark
        if mark is None or self.end != mark or mark.offset <= FILE_HEADER_SIZE:
            return
        if not _has_batch_before(data, mark, salt):
            self._damage(mark.journal_id, mark.offset, "no batch ends at the mark, and none follows")

    def _check_file_header(self, data: Data, journal_id: int) -> None:
        try:
            header_id, first_sequence, _ = parse_file_header(data[:FILE_HEADER_SIZE])
        except ValueError as error:
            self._damage(journal_id, 0, str(error))
            return
        if header_id != journal_id:
            self._damage(journal_id, 0, f"the header is that of journal {header_id}")
        elif self.end.offset == FILE_HEADER_SIZE and first_sequence != self.end.sequence:
            self._damage(journal_id, 0, f"it begins with batch {first_sequence}, not {self.end.sequence}")
            self.end = self.end._replace(sequence=first_sequence)

    def _replay_batches(self, data: Data, salt: Salt) -> BatchHeader | None:
        """Applies batches from `end` on until there is none; returns the header of CONTINUED when it comes to it."""
        journal_id, offset, sequence = self.end
        while (found := _read_batch(data, offset, salt)) is not None:
            header, body = found
            if header.journal_id != journal_id or header.sequence != sequence:
                break
            offset += BATCH_HEADER_SIZE + header.length
            sequence += 1
            self.end = JournalPosition(journal_id, offset, sequence)
            if header.kind == BatchKind.CONTINUED:
                return header
            self._apply(*split_batch(header, body), self.skipped)
            self.batches += 1
        return None

    def _demand_next(self, chain: list[int], index: int) -> None:
        if index + 1 == len(chain):
            following = chain[index] + 1
            self._missing(following, f"journal {chain[index]} says that it goes on there")
            self.end = JournalPosition(following, 0, self.end.sequence)

    def _find_batches(self, later: list[int]) -> int | None:
        """The first of the later files that holds a batch; one that was only just created does not count."""
        for journal_id in later:
            with _mapped(journal_path(self._directory, journal_id)) as data:
                salt = salt_of(data[:FILE_HEADER_SIZE])
                start = JournalPosition(journal_id, FILE_HEADER_SIZE, 0)
                if salt is not None and _find_batch(data, start, salt) is not None:
                    return journal_id
        return None

    def finish(self) -> None:
        """Makes the folder hold nothing behind `end`: the first change on disk, to be called when the whole start was
        found in order. Raises OSError."""
        torn_at = self._torn_at
        for journal_id in self._unused:
            os.unlink(journal_path(self._directory, journal_id))
        if self._unused:
            sync_directory(self._directory)
        if torn_at is None:
            return
        file = DurableFile(journal_path(self._directory, torn_at.journal_id))
        try:
            size = file.size()
            rest = file.read(padding(torn_at.offset), torn_at.offset)
            file.truncate(torn_at.offset)
            file.sync()
        finally:
            file.close()
        if rest and not any(rest):
            log.info(
                "journal %s: cut %d bytes of its former use at offset %d",
                file.path,
                size - torn_at.offset,
                torn_at.offset,
            )
            return
        log.warning(
            "journal %s: cut %d bytes at offset %d, of an unfinished batch or of the file's former use; no whole batch "
            "follows, so nothing in them was acknowledged",
            file.path,
            size - torn_at.offset,
            torn_at.offset,
        )

    def _damage(self, journal_id: int, offset: int, what: str) -> None:
        self._give_up(JournalDamaged(journal_path(self._directory, journal_id), offset, what))

    def _missing(self, journal_id: int, what: str) -> None:
        self._give_up(JournalMissing(journal_path(self._directory, journal_id), what))

    def _give_up(self, error: Skippable) -> None:
        give_up(error, self._skip_damage)
        self.skipped = True


def give_up(error: Skippable, skip_damage: bool) -> None:
    """Raises the error unless the operator gave up what it tells of."""
    if not skip_damage:
        raise error
    log.error("skipping as told: %s", error.finding)


@contextmanager
def _mapped(path: str) -> Iterator[Data]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = mmap.mmap(fd, 0, access=mmap.ACCESS_READ) if os.fstat(fd).st_size else b""
    finally:
        os.close(fd)
    try:
        yield data
    finally:
        if isinstance(data, mmap.mmap):
            data.close()


def _read_batch(data: Data, offset: int, salt: Salt) -> tuple[BatchHeader, bytes] | None:
    header = parse_batch_header(data[offset : offset + BATCH_HEADER_SIZE], salt)
    if header is None:
        return None
    start = offset + BATCH_HEADER_SIZE
    body = data[start : start + header.length]
    return (header, body) if verify_batch(header, body, salt) else None


def _find_batch(data: Data, after: JournalPosition, salt: Salt) -> tuple[int, int] | None:
    """(offset, sequence number) of the first whole batch at or behind a position, not older than it."""
    for offset in _places(data, after.journal_id, after.offset, len(data)):
        found = _read_batch(data, offset, salt)
        if found is not None and found[0].sequence >= after.sequence:
            return offset, found[0].sequence
    return None


def _has_batch_before(data: Data, position: JournalPosition, salt: Salt) -> bool:
    """Whether the header of the batch that ends at a position is there: what follows it is not looked at."""
    start = position.offset
    while (start := data.rfind(BATCH_MAGIC, FILE_HEADER_SIZE, start)) >= 0:
        header = parse_batch_header(data[start : start + BATCH_HEADER_SIZE], salt)
        if header is not None and header.journal_id == position.journal_id:
            end = start + BATCH_HEADER_SIZE + header.length
            return end == position.offset and header.sequence + 1 == position.sequence
    return False


def _places(data: Data, journal_id: int, start: int, end: int) -> Iterator[int]:
    """Where headers of this journal's batches seem to stand; a former use leaves many of others' behind."""
    pattern = batch_pattern(journal_id)
    while (match := pattern.search(data, start, end)) is not None:
        offset = match.start()
        del match  # it would keep the file mapped
        yield offset
        start = offset + 1
