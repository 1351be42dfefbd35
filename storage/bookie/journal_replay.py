"""Reads the journal from the mark to its end when the bookie starts, and tells a torn tail from damage.

    │ 5 │ 6 │ 7 │ ???                   torn tail: a crash interrupted batch 8. Cut it off, and go on there.
    │ 5 │ 6 │ 7 │ ??? │ 9 │ 10 │        damage: 9 is whole, so 8 was durable once. Refuse to start.

A batch is written only after the batch before it was synced, so a crash can leave one unfinished batch, at the very
end. Bytes that are no batch, and that no whole batch follows, were therefore never acknowledged, and are cut off. If a
whole batch follows, the bytes may have held something that was acknowledged: JournalDamaged is raised, and all files
stay as they are. (Apache's bookie starts without a word.) With `skip_damage` the operator gives the damaged part up:
replay applies the whole batches and changes no file, and the journal goes on in a new file.

In a file that was written over, bytes of its former use stand behind the last batch. Old batches among these bytes do
not count as batches of this file, since they have another journal id, older sequence numbers and another salt. So the
rule above holds here, too: replay searches all of the rest of the file, and the journal ends where no batch of this
file is found any more.
"""

import logging
import os
import re
from collections.abc import Callable, Iterator
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
from magnetar.storage.bookie.mapped_file import FileBytes, mapped_file

log = logging.getLogger(__name__)

FIRST_POSITION = JournalPosition(1, FILE_HEADER_SIZE, 1)
_NAME = re.compile(r"([0-9a-f]{16})\.journal")

ApplyBatch = Callable[[list[ControlRecord], list[bytes], bool], None]
"""Replay calls this function for each batch, with the batch's control records, the batch's entries, and whether a part
of the journal before the batch was given up."""


def journal_path(directory: str, journal_id: int) -> str:
    return os.path.join(directory, f"{journal_id:016x}.journal")


def list_journals(directory: str) -> list[int]:
    """Returns the ids of the journal files in a folder, ascending. The list is empty when the folder does not exist
    yet."""
    names = map(_NAME.fullmatch, os.listdir(directory) if os.path.isdir(directory) else ())
    return sorted(int(name.group(1), 16) for name in names if name)


