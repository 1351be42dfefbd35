"""Keeps the checkpoint of a streaming query at a URL, for which Spark itself would need jars of that store.

Spark works with a folder of the driver. Before a batch is written anywhere, `keep` stores the record of what the batch
will read; after the batch is written, `keep_done` stores the record that it is done. The record of a batch is created,
and never replaced: of two runs that plan the same batch, the second one fails before it has written a row.
"""

import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar.spark.jobs.storage.place import Place
from magnetar.spark.jobs.storage.storage_rules import LOCK_FILE, OBJECT_SCHEMES, FolderInUse, scheme_of

if TYPE_CHECKING:
    from magnetar.spark.jobs.storage.lease import Lease

OFFSETS, COMMITS = "offsets/", "commits/"
DONE = b'v1\n{"nextBatchWatermarkMs":0}'
"""Spark's record of a batch that is done (CommitLog, CommitMetadata). The jobs' queries have no watermark of
Spark's."""
READERS = 16


class CheckpointCopy:
    """A checkpoint at a URL and its copy in a folder of this machine, which Spark works with."""

    def __init__(self, place: Place, tell: Callable[[str], object]) -> None:
        """Copies what is stored to a new folder, and locks the URL until `close`. HDFS has no lock. Raises FolderInUse
        when another run works there, and StorageFault."""
        self.place = place
        self._store = place.open()
        self._lease = _lease(place, tell)
        self.folder = Path(tempfile.mkdtemp(prefix="magnetar-checkpoint-"))
        names = [name for name in self._store.names() if _is_kept(name)]
        with ThreadPoolExecutor(READERS) as readers:
            list(readers.map(self._fetch, names))
        self._stored = set(names)
        self._local = set(names)

    def _fetch(self, name: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._store.read(name) or b"")

    def keep(self) -> None:
        """Stores what Spark has written, the plan of the next batch last, and removes what Spark has removed. Raises
        FolderInUse when another run has planned the batch."""
        here = {path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*") if path.is_file()}
        here = {name for name in here if _is_kept(name)}
        for name in sorted(here - self._stored, key=lambda each: (each.startswith(OFFSETS), each)):
            self._create(name, (self.folder / name).read_bytes())
        self._stored |= here
        for name in self._local - here:
            self._store.delete(name)
            self._stored.discard(name)
        self._local = here

    def keep_done(self, number: int) -> None:
        """Stores that a batch is done. Spark writes the same into its folder a moment later, but tells the data source
        of it before the job is called again; the data source then acknowledges the batch's messages, so that a repeated
        batch might find them gone."""
        self._create(f"{COMMITS}{number}", DONE)
        self._stored.add(f"{COMMITS}{number}")

    def _create(self, name: str, data: bytes) -> None:
        if self._lease is not None:
            self._lease.check()
        if not self._store.create(name, data):
            raise FolderInUse(f"another run works in {self.place.url}, and has written {name} meanwhile")

    def close(self) -> None:
        """Releases the lock and removes the folder."""
        if self._lease is not None:
            self._lease.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _is_kept(name: str) -> bool:
    return not any(part.startswith(".") for part in name.split("/")) and name != LOCK_FILE


def _lease(place: Place, tell: Callable[[str], object]) -> "Lease | None":
    if scheme_of(place.url) not in OBJECT_SCHEMES:
        return None
    from magnetar.spark.jobs.storage.lease import Lease

    return Lease(place, tell)
