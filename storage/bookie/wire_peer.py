"""One peer's connection to the bookie's port: it takes bytes, passes units of work to the bookie, and sends answers.
The protocol's rules are in `wire_session`.

A socket read is taken as a whole: its adds go to the bookie as one group for each ledger, and all answers of a turn of
the loop leave with one write. No task, future or closure is made for a single add.

Three things have bounds (`wire_limits`): adds without an answer, of this connection and of all connections together;
requests that wait for their turn; and answers that the peer does not take. When a bound is reached, the socket is not
read until half of the bound is free again, or, for the answers, until the transport calls `resume_writing`. A packet
that is too long, or that does not decode, ends the connection.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, cast

from magnetar.storage.bookie import wire_limits as limit
from magnetar.storage.bookie.eager_start import run_eagerly
from magnetar.storage.bookie.wire_calls import WireBookie, WireCalls
from magnetar.storage.bookie.wire_limits import Budget, Lane, Paused, WireLimits
from magnetar.storage.bookie.wire_session import (
    FenceRead,
    ReadRun,
    WireAdds,
    WireSession,
    WireWork,
    add_answers,
    fence_answer,
    read_answers,
    read_refusal,
)
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.wire import bookie_wire as v2
from pulsar_proto.wire.bookie_wire import LAST_ENTRY, BookieError, BookieRc
from pulsar_proto.wire.packets import PacketReader
from pulsar_proto.wire.read_buffer import READ_BYTES

log = logging.getLogger(__name__)

_BATCH_HEAD_BYTES = 36
"""The bytes that the head of an answer counts against the limit of a batch read. Each entry counts 4 bytes more than
its length. Both numbers are those of BookKeeper's BatchedReadEntryProcessor."""


