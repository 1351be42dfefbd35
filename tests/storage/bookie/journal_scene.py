"""A journal without a bookie, groups to put into it, and what a replay of it finds."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from magnetar.storage.bookie.journal import Committed, Journal, JournalGroup
from magnetar.storage.bookie.journal_format import JournalPosition
from magnetar.storage.bookie.journal_replay import JournalReplay
from magnetar.storage.bookie.old_journals import OldJournals
from tests.storage.bookie.faults import Faults
from tests.storage.bookie.helpers import entries_of

FRESH = JournalPosition(1, 0, 1)


def group(first: int, count: int, size: int = 20, tag: object = None) -> JournalGroup:
    entries = entries_of(1, range(first, first + count), size)
    lengths = list(map(len, entries))
    return entries, lengths, sum(lengths), (), tag


class Opened:
    def __init__(
        self,
        folder: Path,
        faults: Faults,
        start: JournalPosition,
        max_file: int,
        max_batch: int,
        old: OldJournals | None = None,
    ) -> None:
        self.results: SimpleQueue[Committed] = SimpleQueue()
        self.journal = Journal(
            str(folder),
            start,
            self.results.put,
            max_file_bytes=max_file,
            max_batch_bytes=max_batch,
            open_file=faults.open,
            old=old,
        )

    def next(self) -> Committed:
        return self.results.get(timeout=60)

    def commit(self, *groups: JournalGroup) -> Committed:
        for one in groups:
            self.journal.submit(one)
        return self.next()


@contextmanager
def journal_in(
    folder: Path,
    faults: Faults | None = None,
    *,
    start: JournalPosition = FRESH,
    max_file: int = 1 << 20,
    max_batch: int = 1 << 20,
) -> Iterator[Opened]:
    opened = Opened(folder, faults or Faults(), start, max_file, max_batch)
    try:
        yield opened
    finally:
        opened.journal.close()


def replayed(folder: Path) -> tuple[list[bytes], JournalPosition]:
    entries: list[bytes] = []
    replay = JournalReplay(str(folder), None, lambda controls, found, _: entries.extend(found))
    replay.run()
    replay.finish()
    return entries, replay.end
