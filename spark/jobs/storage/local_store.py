"""The files in a folder of this machine, or of a mounted file system."""

import contextlib
import os
import shutil
import uuid
from pathlib import Path
from typing import IO


class LocalStore:
    """See `Store` for what the methods do."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, name: str) -> bytes | None:
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def open(self, name: str) -> IO[bytes]:
        return (self._folder / name).open("rb")

    def write(self, name: str, data: bytes) -> None:
        self._built(name, data).replace(self._folder / name)

    def create(self, name: str, data: bytes) -> bool:
        building = self._built(name, data)
        try:
            os.link(building, self._folder / name)
        except FileExistsError:
            return self.read(name) == data
        finally:
            building.unlink()
        return True

    def _built(self, name: str, data: bytes) -> Path:
        """Writes the data to a hidden file beside the one that it is to become."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        building = path.with_name(f".{uuid.uuid4()}.building")
        building.write_bytes(data)
        return building

    def names(self, folder: str = "") -> list[str]:
        found = (self._folder / folder).rglob("*")
        files = [path for path in found if path.is_file() and not path.name.startswith(".")]
        return sorted(path.relative_to(self._folder).as_posix() for path in files)

    def copy(self, source: str, target: str) -> bool:
        (self._folder / target).parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(self._folder / source, self._folder / target)
        except FileNotFoundError:
            return False
        return True

    def delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            (self._folder / name).unlink()
