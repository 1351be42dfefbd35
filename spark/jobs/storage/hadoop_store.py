"""The files below a URL of HDFS, through pyarrow and libhdfs, which find Hadoop by HADOOP_HOME and CLASSPATH."""

import uuid
from typing import IO, cast

from pyarrow import fs

from magnetar.spark.jobs.storage.storage_rules import StorageFault


class HadoopStore:
    """See `Store` for what the methods do. HDFS renames in one step, and refuses to rename to a file that is there."""

    def __init__(self, url: str) -> None:
        try:
            self._files, self._root = fs.FileSystem.from_uri(url)
        except OSError as error:
            raise StorageFault(f"{url}: {error}") from error

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def read(self, name: str) -> bytes | None:
        try:
            with self._files.open_input_stream(self._path(name)) as found:
                return bytes(found.read())
        except FileNotFoundError:
            return None

    def open(self, name: str) -> IO[bytes]:
        return cast("IO[bytes]", self._files.open_input_file(self._path(name)))

    def write(self, name: str, data: bytes) -> None:
        while not self._moved(name, data):
            self.delete(name)

    def create(self, name: str, data: bytes) -> bool:
        return self._moved(name, data) or self.read(name) == data

    def _moved(self, name: str, data: bytes) -> bool:
        """Writes the data beside a file's name and renames it. Returns False when there is a file of that name."""
        path = self._path(name)
        folder = path.rpartition("/")[0]
        building = f"{folder}/.{uuid.uuid4()}.building"
        self._files.create_dir(folder, recursive=True)
        with self._files.open_output_stream(building) as out:
            out.write(data)
        try:
            self._files.move(building, path)
        except OSError:
            self._files.delete_file(building)
            if self._files.get_file_info(path).type == fs.FileType.NotFound:
                raise
            return False
        return True

    def names(self, folder: str = "") -> list[str]:
        below = fs.FileSelector(self._path(folder).rstrip("/"), allow_not_found=True, recursive=True)
        found = self._files.get_file_info(below)
        return sorted(each.path[len(self._path("")) :] for each in found if each.type == fs.FileType.File)

    def copy(self, source: str, target: str) -> bool:
        data = self.read(source)
        if data is not None:
            self.write(target, data)
        return data is not None

    def delete(self, name: str) -> None:
        try:
            self._files.delete_file(self._path(name))
        except FileNotFoundError:
            return
