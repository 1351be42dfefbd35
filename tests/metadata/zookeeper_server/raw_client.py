"""A client that sends what it is told, byte for byte, and returns every frame as it came. It knows nothing of ours."""

import asyncio
import struct
from typing import NamedTuple

ANSWER_SECONDS = 20.0
CREATE, DELETE, EXISTS, GET_DATA, SET_DATA, GET_ACL, SET_ACL, GET_CHILDREN, SYNC, PING = 1, 2, 3, 4, 5, 6, 7, 8, 9, 11
GET_CHILDREN2, CHECK, MULTI, CREATE2, RECONFIG, CHECK_WATCHES, REMOVE_WATCHES, CREATE_CONTAINER = range(12, 20)
DELETE_CONTAINER, CREATE_TTL, MULTI_READ = 20, 21, 22
AUTH, SET_WATCHES, SASL, GET_EPHEMERALS, GET_ALL_CHILDREN_NUMBER, SET_WATCHES2, ADD_WATCH, WHO_AM_I = range(100, 108)
CLOSE = -11

Acl = tuple[tuple[int, str, str], ...]
OPEN: Acl = ((31, "world", "anyone"),)


def text(value: str | None) -> bytes:
    return buffer(None if value is None else value.encode())


def buffer(value: bytes | None) -> bytes:
    return struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value


def texts(values: list[str]) -> bytes:
    return struct.pack(">i", len(values)) + b"".join(map(text, values))


def acl(entries: Acl) -> bytes:
    parts = [struct.pack(">i", perms) + text(scheme) + text(name) for perms, scheme, name in entries]
    return struct.pack(">i", len(parts)) + b"".join(parts)


def number(value: int) -> bytes:
    return struct.pack(">i", value)


def create(path: str, data: bytes | None = b"", flags: int = 0, entries: Acl = OPEN) -> bytes:
    return text(path) + buffer(data) + acl(entries) + number(flags)


def watched(path: str, watch: bool = False) -> bytes:
    return text(path) + bytes([watch])


def multi(*ops: tuple[int, bytes]) -> bytes:
    parts = [struct.pack(">ibi", kind, 0, -1) + fields for kind, fields in ops]
    return b"".join(parts) + struct.pack(">ibi", -1, 1, -1)


class Frame(NamedTuple):
    """An answer, or an event, whose xid is -1."""

    xid: int
    zxid: int
    error: int
    fields: bytes


class RawClient:
    """One connection with its session."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.session_id = 0
        self.password = bytes(16)
        self.timeout_ms = 0
        self._xid = 0

    @classmethod
    async def open(cls, port: int) -> "RawClient":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    @classmethod
    async def connect(cls, port: int, *, timeout_ms: int = 20_000, former: "RawClient | None" = None) -> "RawClient":
        """Opens a connection and begins a session, or goes on with that of a former client. A session id of 0
        afterwards says that the session is over."""
        client = await cls.open(port)
        session_id, password = (former.session_id, former.password) if former is not None else (0, bytes(16))
        await client.shake_hands(timeout_ms, session_id, password)
        return client

    async def shake_hands(
        self, timeout_ms: int, session_id: int = 0, password: bytes = bytes(16), last_zxid: int = 0
    ) -> bytes:
        head = struct.pack(">iqiq", 0, last_zxid, timeout_ms, session_id)
        self.write_frame(head + buffer(password) + b"\0")
        reply = await self.read_frame()
        _, self.timeout_ms, self.session_id, _ = struct.unpack_from(">iiqi", reply)
        self.password = reply[20:36]
        return reply

    def write_frame(self, payload: bytes) -> None:
        self._writer.write(struct.pack(">i", len(payload)) + payload)

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def ask(self, opcode: int, fields: bytes = b"", xid: int | None = None) -> int:
        """Sends a request and does not wait; returns its xid."""
        if xid is None:
            self._xid += 1
            xid = self._xid
        self.write_frame(struct.pack(">ii", xid, opcode) + fields)
        return xid

    async def call(self, opcode: int, fields: bytes = b"") -> Frame:
        """Sends a request; returns its answer. Events that come before it are dropped."""
        return (await self.until(self.ask(opcode, fields)))[-1]

    async def until(self, xid: int) -> list[Frame]:
        """Returns all frames up to the answer with this xid."""
        frames = []
        while True:
            frames.append(await self.frame())
            if frames[-1].xid == xid:
                return frames

    async def frame(self) -> Frame:
        payload = await self.read_frame()
        xid, zxid, error = struct.unpack_from(">iqi", payload)
        return Frame(xid, zxid, error, payload[16:])

    async def read_frame(self) -> bytes:
        """Returns one frame. Raises IncompleteReadError when the server closes the connection."""
        async with asyncio.timeout(ANSWER_SECONDS):
            (length,) = struct.unpack(">i", await self._reader.readexactly(4))
            return await self._reader.readexactly(length)

    async def rest(self) -> bytes:
        """Returns what comes until the server closes the connection."""
        async with asyncio.timeout(ANSWER_SECONDS):
            return await self._reader.read()

    async def close(self) -> None:
        self._writer.close()


async def command(port: int, word: bytes) -> str:
    """Returns the answer to a four-letter word."""
    client = await RawClient.open(port)
    client.write(word)
    answer = (await client.rest()).decode()
    await client.close()
    return answer
