"""A bookie's disk that loses what was not synced, or keeps only some of its sectors, when the machine loses power."""

import asyncio
import errno
from collections.abc import Sequence
from contextlib import suppress
from random import Random

from magnetar.storage.bookie.durable_file import DurableFile
from magnetar.storage.bookie.journal import Journal, JournalGroup
from tests.sim.virtual_loop import DISK_SECONDS_MAX

SECTOR_BYTES = 512
PAGE_BYTES = 64
"""The page to which the journal pads its batches. It is so small that even short journals still hold bytes of their
former use."""
CHANGES_OF_FILES = 0.3
"""The share of the power losses that come while the journal changes to another file."""
STEPS_OF_A_CHANGE = 6
"""A change of files takes these steps: the header is written, synced and renamed; "continued" is written and synced;
the batch is written."""


class SimDisk:
    """One life of a disk, between two power losses."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.is_dead = False
        self._steps_left: int | None = None
        self._files: list[SimFile] = []
        self._journals: list[SimJournal] = []

    def open_file(self, path: str, *, create: bool = False) -> DurableFile:
        file = SimFile(path, self, create=create)
        self._files.append(file)
        return file

    def lose_power(self) -> None:
        """Ends this life of the disk: of the sectors that were not synced, none, all or some are there afterwards."""
        for journal in self._journals:
            journal.leave_unfinished()
        self.is_dead = True
        kept = self.rng.choice([0.0, 0.5, 1.0])
        for file in self._files:
            file.tear(kept)

    def die_after(self, steps: int) -> None:
        self._steps_left = steps

    def step(self) -> None:
        """Counts one change of a file, before the change is made. The disk dies when its number of steps is used up."""
        if self._steps_left is not None:
            self.is_dead |= self._steps_left == 0
            self._steps_left -= 1
        self.check_alive()

    def check_alive(self) -> None:
        if self.is_dead:
            raise OSError(errno.EIO, "the machine lost its power")

    def journal_class(self) -> type[Journal]:
        disk = self

        class JournalHere(SimJournal):
            def _begin(self) -> None:
                self.disk = disk
                disk._journals.append(self)

        return JournalHere


class SimFile(DurableFile):
    """A file whose writes reach the real file below only with `sync`."""

    __slots__ = ("_disk", "_is_closed", "_unsynced")

    def __init__(self, path: str, disk: SimDisk, *, create: bool = False) -> None:
        disk.check_alive()
        super().__init__(path, create=create)
        self._disk = disk
        self._is_closed = False
        self._unsynced: list[tuple[int, bytes]] = []

    def write(self, buffers: Sequence[bytes], offset: int) -> int:
        self._disk.step()
        data = b"".join(buffers)
        self._unsynced.append((offset, data))
        return offset + len(data)

    def sync(self) -> None:
        self._disk.step()
        self._apply()

    def rename(self, path: str) -> None:
        """Renames at once and durably. A rename that the folder's missing sync would lose is the same as a power loss
        one step earlier."""
        self._disk.step()
        super().rename(path)

    def truncate(self, size: int) -> None:
        self._disk.step()
        self._unsynced = [(offset, data[: size - offset]) for offset, data in self._unsynced if offset < size]
        super().truncate(size)

    def read(self, size: int, offset: int) -> bytes:
        data = bytearray(super().read(size, offset))
        for start, written in self._unsynced:
            first, last = max(start, offset), min(start + len(written), offset + size)
            if first < last:
                data.extend(bytes(max(0, last - offset - len(data))))
                data[first - offset : last - offset] = written[first - start : last - start]
        return bytes(data)

    def size(self) -> int:
        return max([super().size(), *(offset + len(data) for offset, data in self._unsynced)])

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            super().close()

    def tear(self, kept: float) -> None:
        if self._is_closed:
            return
        for offset, data in self._unsynced:
            start = offset
            while start < offset + len(data):
                stop = min((start // SECTOR_BYTES + 1) * SECTOR_BYTES, offset + len(data))
                if self._disk.rng.random() < kept:
                    super().write([data[start - offset : stop - offset]], start)
                start = stop
        self._unsynced = []
        self.close()

    def _apply(self) -> None:
        for offset, data in self._unsynced:
            super().write([data], offset)
        self._unsynced = []


class SimJournal(Journal):
    """The journal without its thread: each batch is a turn of the loop, and holds what was submitted since the turn
    before, as it does on the thread."""

    disk: SimDisk
    _turn_is_due = False

    def submit(self, group: JournalGroup) -> None:
        super().submit(group)
        if not self._turn_is_due:
            self._turn_is_due = True
            self._loop.call_later(self.disk.rng.uniform(0, DISK_SECONDS_MAX), self._turn)

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def _turn(self) -> None:
        self._turn_is_due = False
        if not self.disk.is_dead and not self._queue.empty():
            self._commit(*self._take())

    def close(self) -> None:
        self._turn()
        self._close_file()

    def leave_unfinished(self) -> None:
        """Takes the power away in the middle of a batch, or while the journal changes to another file for it."""
        groups = [] if self._queue.empty() else self._take()[0]
        with suppress(OSError):
            if self.disk.rng.random() < CHANGES_OF_FILES:
                self.disk.die_after(self.disk.rng.randrange(STEPS_OF_A_CHANGE + 1))
                self._continue_in_next_file()
            else:
                self.disk.die_after(1)
            if groups:
                self._write(groups)
