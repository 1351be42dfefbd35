"""A file of a store as a raw file of Python's."""

import io
from typing import Any


class RawFile(io.RawIOBase):
    """Reads through the reader of a store's library, which has `read`, `seek` and `tell`."""

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._reader.seek(offset, whence)
        return self.tell()

    def tell(self) -> int:
        return int(self._reader.tell())

    def readinto(self, buffer: Any) -> int:
        data = bytes(self._reader.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)
