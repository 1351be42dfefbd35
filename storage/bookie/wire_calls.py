"""The rarer requests of BookKeeper's v3 protocol, one function each: long poll, explicit LAC, bookie info, force, list
of entries.

The functions answer as the processors of BookKeeper 4.17 do: LongPollReadEntryProcessorV3, WriteLacProcessorV3,
ReadLacProcessorV3, GetBookieInfoProcessorV3, ForceLedgerProcessorV3 and GetListOfEntriesOfLedgerProcessorV3.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from struct import Struct
from typing import Protocol

from magnetar.storage.bookie.lac_table import LacTable
from magnetar.storage.bookie.ledger_state import EXPLICIT_LAC_BYTES_MIN, explicit_lac_of
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.records.entry_digest import entry_lac
from pulsar_proto.wire import bookie_wire_v3 as v3
from pulsar_proto.wire import entry_availability
from pulsar_proto.wire.bookie_wire import LAST_ENTRY, BookieError, BookieRc

LONG_POLL_MS_MAX = 600_000
"""The longest time that a long poll waits, even if its client asks for more."""

_LEDGER_ID = Struct(">q")


class WireBookie(Protocol):
    """The bookie's port uses the `Bookie` through this interface: the adds, reads and fences of BookieChannel, and the
    other data of a ledger.

    The bookie calls `done` once for a group, with all its ids and a result code. The other methods raise BookieError.
    """

    def add_entries(
        self,
        ledger_id: int,
        master_key: bytes,
        entry_ids: Sequence[int],
        entries: Sequence[bytes],
        flags: int,
        done: Callable[[Sequence[int], int], None],
    ) -> None: ...

    async def read_entry(self, ledger_id: int, entry_id: int, flags: int = 0, master_key: bytes = b"") -> bytes: ...

    async def read_entries(
        self, ledger_id: int, first_entry_id: int, max_entries: int, max_bytes: int
    ) -> list[bytes]: ...

    async def write_explicit_lac(self, ledger_id: int, master_key: bytes, body: bytes) -> None:
        """Stores an explicit LAC's packet and returns when the packet is durable. An unknown ledger is created; a
        fenced ledger is accepted. The bookie keeps the packet with the highest LAC, whereas Apache's bookie keeps the
        last packet. Raises BookieError: EREADONLY, EUA, EIO, EBADREQ, and EFENCED for a ledger that was deleted after
        it had been fenced."""

    def explicit_lac(self, ledger_id: int) -> bytes | None:
        """Returns the durable packet of a ledger, or None when there is no packet or the ledger is unknown."""

    async def entry_id_runs(self, ledger_id: int) -> list[range]:
        """Returns the ids of all entries of a ledger, ascending. Raises BookieError: ENOLEDGER for an unknown
        ledger."""


class WireCalls:
    """Answers the rarer requests of all connections of a bookie's port. The connections pass each LAC that they learn
    of to `lacs`."""

    def __init__(self, bookie: WireBookie, disk_space: Callable[[], tuple[int, int]]) -> None:
        self._bookie = bookie
        self._disk_space = disk_space
        self._loop = asyncio.get_running_loop()
        self.lacs = LacTable()
        self._table: dict[int, Callable[[pb.Request], Awaitable[bytes]]] = {
            pb.READ_ENTRY: self._long_poll,
            pb.WRITE_LAC: self._write_lac,
            pb.READ_LAC: self._read_lac,
            pb.GET_BOOKIE_INFO: self._bookie_info,
            pb.FORCE_LEDGER: self._force_ledger,
            pb.GET_LIST_OF_ENTRIES_OF_LEDGER: self._list_of_entries,
        }

    async def answer(self, request: pb.Request) -> bytes:
        """Serves the request and returns the frame of the answer. A BookieError becomes an answer with its code."""
        try:
            return await self._table[request.header.operation](request)
        except BookieError as error:
            return v3.refusal(request, error.rc)

    async def known_lac(self, ledger_id: int) -> int | None:
        """Returns the ledger's LAC, from the table or else from the ledger's explicit LAC and last entry; None for an
        empty ledger. Raises BookieError: ENOLEDGER for an unknown ledger."""
        lac = self.lacs.known(ledger_id)
        if lac is None:
            packet = self._bookie.explicit_lac(ledger_id)
            if packet is not None:
                self.lacs.raise_to(ledger_id, explicit_lac_of(packet))
            try:
                entry = await self._bookie.read_entry(ledger_id, LAST_ENTRY)
            except BookieError as error:
                if error.rc != BookieRc.ENOENTRY:
                    raise
            else:
                self.lacs.raise_to(ledger_id, entry_lac(entry))
            lac = self.lacs.known(ledger_id)
        return lac

    async def _long_poll(self, request: pb.Request) -> bytes:
        """Waits until the LAC is above `previousLAC`, or the time is over. A poll with piggybacking gets the entry
        after `previousLAC` as soon as the LAC is above `previousLAC`. Any other poll gets the entry that the poll
        names."""
        read = request.readRequest
        ledger_id, previous = read.ledgerId, read.previousLAC
        piggyback = v3.is_piggyback(read)
        if piggyback and read.entryId != LAST_ENTRY:
            raise BookieError(BookieRc.EBADREQ, "a long poll asks for the last entry")
        lac = await self.known_lac(ledger_id)
        woken_at_ms = None
        if read.HasField("timeOut") and (lac is None or lac <= previous):
            if await self._lac_moves(ledger_id, previous, min(max(read.timeOut, 0), LONG_POLL_MS_MAX) / 1000):
                woken_at_ms = time.time_ns() // 1_000_000
            lac = await self.known_lac(ledger_id)
        txn_id = request.header.txnId
        if not piggyback:
            entry = await self._bookie.read_entry(ledger_id, read.entryId)
            return v3.read_response(BookieRc.EOK, txn_id, ledger_id, read.entryId, entry, lac)
        if lac is None or lac <= previous:
            return v3.read_response(BookieRc.EOK, txn_id, ledger_id, LAST_ENTRY, None, -1 if lac is None else lac)
        try:
            entry = await self._bookie.read_entry(ledger_id, previous + 1)
        except BookieError as error:
            if error.rc != BookieRc.ENOENTRY:
                raise
            # In a striped ledger another bookie may have that entry, so the answer tells only the LAC.
            return v3.read_response(BookieRc.EOK, txn_id, ledger_id, LAST_ENTRY, None, lac)
        return v3.read_response(BookieRc.EOK, txn_id, ledger_id, previous + 1, entry, lac, woken_at_ms)

    async def _lac_moves(self, ledger_id: int, previous_lac: int, timeout_s: float) -> bool:
        """Waits until the LAC is above `previous_lac`, the ledger is fenced or deleted, or the bookie ends. Returns
        False when the time is over, or when `LacTable.watch` does not let the caller wait."""
        moved: asyncio.Future[bool] = self._loop.create_future()

        def settle(woken: bool) -> None:
            if not moved.done():
                moved.set_result(woken)

        watch = self.lacs.watch(ledger_id, previous_lac, lambda _: settle(True))
        if watch is None:
            return False
        timer = self._loop.call_later(timeout_s, settle, False)
        try:
            return await moved
        finally:
            timer.cancel()
            self.lacs.unwatch(watch)

    async def _write_lac(self, request: pb.Request) -> bytes:
        write = request.writeLacRequest
        if len(write.body) < EXPLICIT_LAC_BYTES_MIN or _LEDGER_ID.unpack_from(write.body)[0] != write.ledgerId:
            raise BookieError(BookieRc.EBADREQ, "the body is no LAC packet of this ledger")
        await self._bookie.write_explicit_lac(write.ledgerId, write.masterKey, write.body)
        self.lacs.raise_to(write.ledgerId, write.lac)
        response = v3.response_to(request, BookieRc.EOK)
        response.writeLacResponse.CopyFrom(pb.WriteLacResponse(status=pb.EOK, ledgerId=write.ledgerId))
        return v3.frame(response)

    async def _read_lac(self, request: pb.Request) -> bytes:
        """Answers with the explicit LAC and the last entry. The code is ENOENTRY when the ledger has neither, and EIO
        when it has an explicit LAC but no entry, which are the codes of Apache's bookie."""
        ledger_id = request.readLacRequest.ledgerId
        body = self._bookie.explicit_lac(ledger_id)
        entry, rc = None, BookieRc.EOK
        try:
            entry = await self._bookie.read_entry(ledger_id, LAST_ENTRY)
        except BookieError as error:
            if body is not None:
                rc = BookieRc.EIO
            else:
                rc = BookieRc.ENOENTRY if error.rc in (BookieRc.ENOENTRY, BookieRc.ENOLEDGER) else error.rc
        response = v3.response_to(request, rc)
        answer = response.readLacResponse
        answer.status = response.status
        answer.ledgerId = ledger_id
        if body is not None:
            answer.lacBody = body
        if entry is not None:
            answer.lastEntryBody = entry
        return v3.frame(response)

    async def _bookie_info(self, request: pb.Request) -> bytes:
        requested = request.getBookieInfoRequest.requested
        response = v3.response_to(request, BookieRc.EOK)
        info = response.getBookieInfoResponse
        info.status = pb.EOK
        try:
            total, free = self._disk_space() if requested else (0, 0)
        except OSError as error:
            raise BookieError(BookieRc.EIO, str(error)) from None
        if requested & v3.TOTAL_DISK_CAPACITY:
            info.totalDiskCapacity = total
        if requested & v3.FREE_DISK_SPACE:
            info.freeDiskSpace = free
        return v3.frame(response)

    async def _force_ledger(self, request: pb.Request) -> bytes:
        """Answers at once: all adds, also those with DEFERRED_SYNC, are answered only when they are durable, so nothing
        is left to be forced to disk."""
        response = v3.response_to(request, BookieRc.EOK)
        ledger_id = request.forceLedgerRequest.ledgerId
        response.forceLedgerResponse.CopyFrom(pb.ForceLedgerResponse(status=pb.EOK, ledgerId=ledger_id))
        return v3.frame(response)

    async def _list_of_entries(self, request: pb.Request) -> bytes:
        ledger_id = request.getListOfEntriesOfLedgerRequest.ledgerId
        runs = await self._bookie.entry_id_runs(ledger_id)
        response = v3.response_to(request, BookieRc.EOK)
        answer = response.getListOfEntriesOfLedgerResponse
        answer.status = pb.EOK
        answer.ledgerId = ledger_id
        answer.availabilityOfEntriesOfLedger = entry_availability.encode(runs)
        return v3.frame(response)