class WirePeer(asyncio.BufferedProtocol):
    """One connection. The transport and the bookie call its methods on the loop's thread."""

    def __init__(
        self,
        bookie: WireBookie,
        calls: WireCalls,
        budget: Budget,
        limits: WireLimits,
        scratch: bytearray,
        on_end: Callable[["WirePeer"], None],
    ) -> None:
        self._bookie = bookie
        self._calls = calls
        self._budget = budget
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        assert len(scratch) >= READ_BYTES, "a read must hold many packets"
        self._reader = PacketReader(limits.packet_bytes_max, scratch)
        self._session = WireSession()
        self._reads = Lane(limit.READS_AT_ONCE)
        self._others = Lane(limit.CALLS_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._long_polls = 0
        self._inflight = 0
        self._paused = Paused.NO
        self._answers: list[bytes] = []
        self._answer_bytes = 0
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._transport: asyncio.Transport
        self.peer = ""

    # --- asyncio's calls ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is no subclass of asyncio.Transport.
        self._transport.set_write_buffer_limits(high=limit.OUTPUT_HIGH_WATER_BYTES)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "unknown peer"

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        if self._paused & Paused.CLOSED:
            return
        try:
            data = self._reader.received(nbytes)
            works, stop = self._session.take(data)
            for work in works:
                self._begin(work)
            fault = self._session.fault
            if fault is None:
                self._reader.keep(data, stop)
        except MalformedFrame as error:
            fault = str(error)
        except Exception:
            log.exception("%s: a request could not be taken", self.peer)
            self.close("an error of ours, see above", logging.ERROR)
            return
        if fault is not None:
            self.close(fault, logging.WARNING)
        else:
            self._judge_load()

    def eof_received(self) -> None:
        """Leaves the reaction to asyncio, which closes the transport because the peer will send nothing more."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._become_closed()
        self._on_end(self)

    def pause_writing(self) -> None:
        self._may_write.clear()
        self._pause(Paused.OUTPUT)

    def resume_writing(self) -> None:
        self._may_write.set()
        self.resume(Paused.OUTPUT)
        self._pump(self._reads)
        self._pump(self._others)

    # --- adds --------------------------------------------------------------------------------------------------------

    def _begin(self, work: WireWork) -> None:
        if type(work) is WireAdds:
            work.sink = self._adds_done
            size = work.measure()
            self._inflight += size
            self._budget.used += size
            self._bookie.add_entries(work.ledger_id, work.master_key, work.ids(), work.entries, work.flags, work)
        elif type(work) is bytes:
            self._write(work)
        elif type(work) is ReadRun or type(work) is v2.BatchReadRequest:
            self._reads.waiting.append(work)
            self._pump(self._reads)
        else:
            self._others.waiting.append(cast(FenceRead | pb.Request, work))
            self._pump(self._others)

    def _adds_done(self, group: WireAdds, rc: int) -> None:
        """Answers a group that is durable or has failed. The bookie calls this method on the loop, and never from
        within add_entries."""
        self._inflight -= group.size
        if rc == BookieRc.EOK:
            self._calls.lacs.raise_to(group.ledger_id, group.last_add_confirmed())
        if not self._paused & Paused.CLOSED:
            self._write(add_answers(group, rc))
            if self._paused & Paused.ADDS and self._inflight <= limit.INFLIGHT_BYTES_MAX // 2:
                self.resume(Paused.ADDS)
        self._budget.free(group.size)

    # --- everything else ---------------------------------------------------------------------------------------------

    def _pump(self, lane: Lane) -> None:
        """Begins requests of a lane, up to the lane's limit. Begins no request while the peer does not take its
        answers."""
        while lane.waiting and lane.running < lane.limit and not self._paused & (Paused.OUTPUT | Paused.CLOSED):
            work = lane.waiting.popleft()
            lane.running += 1
            task = run_eagerly(self._loop, self._serve(lane, work))
            if task is not None:
                self._tasks.add(task)
                task.add_done_callback(partial(self._served, lane))
        if self._paused & Paused.QUEUE and len(self._reads.waiting) + len(self._others.waiting) <= limit.QUEUE_MAX // 2:
            self.resume(Paused.QUEUE)

    async def _serve(self, lane: Lane, work: ReadRun | FenceRead | v2.BatchReadRequest | pb.Request) -> None:
        """Serves one request. Up to LONG_POLLS_MAX long polls do not count against the lane's limit, since long polls
        mostly wait."""
        parked = isinstance(work, pb.Request) and work.header.operation == pb.READ_ENTRY
        if parked and self._long_polls < limit.LONG_POLLS_MAX:
            self._long_polls += 1
            lane.running -= 1
        else:
            parked = False
        try:
            await self._answer(work)
        except Exception:
            log.exception("%s: a request could not be served", self.peer)
            self.close("an error of ours, see above", logging.ERROR)
        finally:
            if parked:
                self._long_polls -= 1
            else:
                lane.running -= 1

    def _served(self, lane: Lane, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._pump(lane)

    def _answer(self, work: ReadRun | FenceRead | v2.BatchReadRequest | pb.Request) -> Coroutine[Any, Any, None]:
        if isinstance(work, ReadRun):
            return self._read_run(work)
        if isinstance(work, FenceRead):
            return self._fence(work)
        if isinstance(work, pb.Request):
            return self._call(work)
        return self._batch_read(work)

    async def _read_run(self, run: ReadRun) -> None:
        """Reads a run of entries with as many calls of the bookie as it takes. A refusal answers only the entry that
        cannot be read; the others are still read."""
        bookie, ledger_id = self._bookie, run.ledger_id
        served = 0
        while served < run.count and not self._paused & Paused.CLOSED:
            if not self._may_write.is_set():
                await self._may_write.wait()
            entry_id = run.first_entry_id + served
            try:
                if run.count - served == 1:
                    entries = [await bookie.read_entry(ledger_id, entry_id)]
                else:
                    entries = await bookie.read_entries(ledger_id, entry_id, run.count - served, limit.READ_CHUNK_BYTES)
                lac = await self._calls.known_lac(ledger_id) if run.txns is not None else None
            except BookieError as error:
                self._write(read_refusal(run, served, error.rc))
                served += 1
            else:
                self._write(read_answers(run, served, entries, lac))
                served += len(entries)

    async def _fence(self, fence: FenceRead) -> None:
        entry: bytes | None = None
        rc = BookieRc.EOK
        try:
            entry = await self._bookie.read_entry(fence.ledger_id, fence.entry_id, fence.flags, fence.master_key)
        except BookieError as error:
            rc = error.rc
        if rc in (BookieRc.EOK, BookieRc.ENOENTRY):
            self._calls.lacs.fenced(fence.ledger_id)
        self._write(fence_answer(fence, rc, entry))

    async def _call(self, request: pb.Request) -> None:
        self._write(await self._calls.answer(request))

    async def _batch_read(self, request: v2.BatchReadRequest) -> None:
        """Answers with consecutive entries, up to a limit or to the first entry that cannot be read. A read from -1
        gets the last entry and then the entries from 0 on, which is the behaviour of Apache's bookie."""
        entries: list[bytes] = []
        rc = BookieRc.EOK
        try:
            await self._collect(request, entries)
        except BookieError as error:
            if not entries:
                rc = error.rc
        answer = v2.batch_read_response(
            rc, request.ledger_id, request.entry_id, request.request_id, entries, request.version
        )
        self._write(answer)

    async def _collect(self, request: v2.BatchReadRequest, entries: list[bytes]) -> None:
        """Fills `entries` until a limit is reached. Raises BookieError at the first entry that cannot be read."""
        ledger_id, first = request.ledger_id, request.entry_id
        room = min(request.max_size, limit.BATCH_READ_BYTES_MAX) - _BATCH_HEAD_BYTES
        fencing = request.flags & v2.ReadFlags.FENCING
        most = request.max_count if request.max_count > 0 else limit.BATCH_READ_BYTES_MAX
        while len(entries) < most:
            entry_id = first + len(entries)
            if entry_id == LAST_ENTRY or (fencing and not entries):
                found = [await self._bookie.read_entry(ledger_id, entry_id, request.flags, request.master_key)]
                if fencing:
                    self._calls.lacs.fenced(ledger_id)
            else:
                found = await self._bookie.read_entries(ledger_id, entry_id, most - len(entries), max(room, 1))
            for entry in found:
                room -= 4 + len(entry)
                if room < 0 and entries:
                    return
                entries.append(entry)
            if room <= 0:
                return

    # --- output, load, end -------------------------------------------------------------------------------------------

    def _write(self, answer: bytes) -> None:
        if self._paused & Paused.CLOSED:
            return
        if not self._answers:
            self._loop.call_soon(self._flush)
        self._answers.append(answer)
        self._answer_bytes += len(answer)
        if self._answer_bytes >= limit.OUTPUT_HIGH_WATER_BYTES:
            # The transport can ask for a pause only when it has got the answers. Reads from memory never give the loop
            # a turn, so without this flush a long run would be read to its end before the transport could ask for a
            # pause.
            self._flush()

    def _flush(self) -> None:
        answers = self._answers
        self._answer_bytes = 0
        if answers and not self._transport.is_closing():
            self._transport.write(answers[0] if len(answers) == 1 else b"".join(answers))
        answers.clear()

    def _judge_load(self) -> None:
        """Pauses reading from the socket for each bound that was reached."""
        if self._inflight > limit.INFLIGHT_BYTES_MAX:
            self._pause(Paused.ADDS)
        if self._budget.used > self._budget.limit and self._inflight:
            self._budget.waiting.add(self)
            self._pause(Paused.BUDGET)
        if len(self._reads.waiting) + len(self._others.waiting) > limit.QUEUE_MAX:
            self._pause(Paused.QUEUE)

    def _pause(self, why: Paused) -> None:
        if not self._paused and not self._transport.is_closing():
            self._transport.pause_reading()
        self._paused |= why

    def resume(self, why: Paused) -> None:
        if not self._paused & why:
            return
        self._paused &= ~why
        if not self._paused and not self._transport.is_closing():
            self._transport.resume_reading()

    @property
    def is_paused(self) -> bool:
        return bool(self._paused)

    def close(self, reason: str, level: int = logging.INFO) -> None:
        """Sends the answers that are ready, then closes the connection."""
        if self._paused & Paused.CLOSED:
            return
        log.log(level, "bookie port: %s closed: %s", self.peer, reason)
        self._flush()
        self._become_closed()
        self._transport.close()

    def abort(self) -> None:
        self._become_closed()
        self._transport.abort()

    def _become_closed(self) -> None:
        """Drops the requests that wait and cancels those that are being served. The bookie completes adds that it has
        taken; their answers are dropped."""
        self._paused |= Paused.CLOSED
        self._budget.waiting.discard(self)
        self._reads.waiting.clear()
        self._others.waiting.clear()
        self._reader.forget()
        for task in self._tasks:
            task.cancel()
