"""What the stores of tests have in common: a service on this machine, and the files and tables in it as other readers
than the jobs see them."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import deltalake
import pyarrow as pa
import pyarrow.dataset as pds
from pyarrow import fs
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StaticTable

BUCKET = "lake"


class StoreServer(ABC):
    """A store that runs as long as a `with` block, and forgets everything at its end."""

    secret = ""
    """What must be in no log, table or checkpoint."""
    variables: tuple[str, ...] = ()
    """How the names of the store's variables in the environment begin."""
    files: fs.FileSystem
    """The store as pyarrow sees it."""
    root = BUCKET
    """The folder of `files` that the URLs lie in."""

    @abstractmethod
    def start(self) -> None:
        """Starts the service, with a bucket or folder for the tests, and sets `files`."""

    @abstractmethod
    def end(self) -> None:
        """Ends the service."""

    @abstractmethod
    def url(self, name: str) -> str:
        """Returns the URL of a file."""

    @property
    @abstractmethod
    def options(self) -> dict[str, str]:
        """The storage options by which a process finds the service without its environment."""

    @property
    @abstractmethod
    def login(self) -> dict[str, str]:
        """The variables by which a process finds the service without options."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of a process that finds the service by its variables."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(self.variables)}
        return {**kept, **self.login}

    @property
    def arguments(self) -> list[str]:
        """The options as arguments of a job."""
        return [part for name, value in self.options.items() for part in ("--storage-option", f"{name}={value}")]

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def names(self, prefix: str = "") -> list[str]:
        """Returns the names of all files in a folder and in the folders below it."""
        below = fs.FileSelector(self.path(prefix).rstrip("/"), allow_not_found=True, recursive=True)
        found = [each.path for each in self.files.get_file_info(below) if each.type == fs.FileType.File]
        return [path.lstrip("/").removeprefix(self.path("").lstrip("/")) for path in found]

    def read(self, name: str) -> bytes:
        with self.files.open_input_stream(self.path(name)) as file:
            return bytes(file.read())

    def delete(self, folder: str) -> None:
        for name in self.names(folder):
            self.files.delete_file(self.path(name))

    def table(self, kind: str, place: str, name: str) -> pa.Table:
        """Returns the rows of the table at a place in the store, as the tools read them that people use for such
        tables. `name` is the name of an Iceberg table."""
        if kind == "delta":
            return deltalake.DeltaTable(self.url(place), storage_options=self.delta_options).to_pyarrow_table()
        if kind == "iceberg":
            return self._iceberg(f"{place}/{name.replace('.', '/')}/metadata").scan().to_arrow()
        found = pds.dataset(self.path(place), filesystem=self.files, format="parquet", partitioning="hive")
        columns = pa.unify_schemas([found.schema, *(each.physical_schema for each in found.get_fragments())])
        return found.replace_schema(columns).to_table()

    @property
    def delta_options(self) -> dict[str, str]:
        return {**self.options, "allow_http": "true"}

    def _iceberg(self, folder: str) -> StaticTable:
        """Returns the newest version of a table."""
        number = int(self.read(f"{folder}/version-hint.text"))
        location = self.url(f"{folder}/v{number}.metadata.json")
        files = _TableFiles(self)
        metadata = FromInputFile.table_metadata(files.new_input(location))
        return StaticTable(("tests", "table"), metadata, location, files, NoopCatalog("tests"))

    def stored_text(self) -> str:
        """Returns all that is stored, as text, and all names."""
        return json.dumps([(name, self.read(name).decode("latin-1")) for name in self.names()])


class _TableFiles(PyArrowFileIO):
    """A table's files as pyiceberg reads them through pyarrow."""

    def __init__(self, store: StoreServer) -> None:
        super().__init__()
        self._store = store

    def new_input(self, location: str) -> Any:
        path = self._store.path(location.removeprefix(self._store.url("")))
        return PyArrowFile(location=location, path=path, fs=self._store.files, buffer_size=1024 * 1024)
