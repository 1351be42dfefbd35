"""One connection of a client: frames, the handshake, limits, and the four-letter words.

A connection has no session until its first frame, the connect request, was answered; bytes that arrive before that wait
in the buffer. A request whose length or header makes no sense ends the connection.
"""

import asyncio
import logging
import struct
import time
from typing import TYPE_CHECKING, NamedTuple, cast

from magnetar.metadata.zookeeper_codes import ErrorCode
from magnetar.metadata.zookeeper_server import acl_rules, answers
from magnetar.metadata.zookeeper_server.acl_rules import Identity
from magnetar.metadata.zookeeper_server.jute_reader import JuteReader
from magnetar.metadata.zookeeper_server.processor import TURN_SECONDS, monotonic_ms
from magnetar.metadata.zookeeper_server.protocol import (
    PASSWORD_BYTES,
    MalformedRequestError,
    OpCode,
)
from magnetar.metadata.zookeeper_server.session_rules import Session

if TYPE_CHECKING:
    from magnetar.metadata.zookeeper_server.read_requests import Slow
    from magnetar.metadata.zookeeper_server.zookeeper_server import ZooKeeperServer

log = logging.getLogger(__name__)

REQUESTS_AT_ONCE = 256
"""How many requests of one connection are taken in one turn of the loop. Fewer are taken when they take longer than
TURN_SECONDS: a multi may take some hundred times as long as another request."""
REQUESTS_WAITING_MAX = 1_024
"""How many requests of one connection may be under way. No more requests are read until some are answered."""
OUTPUT_PAUSE_BYTES = 1 << 20
"""How many bytes of answers may wait for a client before no more of its requests are taken."""
OUTPUT_BYTES_MAX = 64 << 20
"""How many bytes may wait for a client that does not read them. When there are more, the connection is closed."""
HANDSHAKE_SECONDS = 10.0
"""How long a connection may stay without a session (zookeeper.nio.sessionlessCnxnTimeout)."""
IDENTITIES_MAX = 1_000
"""How many identities a connection may add. A further identity is refused like a wrong password."""

_INT = struct.Struct(">i")
_HEAD = struct.Struct(">ii")


class ConnectRequest(NamedTuple):
    """A client's first frame."""

    last_zxid: int
    timeout_ms: int
    session_id: int
    password: bytes
    knows_read_only: bool
    """Whether the client sent the flag for read-only servers, and therefore expects this flag in the answer."""


def parse_connect(frame: bytes) -> ConnectRequest:
    """Parses a connect request. Raises MalformedRequestError for bytes that are no connect request."""
    reader = JuteReader(frame)
    reader.number()
    last_zxid, timeout_ms, session_id = reader.long_number(), reader.number(), reader.long_number()
    password = reader.buffer() or b""
    return ConnectRequest(last_zxid, timeout_ms, session_id, password, reader.has_more)


