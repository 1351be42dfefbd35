"""The files below a URL of HDFS, through hdfs-native, which speaks Hadoop's protocol without Java. It finds Hadoop's
configuration by HADOOP_CONF_DIR or HADOOP_HOME, and says that it is HADOOP_USER_NAME, or logs in by Kerberos.
"""

import io
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO
from urllib.parse import urlsplit

from hdfs_native import Client

from magnetar.spark.jobs.storage.raw_file import RawFile
from magnetar.spark.jobs.storage.storage_rules import StorageFault, sentence_of

READ_BYTES = 1024 * 1024
PATIENCE = {"dfs.client.failover.max.attempts": "4"}
"""A namenode that does not answer is asked again for some 15 s. Hadoop's default is 15 times, which takes minutes in
which the job would say nothing. A storage option of that name overrides this one."""


class HadoopStore:
    """See `Store` for what the methods do. HDFS renames in one step, and refuses to rename to a file that is there
    unless it is told to replace that file. All methods raise StorageFault when HDFS answers with an error, or does not
    answer."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        self._url = url
        parts = urlsplit(url)
        self._root = parts.path.rstrip("/")
        with self._faults():
            self._client = Client(f"hdfs://{parts.netloc}" if parts.netloc else None, {**PATIENCE, **options})

    @contextmanager
    def _faults(self, *expected: type[Exception]) -> Iterator[None]:
        """Turns the library's errors into StorageFault, but for those that the caller expects."""
        try:
            yield
        except expected:
            raise
        except (OSError, RuntimeError, ValueError) as error:
            raise StorageFault(f"{self._url}: {sentence_of(str(error))}") from error

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def read(self, name: str) -> bytes | None:
        try:
            with self.open(name) as file, self._faults():
                return file.read()
        except FileNotFoundError:
            return None

    def open(self, name: str) -> IO[bytes]:
        with self._faults(FileNotFoundError):
            return io.BufferedReader(RawFile(self._client.read(self._path(name))), READ_BYTES)

    def write(self, name: str, data: bytes) -> None:
        self._built(name, data, replaces=True)

    def create(self, name: str, data: bytes) -> bool:
        try:
            self._built(name, data, replaces=False)
        except FileExistsError:
            return self.read(name) == data
        return True

    def _built(self, name: str, data: bytes, *, replaces: bool) -> None:
        """Writes the data beside a file's name and renames it. Raises FileExistsError when there is a file of that
        name, unless it `replaces` that file."""
        path = self._path(name)
        building = f"{path.rpartition('/')[0]}/.{uuid.uuid4()}.building"
        with self._faults(FileExistsError):
            with self._client.create(building) as out:
                out.write(data)
            try:
                self._client.rename(building, path, overwrite=replaces)
            except FileExistsError:
                self._client.delete(building)
                raise

    def names(self, folder: str = "") -> list[str]:
        try:
            with self._faults(FileNotFoundError):
                found = self._client.list_status(self._path(folder).rstrip("/") or "/", recursive=True)
                paths = [each.path for each in found if not each.isdir]
        except FileNotFoundError:
            return []
        hidden = [path for path in paths if path.rpartition("/")[2].startswith(".")]
        return sorted(path.removeprefix(self._path("")) for path in set(paths) - set(hidden))

    def copy(self, source: str, target: str) -> bool:
        data = self.read(source)
        if data is not None:
            self.write(target, data)
        return data is not None

    def delete(self, name: str) -> None:
        with self._faults():
            self._client.delete(self._path(name))
