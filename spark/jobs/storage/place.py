"""A place where a job keeps files: a folder or a URL, with the options by which it is reached."""

import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Protocol

from magnetar.spark.jobs.storage.local_store import LocalStore
from magnetar.spark.jobs.storage.storage_rules import (
    StorageFault,
    completed_options,
    is_local,
    local_folder,
    scheme_of,
)


class Store(Protocol):
    """The files below a place. Names are relative, with slashes between folders."""

    def read(self, name: str) -> bytes | None:
        """Returns a file's content, or None when there is no such file."""

    def open(self, name: str) -> IO[bytes]:
        """Opens a file for reading at any position. Raises FileNotFoundError."""

    def write(self, name: str, data: bytes) -> None:
        """Writes a file. A reader sees the old content or the new one, and never a part."""

    def create(self, name: str, data: bytes) -> bool:
        """Writes a file unless there is one of that name with another content. Of several processes that create a file
        at the same time, one succeeds. Returns whether the file has this content now."""

    def names(self, folder: str = "") -> list[str]:
        """Returns the sorted names of all files in a folder and in the folders below it."""

    def copy(self, source: str, target: str) -> bool:
        """Copies a file, and replaces the target. Returns False when there is no source."""

    def delete(self, name: str) -> None:
        """Removes a file. Has no effect when there is none."""


@dataclass(frozen=True)
class Place:
    """A folder, given by a path or URL. Executors get places from the driver, with the options but without the driver's
    environment."""

    url: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The storage options. They may hold passwords, so nothing prints them."""

    @property
    def is_local(self) -> bool:
        return is_local(self.url)

    def open(self) -> Store:
        """Opens the place. Raises StorageFault for an unknown scheme or a wrong option, and when this machine lacks the
        package for the store, which an executor does that nobody installed the package for."""
        scheme = scheme_of(self.url)
        if scheme == "file":
            return LocalStore(local_folder(self.url))
        try:
            if scheme == "hdfs":
                from magnetar.spark.jobs.storage.hadoop_store import HadoopStore

                return HadoopStore(self.url, self.options)
            from magnetar.spark.jobs.storage.object_store import ObjectStore

            return ObjectStore(self.url, self.options)
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0].replace("_", "-")
            raise StorageFault(
                f"{self.url}: the machine {platform.node()} lacks {package}, which a bundle does not have: "
                f"pip install {package} for {sys.executable} there"
            ) from error

    def below(self, name: str) -> "Place":
        """Returns the place of a folder in this one."""
        return Place(f"{self.url.rstrip('/')}/{name}", self.options)

    def beside(self, suffix: str) -> "Place":
        """Returns the place whose last name is this one's with a suffix."""
        return Place(f"{self.url.rstrip('/')}{suffix}", self.options)


def place_of(url: str, options: Mapping[str, str]) -> Place:
    """Returns the place of a path or URL, with what this process's environment says about the store. A path is seen
    from this process's folder, because executors work in other folders. Raises StorageFault for an unknown scheme."""
    if url and "://" not in url and not url.startswith("file:"):
        url = str(local_folder(url))
    return Place(url, completed_options(url, options, os.environ))