class Connection(asyncio.Protocol):
    """One client's connection, from its first byte to its last. The class implements `batches.Client`."""

    def __init__(self, server: "ZooKeeperServer") -> None:
        self._server = server
        self._processor = server.processor
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._offset = 0
        self._out: list[bytes] = []
        self._flush_scheduled = False
        self._held: list[bytes] | None = None
        self._is_reading = True
        self._is_drained = True
        self._continue_scheduled = False
        self._is_ending = False
        self._handshake_timer: asyncio.TimerHandle | None = None
        self._has_connected = False
        self._connect: ConnectRequest | None = None
        self._session: Session | None = None
        self.address = ""
        self.peer = ""
        self.session_id = 0
        self.timeout_ms = 0
        self.identities: list[Identity] = []
        self.waiting = 0
        self.is_closed = False
        self.established_at = time.time()
        self.received = self.sent = 0
        self.last_xid = -1

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=OUTPUT_PAUSE_BYTES)
        peer = transport.get_extra_info("peername") or ("", 0)
        self.address = str(peer[0]).partition("%")[0]
        self.peer = f"{self.address}:{peer[1]}" if len(peer) > 1 else self.address
        self.identities.append((b"ip", self.address.encode()))
        if not self._server.admit(self):
            self.is_closed = True
            transport.abort()
            return
        loop = asyncio.get_running_loop()
        self._handshake_timer = loop.call_later(HANDSHAKE_SECONDS, self._handshake_overdue)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._continue_scheduled:
            self._take_frames()

    def pause_writing(self) -> None:
        self._is_drained = False
        self._adjust_reading()

    def resume_writing(self) -> None:
        self._is_drained = True
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
        self._buffer.clear()
        self._out.clear()
        self._held = None
        self._server.gone(self)

    # batches.Client

    def send(self, frame: bytes) -> None:
        if self.is_closed:
            return
        self.sent += 1
        self._processor.sent += 1
        if self._held is not None:
            self._held.append(frame)
            return
        self._out.append(frame)
        if not self._flush_scheduled:
            self._flush_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def hold_for(self, xid: int, zxid: int, fields: "Slow") -> None:
        earlier, self._held = self._held, []
        if earlier is not None:
            # Another long answer is under way. This answer is made in one go, so that only one long answer is under way
            # at a time.
            self._held = earlier
            self.send(answers.answer(xid, zxid, ErrorCode.OK, _finished(fields)))
            return
        asyncio.get_running_loop().call_soon(self._make_portion, xid, zxid, fields)

    def attached(self, session: Session) -> None:
        connect = self._connect
        if self.is_closed or connect is None:
            return
        if self._handshake_timer is not None:
            self._handshake_timer.cancel()
        self._session = session
        self.session_id = session.session_id
        with_read_only = connect.knows_read_only
        self.send(answers.connected(self.timeout_ms, self.session_id, session.password, with_read_only=with_read_only))
        self._go_on()

    def refused(self) -> None:
        connect = self._connect
        assert connect is not None
        log.info("%s: session 0x%x is over or its password is wrong", self.peer, connect.session_id)
        self.send(answers.connected(0, 0, bytes(PASSWORD_BYTES), with_read_only=connect.knows_read_only))
        self.end()

    def answered(self) -> None:
        if not self._is_reading and self.waiting <= REQUESTS_WAITING_MAX // 2:
            self._go_on()

    def end(self) -> None:
        self._is_ending = True
        if self._held is not None or self.is_closed:
            return
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def take_no_more(self) -> None:
        """Takes no more requests of this client. Requests that are under way are still answered."""
        self._is_ending = True

    # Frames

    def abort(self, reason: str) -> None:
        """Closes the connection at once, because of what the client did."""
        log.info("%s: connection closed: %s", self.peer, reason)
        self._is_ending = True
        if self._transport is not None:
            self._transport.abort()

    def _take_frames(self) -> None:
        """Takes the requests in the buffer, up to the number that one turn of the loop may take."""
        buffer, taken = self._buffer, 0
        until = time.monotonic() + TURN_SECONDS
        frame_bytes_max = self._server.settings.frame_bytes_max
        while not self._is_ending and len(buffer) - self._offset >= _INT.size:
            if self._must_wait():
                break
            if taken and (taken == REQUESTS_AT_ONCE or time.monotonic() > until):
                self._continue_scheduled = True
                asyncio.get_running_loop().call_soon(self._continue)
                break
            (length,) = _INT.unpack_from(buffer, self._offset)
            if not self._has_connected and self._server.is_command(buffer):
                self._is_ending = True
                self._server.run_command(bytes(buffer[:4]), self)
                return
            if not 0 <= length <= frame_bytes_max:
                self.abort(f"a frame of {length} bytes")
                return
            start = self._offset + _INT.size
            if len(buffer) - start < length:
                break
            self._offset = start + length
            self._frame(bytes(buffer[start : self._offset]))
            taken += 1
        if self._offset:
            del buffer[: self._offset]
            self._offset = 0
        self._adjust_reading()

    def _must_wait(self) -> bool:
        if self._has_connected and self._session is None:
            return True
        if self.waiting >= REQUESTS_WAITING_MAX or not self._is_drained:
            return True
        if self._processor.is_full:
            self._processor.when_not_full(self._go_on)
            return True
        return False

    def _frame(self, frame: bytes) -> None:
        if not self._has_connected:
            self._has_connected = True
            self._take_connect(frame)
            return
        if len(frame) < _HEAD.size:
            self.abort("a request without a head")
            return
        xid, opcode = _HEAD.unpack_from(frame)
        self.received += 1
        self.last_xid = xid
        self._processor.sessions.touch(self.session_id, self.timeout_ms, monotonic_ms())
        if opcode == OpCode.AUTH:
            self._authenticate(xid, frame)
        elif opcode == OpCode.SASL:
            # Java's server without SASL answers without a token, too. This ends the client's negotiation.
            self.send(answers.answer(xid, 0, ErrorCode.OK, answers.NULL))
        elif not self._processor.take(self, xid, opcode, frame, _HEAD.size):
            self._is_ending = True

    def _take_connect(self, frame: bytes) -> None:
        try:
            connect = parse_connect(frame)
        except MalformedRequestError as error:
            self.abort(f"its connect request is malformed: {error}")
            return
        if connect.last_zxid > self._processor.zxid:
            self.abort(f"it has seen transaction 0x{connect.last_zxid:x}, beyond 0x{self._processor.zxid:x}")
            return
        self._connect = connect
        self.timeout_ms = self._server.timeouts.granted(connect.timeout_ms)
        if connect.session_id == 0:
            self.session_id = self._processor.create_session(self, self.timeout_ms)
        else:
            self._processor.attach(self, connect.session_id, connect.password, self.timeout_ms)

    def _authenticate(self, xid: int, frame: bytes) -> None:
        """Adds an identity (ZooKeeperServer.processPacket). A credential that is not accepted ends the connection."""
        reader = JuteReader(frame, _HEAD.size)
        try:
            reader.number()
            scheme, credential = reader.text(), reader.buffer() or b""
        except MalformedRequestError as error:
            self.abort(f"its credential is malformed: {error}")
            return
        new: list[Identity] = []
        if scheme == b"digest":
            new = acl_rules.digest_identities(credential, self._server.settings.super_digest)
        elif scheme == b"ip":
            new = [(b"ip", self.address.encode())]
        if not new or len(self.identities) + len(new) > IDENTITIES_MAX:
            self.send(answers.answer(xid, 0, ErrorCode.AUTH_FAILED))
            self.end()
            return
        self.identities += [identity for identity in new if identity not in self.identities]
        self.send(answers.answer(xid, 0, ErrorCode.OK))

    def _handshake_overdue(self) -> None:
        self.abort(f"it made no session in {HANDSHAKE_SECONDS:.0f} s")

    # The flow of bytes

    def _continue(self) -> None:
        self._continue_scheduled = False
        if not self.is_closed:
            self._take_frames()

    def _go_on(self) -> None:
        if not self.is_closed and not self._continue_scheduled:
            self._continue_scheduled = True
            asyncio.get_running_loop().call_soon(self._continue)

    def _adjust_reading(self) -> None:
        """Pauses reading from the socket while more was read than may be taken, and resumes it otherwise."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        wanted = not self._continue_scheduled and not self._is_ending and not self._must_wait()
        if wanted != self._is_reading:
            self._is_reading = wanted
            if wanted:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def _flush(self) -> None:
        self._flush_scheduled = False
        transport = self._transport
        if not self._out or transport is None or self.is_closed:
            return
        out, self._out = self._out, []
        transport.write(b"".join(out) if len(out) > 1 else out[0])
        if transport.get_write_buffer_size() > OUTPUT_BYTES_MAX:
            self.abort(f"it does not read: {OUTPUT_BYTES_MAX} bytes wait for it")

    def _make_portion(self, xid: int, zxid: int, fields: "Slow") -> None:
        if self.is_closed:
            return
        try:
            next(fields)
        except StopIteration as end:
            held, self._held = self._held or [], None
            self._out.append(answers.answer(xid, zxid, ErrorCode.OK, end.value))
            self._out += held
            self._flush()
            if self._is_ending and not self.waiting:
                self.end()
        else:
            asyncio.get_running_loop().call_soon(self._make_portion, xid, zxid, fields)


def _finished(fields: "Slow") -> bytes:
    while True:
        try:
            next(fields)
        except StopIteration as end:
            return bytes(end.value)
