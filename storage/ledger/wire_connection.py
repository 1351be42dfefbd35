"""One TCP connection to a bookie, in one of the two protocols. Requests are pipelined, and all answers in one read are
handled together.

A connection that has ended is never reused: its unanswered adds fail with -8, its other unanswered requests with
ConnectionError, and `wire_link` makes a new connection. All adds of a loop turn leave with one write, and answers to
adds are handled as runs of consecutive entries. When a bookie sends bytes that do not decode, the connection is cut.

Deadlines: an add fails with -23, a read with TimeoutError. If not a byte has come since the request that timed out was
sent, the connection counts as dead and is cut.
"""

import asyncio
import logging
from collections.abc import Sequence
from struct import Struct
from typing import Any, cast

from magnetar.storage.ledger.bookie_channel import AddDone
from magnetar.storage.ledger.ledger_errors import BookieHandleNotAvailable, BookieOverloaded, BookieTimeout
from magnetar.storage.ledger.wire_config import WireConfig
from magnetar.storage.ledger.wire_pending import AddTable, Conflict, PendingAdds, ReadTable, ReadWait
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.wire import bookie_wire as v2
from pulsar_proto.wire import bookie_wire_v3 as v3
from pulsar_proto.wire.bookie_wire import BookieError, BookieRc, OpCode, ReadFlags
from pulsar_proto.wire.packets import PacketReader, packets
from pulsar_proto.wire.read_buffer import LENGTH_BYTES

log = logging.getLogger(__name__)

SWEEPS_PER_TIMEOUT = 4
"""How often expired requests are looked for within a deadline: a request is given up late by at most a quarter of the
deadline."""
ANSWER_PADDING_BYTES = 4_096
"""By how much an answer may exceed the longest request, because of its own header."""


_V2_ANSWER = Struct(">IIiqq")
_V2_ADD = v2.CURRENT_VERSION << 24 | OpCode.ADD_ENTRY << 16
_V2_ADD_ANSWER_SIZE = 24
_V2_HEAD = Struct(">II").pack


