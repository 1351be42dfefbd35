"""A bookie's disk that forgets what was not synced when its machine loses power, or keeps some sectors of it."""

import asyncio
import errno
from collections.abc import Sequence
from random import Random

from storage.bookie.durable_file import DurableFile
from storage.bookie.journal import Group, Journal
from storage.bookie.journal_format import encode_batch
from tests.sim.virtual_loop import DISK_SECONDS_MAX

SECTOR_BYTES = 512


class SimDisk:
    """One life of a disk, between two power losses."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.is_dead = False
        self._files: list[SimFile] = []
        self._journals: list[SimJournal] = []

    def open_file(self, path: str, *, create: bool = False) -> DurableFile:
        file = SimFile(path, self, create=create)
        self._files.append(file)
        return file

    def lose_power(self) -> None:
        """Of what was not synced, none, all or any sectors are there afterwards."""
        for journal in self._journals:
            journal.leave_half_written()
        self.is_dead = True
        kept = self.rng.choice([0.0, 0.5, 1.0])
        for file in self._files:
            file.tear(kept)

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
    """Writes reach the file below with `sync` only."""

    __slots__ = ("_disk", "_is_closed", "_unsynced")

    def __init__(self, path: str, disk: SimDisk, *, create: bool = False) -> None:
        disk.check_alive()
        super().__init__(path, create=create)
        self._disk = disk
        self._is_closed = False
        self._unsynced: list[tuple[int, bytes]] = []

    def write(self, buffers: Sequence[bytes], offset: int) -> int:
        self._disk.check_alive()
        data = b"".join(buffers)
        self._unsynced.append((offset, data))
        return offset + len(data)

    def sync(self) -> None:
        self._disk.check_alive()
        self._apply()

    def truncate(self, size: int) -> None:
        self._disk.check_alive()
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
    """The journal's thread as turns of the loop: what came meanwhile is one batch, as there."""

    disk: SimDisk
    _turn_is_due = False

    def submit(self, group: Group) -> None:
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
            self._commit(self._take())

    def close(self) -> None:
        self._turn()
        self._file.close()

    def leave_half_written(self) -> None:
        """The power goes while a batch is being written."""
        if self._queue.empty():
            return
        groups = self._take()
        entries = [entry for group in groups for entry in group[0]]
        controls = [control for group in groups for control in group[3]]
        journal_id, offset, sequence = self._position
        lengths = list(map(len, entries))
        self._file.write(encode_batch(journal_id, sequence, self._salt, controls, entries, lengths), offset)
