"""A `BookieChannel` over TCP, to our bookies or Apache's, and the table of one client's channels.

With `use_v2_wire_protocol`, the setting of Pulsar's brokers, adds and reads use v2, and requests that only v3 has use a
second connection, as in Java's client. Without that setting all requests use v3, which has no batch read, so single
reads are pipelined instead.

A bookie that answers nothing at all is cut off after some seconds (`silence_watch`), and then every add and read fails
at once until the bookie answers again.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from magnetar.storage.ledger.bookie_channel import AddDone, LacAnswer, Polled
from magnetar.storage.ledger.ledger_errors import BookieHandleNotAvailable
from magnetar.storage.ledger.silence_watch import SilenceWatch
from magnetar.storage.ledger.wire_config import WireConfig
from magnetar.storage.ledger.wire_connection import BookieConnection
from magnetar.storage.ledger.wire_link import Address, WireLink
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.wire import bookie_wire_v3 as v3
from pulsar_proto.wire import entry_availability
from pulsar_proto.wire.bookie_wire import BookieError

PIPELINED_READS = 32
"""How many single reads are sent at once where there is no batch read."""
BATCH_STRIKES_MAX = 2
"""A bookie older than 4.17 ends the connection when it gets a batch read. After this many such ends in a row, no batch
read is sent any more."""

_NO_ENTRY = -1


class BookieInfo(NamedTuple):
    """Sizes of a bookie's disks, in bytes."""

    total_disk_bytes: int
    free_disk_bytes: int


class WireChannel:
    """A channel over TCP, made on the loop's thread. Its methods raise BookieError, ConnectionError, TimeoutError."""

    def __init__(
        self,
        bookie_id: str,
        address: Callable[[], Address],
        config: WireConfig | None = None,
        is_registered: Callable[[], bool] = lambda: True,
    ) -> None:
        """`address()` is called at each connect, and raises LookupError when nobody knows the address.
        `is_registered()` says whether the bookie's registration is there; a silent bookie without one counts as dead
        sooner."""
        self.bookie_id = bookie_id
        self._config = config or WireConfig()
        self._main = WireLink(bookie_id, address, self._config, speaks_v2=self._config.use_v2_wire_protocol)
        self._v3 = WireLink(bookie_id, address, self._config, speaks_v2=False) if self._main.speaks_v2 else self._main
        # The probe does not refer to this channel, because a circle of references would keep its connections in memory.
        self.watch = SilenceWatch(self._main, self._v3, partial(_ask_info, self._v3), is_registered, self._config)
        self._batch_strikes = 0

    def add_entries(
        self,
        ledger_id: int,
        master_key: bytes,
        entry_ids: Sequence[int],
        entries: Sequence[bytes],
        flags: int,
        done: AddDone,
    ) -> None:
        """Implements BookieChannel.add_entries. Besides the bookie's return codes, `done` may get -8 (connection lost),
        -23 (timeout) and -105 (too much is unanswered already)."""
        if self.watch.lets_through():
            self._main.add(ledger_id, master_key, entry_ids, entries, flags, done)
        else:
            asyncio.get_running_loop().call_soon(done, entry_ids, BookieHandleNotAvailable.code)

    async def read_entry(self, ledger_id: int, entry_id: int, flags: int = 0, master_key: bytes = b"") -> bytes:
        """Implements BookieChannel.read_entry."""
        connection = await self._connection_to_read()
        return await connection.read(ledger_id, entry_id, flags, master_key)

    async def read_entries(self, ledger_id: int, first_entry_id: int, max_entries: int, max_bytes: int) -> list[bytes]:
        """Implements BookieChannel.read_entries."""
        connection = await self._connection_to_read()
        if not connection.speaks_v2 or self._batch_strikes >= BATCH_STRIKES_MAX:
            return await self._pipelined(connection, ledger_id, first_entry_id, max_entries, max_bytes)
        try:
            entries = await connection.batch_read(ledger_id, first_entry_id, max_entries, max_bytes)
        except ConnectionError:
            if connection.batch_answered:
                raise
            self._batch_strikes += 1
            connection = await self._main.open_connection()
            return await self._pipelined(connection, ledger_id, first_entry_id, max_entries, max_bytes)
        self._batch_strikes = 0
        return entries

    async def _connection_to_read(self) -> BookieConnection:
        if not self.watch.lets_through():
            raise ConnectionResetError(f"bookie {self.bookie_id} answers nothing")
        return await self._main.open_connection()

    async def _pipelined(
        self, connection: BookieConnection, ledger_id: int, first: int, max_entries: int, max_bytes: int
    ) -> list[bytes]:
        ids = range(first, first + max(1, min(max_entries, PIPELINED_READS)))
        answers = await asyncio.gather(
            *(connection.read(ledger_id, entry_id, 0, b"") for entry_id in ids), return_exceptions=True
        )
        entries: list[bytes] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                if entries:
                    break
                try:
                    raise answer
                finally:
                    del answer, answers  # the error's traceback keeps this frame, and the frame would keep the error
            max_bytes -= len(answer)
            if entries and max_bytes < 0:
                break
            entries.append(answer)
        return entries

    async def read_lac(self, ledger_id: int) -> LacAnswer:
        """Asks for the LAC; never fences. Apache's bookies answer EIO when there is an explicit LAC but no entry, and
        send the explicit LAC with it; that LAC is returned."""
        connection = await self._v3.open_connection()
        request = v3.new_request(pb.READ_LAC, 0)
        request.readLacRequest.ledgerId = ledger_id
        response = await connection.exchange(request)
        answer = response.readLacResponse
        explicit = answer.lacBody if answer.HasField("lacBody") else None
        status = v3.status_in(response)
        if status != pb.EOK and explicit is None:
            raise BookieError(v3.rc_of(status), f"LAC of ledger {ledger_id}")
        return LacAnswer(explicit, answer.lastEntryBody if answer.HasField("lastEntryBody") else None)

    async def write_lac(self, ledger_id: int, lac: int, master_key: bytes, body: bytes) -> None:
        """Stores an explicit LAC. `body` is the LAC packet that `entry_digest` makes."""
        request = v3.new_request(pb.WRITE_LAC, 0)
        write = request.writeLacRequest
        write.ledgerId, write.lac, write.masterKey, write.body = ledger_id, lac, master_key, body
        await (await self._v3.open_connection()).call(request)

    async def long_poll(self, ledger_id: int, previous_lac: int, timeout_ms: int) -> Polled:
        """Returns when the bookie's LAC exceeds `previous_lac`, the ledger is fenced, or the time is over."""
        connection = await self._v3.open_connection()
        request = v3.long_poll_request(0, ledger_id, previous_lac, timeout_ms)
        response = await connection.exchange(request, more_seconds=timeout_ms / 1000)
        status = v3.status_in(response)
        if status != pb.EOK:
            raise BookieError(v3.rc_of(status), f"long poll on ledger {ledger_id}")
        answer = response.readResponse
        lac = answer.maxLAC if answer.HasField("maxLAC") else _NO_ENTRY
        if not answer.HasField("body"):
            return Polled(lac, _NO_ENTRY, None)
        return Polled(lac, answer.entryId, answer.body)

    async def force_ledger(self, ledger_id: int) -> None:
        """Returns when all adds that the bookie has acknowledged are durable."""
        request = v3.new_request(pb.FORCE_LEDGER, 0)
        request.forceLedgerRequest.ledgerId = ledger_id
        await (await self._v3.open_connection()).call(request)

    async def bookie_info(self) -> BookieInfo:
        """Returns the sizes of the bookie's disks."""
        return await _ask_info(self._v3)

    async def list_entries(self, ledger_id: int) -> list[range]:
        """Returns the ids of the entries that the bookie has. An Apache bookie with DbLedgerStorage never answers this
        request (SortedLedgerStorage does); with such a bookie the call raises TimeoutError."""
        request = v3.new_request(pb.GET_LIST_OF_ENTRIES_OF_LEDGER, 0)
        request.getListOfEntriesOfLedgerRequest.ledgerId = ledger_id
        response = await (await self._v3.open_connection()).call(request)
        return entry_availability.decode(response.getListOfEntriesOfLedgerResponse.availabilityOfEntriesOfLedger)

    async def close(self) -> None:
        """Fails all requests that have no answer: adds with -8, others with ConnectionError. Idempotent."""
        await self.watch.close()
        await self._main.close()
        await self._v3.close()