class BookieConnection(asyncio.BufferedProtocol):
    """One connection to a bookie. `is_open` is True from the moment when the connection is made until its end. `name`
    is for the log."""

    def __init__(self, name: str, config: WireConfig, *, speaks_v2: bool) -> None:
        self.name = name
        self.speaks_v2 = speaks_v2
        self.is_open = False
        self.heard = False
        """Whether a byte has ever come."""
        self.batch_answered = False
        """Whether the bookie has answered a batch read."""
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._reader = PacketReader(config.packet_bytes_max + ANSWER_PADDING_BYTES)
        self._adds = AddTable()
        self._reads = ReadTable()
        self._calls: dict[int, asyncio.Future[Any]] = {}
        """Batch reads by request id, and v3's requests other than adds by txnId."""
        self._next_id = 1
        self._parts: list[bytes] = []
        self._quick_calls = 0
        """How many of `_calls` should be answered at once, because they are no long polls."""
        self.last_heard = self._loop.time()
        """When the last byte came, or when the connection was made."""
        self._sweeper: asyncio.TimerHandle | None = None
        self._end_reason = "the connection ended"
        self._transport: asyncio.Transport

    # --- asyncio's calls ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is no asyncio.Transport
        self.last_heard = self._loop.time()
        self.is_open = True

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self.last_heard = self._loop.time()
        self.heard = True
        try:
            data = self._reader.received(nbytes)
            self._reader.keep(data, self._take_v2(data) if self.speaks_v2 else self._take_v3(data))
        except MalformedFrame as error:
            log.warning("bookie %s: %s; the connection is cut", self.name, error)
            self.abort(f"not BookKeeper's protocol: {error}")
        except Exception:
            log.exception("bookie %s: an answer could not be handled; the connection is cut", self.name)
            self.abort("an error of ours")

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(str(exc) if exc else self._end_reason)

    def eof_received(self) -> None:
        self._end_reason = "the bookie closed the connection"

    @property
    def awaits_answer(self) -> bool:
        """Whether a request is unanswered that a healthy bookie answers soon."""
        return self._quick_calls > 0 or self._adds.oldest() is not None or self._reads.awaited

    # --- requests ----------------------------------------------------------------------------------------------------

    def add(
        self,
        ledger_id: int,
        master_key: bytes,
        entry_ids: Sequence[int],
        entries: Sequence[bytes],
        flags: int,
        done: AddDone,
    ) -> None:
        """Implements `BookieChannel.add_entries`."""
        assert len(entry_ids) == len(entries), (entry_ids, len(entries))
        size = sum(map(len, entries))
        if not entries or (self._adds.bytes and self._adds.bytes + size > self._config.unanswered_bytes_max):
            self._loop.call_soon(done, entry_ids, BookieOverloaded.code if entries else int(BookieRc.EOK))
            return
        deadline = self._loop.time() + self._config.add_entry_timeout_sec
        if self.speaks_v2:
            self._adds.put(ledger_id, PendingAdds(entry_ids, done, size, deadline))
            self._write_v2_adds(master_key, entries, flags)
        else:
            group = PendingAdds(entry_ids, done, size, deadline, self._take_ids(len(entries)))
            self._adds.put_txns(group)
            self._write(v3.add_requests(group.txn_id, ledger_id, entry_ids, master_key, entries, flags))
        if self._sweeper is None:
            self._arm_sweeper()

    def _write_v2_adds(self, master_key: bytes, entries: Sequence[bytes], flags: int) -> None:
        word = _V2_ADD | flags
        parts = self._parts
        if not parts:
            self._loop.call_soon(self._flush)
        size_before, head = -1, b""
        for entry in entries:
            size = len(entry)
            if size != size_before:
                size_before, head = size, _V2_HEAD(4 + len(master_key) + size, word) + master_key
            parts.append(head)
            parts.append(entry)

    async def read(self, ledger_id: int, entry_id: int, flags: int, master_key: bytes) -> bytes:
        """Reads one entry. Raises BookieError, ConnectionError, TimeoutError.

        In v2 this read first waits for the end of any read of the same entry whose answer could be mistaken for the
        answer to this read (`ReadTable.conflict`).
        """
        if not self.speaks_v2:
            txn_id = self._take_ids(1)
            response = await self._ask_v3(txn_id, v3.read_request(txn_id, ledger_id, entry_id, flags, master_key))
            return bytes(response.readResponse.body)
        fencing = bool(flags & ReadFlags.FENCING)
        while (conflict := self._reads.conflict(ledger_id, entry_id, fencing)) is not Conflict.NONE:
            if conflict is Conflict.RECONNECT:
                self.abort("an answer that nobody awaits could be taken for that of a fence")
                raise ConnectionResetError(f"bookie {self.name}: {self._end_reason}")
            other = self._reads.other_kind(ledger_id, entry_id, fencing)
            await asyncio.wait([cast("asyncio.Future[bytes]", other.outcome)])
        if not self.is_open:
            raise ConnectionResetError(f"bookie {self.name}: {self._end_reason}")
        outcome: asyncio.Future[bytes] = self._loop.create_future()
        deadline = self._loop.time() + self._config.read_entry_timeout_sec
        self._reads.put(ledger_id, entry_id, ReadWait(outcome, fencing, deadline))
        self._write([v2.read_request(ledger_id, entry_id, flags, master_key)])
        if self._sweeper is None:
            self._arm_sweeper()
        try:
            return await outcome
        finally:
            del outcome  # see `_ask`

    async def batch_read(self, ledger_id: int, first_entry_id: int, max_entries: int, max_bytes: int) -> list[bytes]:
        """Reads several entries with one request of v2. A bookie older than 4.17 ends the connection instead. Raises
        the errors of `read`."""
        assert self.speaks_v2, "v3 has no batch read"
        request_id = self._take_ids(1)
        size = min(max_bytes, self._config.packet_bytes_max)
        request = v2.batch_read_request(ledger_id, first_entry_id, request_id, max_entries, size)
        entries: list[bytes] = await self._ask(request_id, request)
        return entries

    async def call(self, request: pb.Request) -> pb.Response:
        """Sends a request of v3 and sets its txnId. Raises BookieError for any status but EOK, ConnectionError,
        TimeoutError."""
        assert not self.speaks_v2, "only v3 has such requests"
        request.header.txnId = txn_id = self._take_ids(1)
        return await self._ask_v3(txn_id, v3.frame(request))

    async def exchange(self, request: pb.Request, *, more_seconds: float = 0.0) -> pb.Response:
        """Sends a request of v3 and returns the answer, whatever its status is. Raises ConnectionError, TimeoutError.
        `more_seconds` is added to the deadline, for long polls."""
        assert not self.speaks_v2, "only v3 has such requests"
        request.header.txnId = txn_id = self._take_ids(1)
        response: pb.Response = await self._ask(txn_id, v3.frame(request), more_seconds)
        return response

    async def _ask_v3(self, txn_id: int, frame: bytes) -> pb.Response:
        response: pb.Response = await self._ask(txn_id, frame)
        status = v3.status_in(response)
        if status != pb.EOK:
            raise BookieError(v3.rc_of(status), f"answer of bookie {self.name}")
        return response

    async def _ask(self, request_id: int, request: bytes, more_seconds: float = 0.0) -> Any:
        """Sends a request and returns its answer."""
        asked = self._loop.time()
        outcome = self._calls[request_id] = self._loop.create_future()
        self._write([request])
        is_quick = not more_seconds
        self._quick_calls += is_quick
        try:
            async with asyncio.timeout(self._config.read_entry_timeout_sec + more_seconds):
                return await outcome
        except TimeoutError:
            self._judge_silence(asked)
            raise
        finally:
            self._quick_calls -= is_quick
            self._calls.pop(request_id, None)
            del outcome  # the future keeps its error, whose traceback keeps this frame and so the connection

    # --- answers -----------------------------------------------------------------------------------------------------

    def _take_v2(self, data: bytes) -> int:
        """Handles the answers in `data`, those to adds as runs of consecutive entries. Returns where the first
        unfinished packet begins."""
        answer = _V2_ANSWER.unpack_from
        start, last = 0, len(data) - _V2_ANSWER.size
        ledger = first = following = rc = -1
        while start <= last:
            size, word, code, ledger_id, entry_id = answer(data, start)
            if word != _V2_ADD or size != _V2_ADD_ANSWER_SIZE:
                stop = start + 4 + size
                if stop > len(data):
                    break
                self._take_v2_packet(data[start + 4 : stop])
                start = stop
                continue
            if entry_id != following or ledger_id != ledger or code != rc:
                if following > first:
                    self._adds.answered(ledger, first, following - first, rc)
                ledger, first, rc = ledger_id, entry_id, code
            following = entry_id + 1
            start += 4 + _V2_ADD_ANSWER_SIZE
        if following > first:
            self._adds.answered(ledger, first, following - first, rc)
        for packet in packets(data[start:]):
            # The remaining bytes are too short for an answer to an add, but may hold another kind of packet.
            self._take_v2_packet(packet.body)
            start += 4 + len(packet.body)
        return start

    def _take_v2_packet(self, packet: bytes) -> None:
        if packet[1:2] == b"\x03":
            return  # This is an answer to AUTH, which this side never sends.
        answer = v2.decode_response(packet)
        outcome: asyncio.Future[Any] | None = None
        result: bytes | list[bytes]
        if answer.opcode is OpCode.ADD_ENTRY:
            self._adds.answered(answer.ledger_id, answer.entry_id, 1, answer.rc)
            return
        if answer.opcode is OpCode.BATCH_READ_ENTRY:
            self.batch_answered = True
            outcome, result = self._calls.get(answer.request_id), list(answer.entries)
        else:
            wait = self._reads.answered(answer.ledger_id, answer.entry_id)
            outcome = cast("asyncio.Future[Any]", wait.outcome) if wait is not None else None
            result = answer.entries[0] if answer.entries else b""
        if outcome is None or outcome.done():
            return
        if answer.rc == BookieRc.EOK:
            outcome.set_result(result)
        else:
            known = answer.rc in BookieRc.__members__.values()
            outcome.set_exception(
                BookieError(BookieRc(answer.rc) if known else BookieRc.EIO, f"answer of bookie {self.name}")
            )

    def _take_v3(self, data: bytes) -> int:
        """Handles the answers in `data`, those to adds as runs of consecutive transactions. Returns where the first
        unfinished packet begins."""
        start, end = 0, len(data)
        first = following = status = 0
        while start + LENGTH_BYTES <= end:
            body = start + LENGTH_BYTES
            stop = body + int.from_bytes(data[start:body], "big")
            if stop > end:
                break
            start = stop
            known = v3.stored_txn(data, body, stop)
            if known is not None:
                txn_id, code = known, 0
            else:
                response = v3.parse_response(data[body:stop])
                txn_id, code = response.header.txnId, v3.status_in(response)
                outcome = self._calls.get(txn_id)
                if outcome is not None:
                    if not outcome.done():
                        outcome.set_result(response)
                    continue
            if txn_id != following or code != status:
                if following > first:
                    self._adds.answered_txns(first, following - first, v3.rc_of(status))
                first, status = txn_id, code
            following = txn_id + 1
        if following > first:
            self._adds.answered_txns(first, following - first, v3.rc_of(status))
        return start

    # --- output, deadlines, end --------------------------------------------------------------------------------------

    def _take_ids(self, count: int) -> int:
        first = self._next_id
        self._next_id += count
        return first

    def _write(self, parts: list[bytes]) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts += parts

    def _flush(self) -> None:
        if self.is_open:
            self._transport.write(b"".join(self._parts))
        self._parts.clear()

    def _arm_sweeper(self) -> None:
        period = min(self._config.add_entry_timeout_sec, self._config.read_entry_timeout_sec) / SWEEPS_PER_TIMEOUT
        self._sweeper = self._loop.call_later(period, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        now = self._loop.time()
        config = self._config
        oldest = self._adds.oldest()
        if oldest is not None and oldest.deadline <= now:
            asked = oldest.deadline - config.add_entry_timeout_sec
            self._adds.expire(now, BookieTimeout.code)
            self._judge_silence(asked)
        reads = self._reads.all()
        for wait in reads:
            if wait.deadline <= now and not wait.outcome.done():
                wait.outcome.set_exception(TimeoutError(f"bookie {self.name} did not answer a read"))
                self._judge_silence(wait.deadline - config.read_entry_timeout_sec)
        if self.is_open and self._sweeper is None and (reads or self._adds.oldest() is not None):
            self._arm_sweeper()

    def _judge_silence(self, asked: float) -> None:
        """Cuts the connection if not a byte has come since `asked`, the time of a request that was not answered in
        time."""
        if self.is_open and self.last_heard <= asked:
            log.warning(
                "bookie %s: not a byte since %.1f s; the connection is cut", self.name, self._loop.time() - asked
            )
            self.abort("the bookie is silent")

    def abort(self, reason: str) -> None:
        """Ends the connection at once; unsent bytes are dropped."""
        if self.is_open:
            self._transport.abort()
            self._end(reason)

    def _end(self, reason: str) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._end_reason = reason
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._parts.clear()
        waiting: list[asyncio.Future[Any]] = list(self._calls.values())
        waiting += [cast("asyncio.Future[Any]", wait.outcome) for wait in self._reads.all()]
        self._reads = ReadTable()
        self._reader.forget()
        for outcome in waiting:
            if not outcome.done():
                outcome.set_exception(ConnectionResetError(f"bookie {self.name}: {reason}"))
        self._adds.give_up_all(BookieHandleNotAvailable.code)
