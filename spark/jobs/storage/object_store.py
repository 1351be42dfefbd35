"""The files below a URL of an object store: S3 and what speaks its protocol, Google Cloud Storage, Azure.

The library is obstore, because jobs need two kinds of write that fsspec and pyarrow.fs do not offer for all stores:
create a file unless there is one, and replace a file unless somebody else did. On S3 these are PutObject with
`If-None-Match` and `If-Match`, on the others the corresponding conditions.
"""

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, cast

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

from magnetar.spark.jobs.storage.raw_file import RawFile
from magnetar.spark.jobs.storage.storage_rules import ALLOW_HTTP, StorageFault, sentence_of

Version = Mapping[str, Any]
"""Names one content of a file, as the store does: by its entity tag, or by a version."""
READ_BYTES = 1024 * 1024


class ObjectStore:
    """See `Store` for what the methods do. All of them raise StorageFault when the store answers with an error, or does
    not answer."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        self._url = url
        config = dict(options)
        http = config.pop(ALLOW_HTTP, "").lower() == "true"
        with self._faults():
            self._store: Any = obstore.store.from_url(
                url, config=cast("Any", config), client_options={"allow_http": http}
            )

    @contextmanager
    def _faults(self, *expected: type[Exception]) -> Iterator[None]:
        """Turns the library's errors into StorageFault, but for those that the caller expects."""
        try:
            yield
        except expected:
            raise
        except (BaseError, FileNotFoundError, ValueError) as error:
            raise StorageFault(f"{self._url}: {sentence_of(str(error))}") from error

    def read(self, name: str) -> bytes | None:
        found = self.read_version(name)
        return None if found is None else found[0]

    def read_version(self, name: str) -> tuple[bytes, Version] | None:
        """Returns a file's content and the version of that content, or None when there is no such file."""
        try:
            with self._faults(FileNotFoundError):
                found = obstore.get(self._store, name)
                meta = found.meta
                return bytes(found.bytes()), _version(meta)
        except FileNotFoundError:
            return None

    def open(self, name: str) -> IO[bytes]:
        with self._faults(FileNotFoundError):
            return io.BufferedReader(RawFile(obstore.open_reader(self._store, name)), READ_BYTES)

    def write(self, name: str, data: bytes) -> None:
        with self._faults():
            obstore.put(self._store, name, data)

    def create(self, name: str, data: bytes) -> bool:
        try:
            with self._faults(AlreadyExistsError):
                obstore.put(self._store, name, data, mode="create")
        except AlreadyExistsError:
            return self.read(name) == data  # it is ours when the answer to a first attempt was lost
        return True

    def replace(self, name: str, data: bytes, version: Version) -> Version | None:
        """Writes a file if its content still has this version. Returns the new version, or None when somebody else has
        written or removed the file."""
        try:
            with self._faults(FileNotFoundError, PreconditionError):
                return _version(obstore.put(self._store, name, data, mode=cast("Any", version)))
        except (FileNotFoundError, PreconditionError):
            return None

    def names(self, folder: str = "") -> list[str]:
        with self._faults():
            listed = obstore.list(self._store, prefix=folder or None)
            # an empty object is a folder of other tools, which the library names like a file
            return sorted(each["path"] for chunk in listed for each in chunk if each["size"])

    def copy(self, source: str, target: str) -> bool:
        try:
            with self._faults(FileNotFoundError):
                obstore.copy(self._store, source, target)
        except FileNotFoundError:
            return False
        return True

    def delete(self, name: str) -> None:
        try:
            with self._faults(FileNotFoundError):
                obstore.delete(self._store, name)
        except FileNotFoundError:
            return


def _version(found: Mapping[str, Any]) -> Version:
    """Returns the version that the answer of a store names. Some stores know only one of the two names."""
    return {name: found[name] for name in ("e_tag", "version") if found[name] is not None}
