"""The files of an Iceberg table as pyiceberg opens them: through the same store as all other files of a job, with the
same options and logins."""

import io
from types import TracebackType

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from magnetar.spark.jobs.job_outcome import JobFailed
from magnetar.spark.jobs.storage.place import Place, Store


class WarehouseFiles(FileIO):
    """The files of a warehouse at a URL. Raises JobFailed for a file that is elsewhere."""

    def __init__(self, warehouse: Place) -> None:
        super().__init__()
        self._root = warehouse.below("").url
        self._store = warehouse.open()

    def _name(self, location: str) -> str:
        if not location.startswith(self._root):
            raise JobFailed(f"{location} is a file of the table, but not in {self._root}")
        return location.removeprefix(self._root)

    def new_input(self, location: str) -> InputFile:
        return _File(location, self._store, self._name(location))

    def new_output(self, location: str) -> OutputFile:
        return _NewFile(location, self._store, self._name(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._store.delete(self._name(location if isinstance(location, str) else location.location))


class _File(InputFile):
    def __init__(self, location: str, store: Store, name: str) -> None:
        super().__init__(location)
        self._store = store
        self._name = name

    def __len__(self) -> int:
        with self._store.open(self._name) as file:
            return file.seek(0, io.SEEK_END)

    def exists(self) -> bool:
        return self._store.read(self._name) is not None

    def open(self, seekable: bool = True) -> InputStream:
        return self._store.open(self._name)


class _NewFile(OutputFile):
    """A file that pyiceberg writes. Their names are new ones (UUIDs), so nobody asks whether there is one already."""

    def __init__(self, location: str, store: Store, name: str) -> None:
        super().__init__(location)
        self._store = store
        self._name = name

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> InputFile:
        return _File(self.location, self._store, self._name)

    def create(self, overwrite: bool = False) -> OutputStream:
        return _Writing(self._store, self._name)


class _Writing(io.BytesIO):
    """The content of a file until it is closed, and then stored in one piece, unless its writer failed."""

    def __init__(self, store: Store, name: str) -> None:
        super().__init__()
        self._store = store
        self._name = name
        self._is_whole = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_whole = error is None
        self.close()

    def close(self) -> None:
        if not self.closed and self._is_whole:
            self._store.write(self._name, self.getvalue())
        super().close()
