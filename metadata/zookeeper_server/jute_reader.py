"""Reads the fields of requests in Jute, ZooKeeper's encoding: numbers are big-endian, and a text, a buffer and a vector
begin with a length, where -1 stands for null."""

import struct

from magnetar.metadata.zookeeper_server.protocol import MalformedRequestError

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")


class JuteReader:
    """Reads one request from its beginning to its end. Every method raises MalformedRequestError when the bytes do not
    hold such a field."""

    __slots__ = ("_data", "_end", "_offset")

    def __init__(self, data: bytes, offset: int = 0) -> None:
        self._data = data
        self._offset = offset
        self._end = len(data)

    @property
    def has_more(self) -> bool:
        return self._offset < self._end

    def number(self) -> int:
        try:
            (number,) = _INT.unpack_from(self._data, self._offset)
        except struct.error:
            raise MalformedRequestError("a number is cut off") from None
        self._offset += 4
        return int(number)

    def long_number(self) -> int:
        try:
            (number,) = _LONG.unpack_from(self._data, self._offset)
        except struct.error:
            raise MalformedRequestError("a number is cut off") from None
        self._offset += 8
        return int(number)

    def flag(self) -> bool:
        if self._offset >= self._end:
            raise MalformedRequestError("a flag is missing")
        self._offset += 1
        return self._data[self._offset - 1] != 0

    def buffer(self) -> bytes | None:
        """Returns the bytes, or None for null."""
        length = self.number()
        if length == -1:
            return None
        start = self._offset
        if length < 0 or length > self._end - start:
            raise MalformedRequestError(f"a field of {length} bytes")
        self._offset = start + length
        return self._data[start : self._offset]

    def text(self) -> bytes:
        """Returns the encoded bytes of a text that must not be null."""
        value = self.buffer()
        if value is None:
            raise MalformedRequestError("a text is null")
        return value

    def count(self, element_bytes_min: int) -> int:
        """Returns the length of a vector, or 0 for null. A vector with more elements than the request has bytes for is
        malformed, and is refused before any element is read."""
        length = self.number()
        if length == -1:
            return 0
        if length < 0 or length * element_bytes_min > self._end - self._offset:
            raise MalformedRequestError(f"a vector of {length} elements")
        return length

    def texts(self) -> "list[bytes]":
        return [self.text() for _ in range(self.count(_INT.size))]

    def acl(self) -> "tuple[tuple[int, bytes, bytes], ...]":
        """Returns the entries (permissions, scheme, id) of an access control list, or no entries for null. The scheme
        `auth` needs no id, and some clients send null as its id."""
        return tuple(self._acl_entry() for _ in range(self.count(3 * _INT.size)))

    def _acl_entry(self) -> "tuple[int, bytes, bytes]":
        perms, scheme = self.number(), self.text()
        name = self.buffer()
        if name is None and scheme != b"auth":
            raise MalformedRequestError("an id is null")
        return perms, scheme, name or b""