async def _ask_info(link: WireLink) -> BookieInfo:
    request = v3.new_request(pb.GET_BOOKIE_INFO, 0)
    request.getBookieInfoRequest.requested = v3.TOTAL_DISK_CAPACITY | v3.FREE_DISK_SPACE
    info = (await (await link.open_connection()).call(request)).getBookieInfoResponse
    return BookieInfo(info.totalDiskCapacity, info.freeDiskSpace)


class WireChannels:
    """The channels of one client, one for each bookie. The object is callable and serves as the ledger client's
    `channel_of`."""

    def __init__(
        self,
        address_of: Callable[[str], Address],
        config: WireConfig | None = None,
        is_registered: Callable[[str], bool] = lambda bookie_id: True,
    ) -> None:
        """`address_of(bookie id)` returns host and port, or raises LookupError. `is_registered(bookie id)` says whether
        the bookie has a registration, as far as the client knows."""
        self._address_of = address_of
        self._is_registered = is_registered
        self._config = config or WireConfig()
        self._channels: dict[str, WireChannel] = {}

    def __call__(self, bookie_id: str) -> WireChannel:
        """Returns the bookie's channel. Raises LookupError for a bookie that has no channel yet and no known
        address."""
        channel = self._channels.get(bookie_id)
        if channel is None:
            self._address_of(bookie_id)
            channel = WireChannel(
                bookie_id,
                lambda: self._address_of(bookie_id),
                self._config,
                lambda: self._is_registered(bookie_id),
            )
            self._channels[bookie_id] = channel
        return channel

    async def close(self) -> None:
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()


def address_in_id(bookie_id: str) -> Address:
    """Returns host and port of an id of the shape host:port, which most ids have. Raises LookupError."""
    host, colon, port = bookie_id.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise LookupError(f"bookie {bookie_id} is not registered, and its id is no address")
    return host, int(port)