class JournalReplay:
    """One pass over the journal of a folder. After `run`, `end` is the position where the journal goes on.

    `run` only reads, and changes nothing on disk. After that the caller checks all other files. `finish` comes last: it
    cuts off the unfinished batch that a crash left. An `end.offset` of 0 means that the file does not exist yet. If
    damage was passed over, `skipped` is True and `end` is in a new file. The caller must move the mark to `end` before
    an add is taken, or the next start would find the damage again.
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
        """The ids of the files after the journal's end. These files hold no batch."""
        self.batches = 0
        self.end = JournalPosition(1, 0, 1)

    def run(self) -> None:
        """Reads the journal and applies its batches. Raises JournalDamaged, JournalMissing, MarkDamaged."""
        self._replay(self._chain())
        if self.skipped:
            self.end = self._behind_all()

    def _replay(self, chain: list[int]) -> None:
        for index, journal_id in enumerate(chain):
            with mapped_file(journal_path(self._directory, journal_id)) as data:
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
        """Returns the beginning of a new file. The file's id, and the sequence numbers of its batches, are higher than
        any that the mark or a batch in the damaged part can have, so that no batch of the damaged part is ever mistaken
        for a part of the journal."""
        ids = list_journals(self._directory)
        mark = self._mark or FIRST_POSITION
        batches_max = sum(os.path.getsize(journal_path(self._directory, i)) for i in ids) // BATCH_HEADER_SIZE
        sequence = max(self.end.sequence, mark.sequence) + batches_max + 1
        return JournalPosition(max([*ids, mark.journal_id]) + 1, 0, sequence)

    def _chain(self) -> list[int]:
        """Returns the ids of the files to read, in order, and sets `end` to the position where reading begins. From the
        mark on, the ids must follow one another without a gap."""
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

    def _replay_file(self, data: FileBytes, journal_id: int) -> tuple[bool, bool]:
        """Applies the batches of one file. Returns whether the file says that the journal goes on in the next file, and
        whether bytes that are no batch stand at its end."""
        if journal_id != self.end.journal_id or self.end.offset == 0:
            self.end = JournalPosition(journal_id, FILE_HEADER_SIZE, self.end.sequence)
        self._check_file_header(data, journal_id)
        salt = salt_of(data[:FILE_HEADER_SIZE])
        if salt is None:
            return False, False  # Both copies of the header are damaged, so nothing in the file can be believed.
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

    def _check_mark_reached(self, data: FileBytes, salt: Salt) -> None:
        """Reports damage when no batch begins at the mark and no batch ends there.

        A mark with no batch behind it is the end of the journal, so a batch must end there. The file's length cannot
        show this: a file that is used again may be longer than its batches.
        """
        mark = self._mark
        if mark is None or self.end != mark or mark.offset <= FILE_HEADER_SIZE:
            return
        if not _has_batch_before(data, mark, salt):
            self._damage(mark.journal_id, mark.offset, "no batch ends at the mark, and none follows")

    def _check_file_header(self, data: FileBytes, journal_id: int) -> None:
        """Reports damage when the file's header is not whole, belongs to another journal, or names another first batch
        than the one that follows the previous file."""
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

    def _replay_batches(self, data: FileBytes, salt: Salt) -> BatchHeader | None:
        """Applies batches from `end` on until no batch follows. Returns the header of the CONTINUED batch, or None if
        the file has no such batch."""
        journal_id, offset, sequence = self.end
        while (found := read_batch(data, offset, salt)) is not None:
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
        """Reports a missing file when a file says that the journal goes on in the next file, and there is no next
        file."""
        if index + 1 == len(chain):
            following = chain[index] + 1
            self._missing(following, f"journal {chain[index]} says that it goes on there")
            self.end = JournalPosition(following, 0, self.end.sequence)

    def _find_batches(self, later: list[int]) -> int | None:
        """Returns the id of the first of the later files that holds a batch, or None when none of them holds a batch. A
        file that was only just created when the process ended holds no batch."""
        for journal_id in later:
            with mapped_file(journal_path(self._directory, journal_id)) as data:
                salt = salt_of(data[:FILE_HEADER_SIZE])
                start = JournalPosition(journal_id, FILE_HEADER_SIZE, 0)
                if salt is not None and _find_batch(data, start, salt) is not None:
                    return journal_id
        return None

    def finish(self) -> None:
        """Removes everything after `end`: deletes unused files, and cuts off a torn tail. These are the first changes
        of a start on disk, so call this method only after all other files were found in order. Raises OSError."""
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
    """Raises the error, or only logs it when the operator has given up the damaged part (`skipDamagedJournal`)."""
    if not skip_damage:
        raise error
    log.error("skipping as told: %s", error.finding)


def read_batch(data: FileBytes, offset: int, salt: Salt) -> tuple[BatchHeader, bytes] | None:
    """Returns header and body of the batch at an offset, or None when no whole batch stands there."""
    header = parse_batch_header(data[offset : offset + BATCH_HEADER_SIZE], salt)
    if header is None:
        return None
    start = offset + BATCH_HEADER_SIZE
    body = data[start : start + header.length]
    return (header, body) if verify_batch(header, body, salt) else None


def _find_batch(data: FileBytes, after: JournalPosition, salt: Salt) -> tuple[int, int] | None:
    """Returns (offset, sequence number) of the first whole batch at or after the position `after` whose number is not
    lower than the position's, or None."""
    for offset in _places(data, after.journal_id, after.offset, len(data)):
        found = read_batch(data, offset, salt)
        if found is not None and found[0].sequence >= after.sequence:
            return offset, found[0].sequence
    return None


def _has_batch_before(data: FileBytes, position: JournalPosition, salt: Salt) -> bool:
    """Returns whether a batch ends at a position. Only the header of that batch is verified, not its body."""
    start = position.offset
    while (start := data.rfind(BATCH_MAGIC, FILE_HEADER_SIZE, start)) >= 0:
        header = parse_batch_header(data[start : start + BATCH_HEADER_SIZE], salt)
        if header is not None and header.journal_id == position.journal_id:
            end = start + BATCH_HEADER_SIZE + header.length
            return end == position.offset and header.sequence + 1 == position.sequence
    return False


def _places(data: FileBytes, journal_id: int, start: int, end: int) -> Iterator[int]:
    """Yields the offsets where headers of this journal's batches seem to stand. The pattern holds the journal's id,
    since a former use of the file may have left thousands of headers of other journals."""
    pattern = batch_pattern(journal_id)
    while (match := pattern.search(data, start, end)) is not None:
        offset = match.start()
        del match  # The match would keep the file mapped.
        yield offset
        start = offset + 1
