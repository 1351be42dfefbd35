"""Helpers for the tests of the bookie's wire: a bookie in memory whose answers can be held, a peer that sends bytes,
adds."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

import pytest

from magnetar.storage.bookie.ledger_state import explicit_lac_of
from magnetar.storage.bookie.wire_limits import WireLimits
from magnetar.storage.bookie.wire_server import BookieWireServer
from pulsar_proto.wire import bookie_wire as v2
from pulsar_proto.wire.bookie_wire import LAST_ENTRY, AddFlags, BookieError, BookieRc, ReadFlags
from tests.storage.bookie.helpers import KEY, entries_of

DEADLINE_SECONDS = 60
TOTAL_BYTES, FREE_BYTES = 84_372_380_672 + 1, 1 << 40
OTHER = b"o" * 20
"""A master key that is not `KEY`."""

AddDone = Callable[[Sequence[int], int], None]


class MemoryLedger:
    def __init__(self, master_key: bytes) -> None:
        self.master_key = master_key
        self.fenced = False
        self.explicit_lac: bytes | None = None
        self.entries: dict[int, bytes] = {}


class MemoryBookie:
    """Keeps the contract of `WireBookie`. `hold()` holds back the answers to adds until `release()`."""

    def __init__(self) -> None:
        self.ledgers: dict[int, MemoryLedger] = {}
        self.groups: list[tuple[int, list[int]]] = []
        """Records (ledger, ids) of each call of add_entries."""
        self.read_calls: list[tuple[int, int, int]] = []
        """Records (ledger, first entry, how many were asked for) of each read."""
        self.ids_were_ranges: list[bool] = []
        self.held: list[Callable[[], None]] | None = None
        self.reads_may_go_on = asyncio.Event()
        self.reads_may_go_on.set()
        self.read_only = False
        self.reading = 0
        self.reading_max = 0

    def hold(self) -> None:
        self.held = []

    def release(self) -> None:
        held, self.held = self.held or [], None
        for answer in held:
            answer()

    def add_entries(
        self,
        ledger_id: int,
        master_key: bytes,
        entry_ids: Sequence[int],
        entries: Sequence[bytes],
        flags: int,
        done: AddDone,
    ) -> None:
        self.groups.append((ledger_id, list(entry_ids)))
        self.ids_were_ranges.append(isinstance(entry_ids, range))
        rc = self._add(ledger_id, master_key, entry_ids, entries, flags)
        answer = partial(done, entry_ids, int(rc))
        if self.held is not None:
            self.held.append(answer)
        else:
            asyncio.get_running_loop().call_soon(answer)

    def _add(
        self, ledger_id: int, master_key: bytes, entry_ids: Sequence[int], entries: Sequence[bytes], flags: int
    ) -> BookieRc:
        if self.read_only:
            return BookieRc.EREADONLY
        if ledger_id < 0:
            return BookieRc.EBADREQ
        ledger = self.ledgers.setdefault(ledger_id, MemoryLedger(master_key))
        if ledger.master_key != master_key:
            return BookieRc.EUA
        if ledger.fenced and not flags & AddFlags.RECOVERY_ADD:
            return BookieRc.EFENCED
        ledger.entries.update(zip(entry_ids, entries, strict=True))
        return BookieRc.EOK

    def _ledger(self, ledger_id: int) -> MemoryLedger:
        ledger = self.ledgers.get(ledger_id)
        if ledger is None:
            raise BookieError(BookieRc.ENOLEDGER)
        return ledger

    async def _disk(self) -> None:
        self.reading += 1
        self.reading_max = max(self.reading_max, self.reading)
        try:
            if not self.reads_may_go_on.is_set():
                await self.reads_may_go_on.wait()
        finally:
            self.reading -= 1

    async def read_entry(self, ledger_id: int, entry_id: int, flags: int = 0, master_key: bytes = b"") -> bytes:
        self.read_calls.append((ledger_id, entry_id, 1))
        if flags & ReadFlags.FENCING:
            ledger = self.ledgers.get(ledger_id)
            if not master_key or (ledger is not None and ledger.master_key != master_key):
                raise BookieError(BookieRc.EUA)
            self.ledgers.setdefault(ledger_id, MemoryLedger(master_key)).fenced = True
        await self._disk()
        entries = self._ledger(ledger_id).entries
        if entry_id == LAST_ENTRY:
            entry_id = max(entries, default=LAST_ENTRY)
        if entry_id not in entries:
            raise BookieError(BookieRc.ENOENTRY)
        return entries[entry_id]

    async def read_entries(self, ledger_id: int, first_entry_id: int, max_entries: int, max_bytes: int) -> list[bytes]:
        self.read_calls.append((ledger_id, first_entry_id, max_entries))
        await self._disk()
        entries = self._ledger(ledger_id).entries
        found: list[bytes] = []
        while len(found) < max_entries and (entry := entries.get(first_entry_id + len(found))) is not None:
            max_bytes -= len(entry)
            if found and max_bytes < 0:
                break
            found.append(entry)
        if not found:
            raise BookieError(BookieRc.ENOENTRY)
        return found

    async def write_explicit_lac(self, ledger_id: int, master_key: bytes, body: bytes) -> None:
        ledger = self.ledgers.setdefault(ledger_id, MemoryLedger(master_key))
        if ledger.master_key != master_key:
            raise BookieError(BookieRc.EUA)
        if ledger.explicit_lac is None or explicit_lac_of(body) >= explicit_lac_of(ledger.explicit_lac):
            ledger.explicit_lac = body

    def explicit_lac(self, ledger_id: int) -> bytes | None:
        ledger = self.ledgers.get(ledger_id)
        return ledger.explicit_lac if ledger is not None else None

    async def entry_id_runs(self, ledger_id: int) -> list[range]:
        return [range(entry_id, entry_id + 1) for entry_id in sorted(self._ledger(ledger_id).entries)]


class Served:
    """A bookie in memory behind a real port."""

    def __init__(self, bookie: MemoryBookie, server: BookieWireServer, port: int) -> None:
        self.bookie = bookie
        self.server = server
        self.port = port

    @classmethod
    async def start(
        cls, limits: WireLimits | None = None, *, tls: "Callable[[], ssl.SSLContext] | None" = None
    ) -> "Served":
        bookie = MemoryBookie()
        server = BookieWireServer(bookie, disk_space=lambda: (TOTAL_BYTES, FREE_BYTES), limits=limits, tls=tls)
        return cls(bookie, server, await server.start("127.0.0.1", 0))

    async def peer(self) -> "Peer":
        return await Peer.connect(self.port)


class Peer:
    """A connection that sends what it is told, and cuts the incoming bytes into frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int) -> "Peer":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, frame: bytes) -> bytes:
        self.writer.write(frame)
        return await self.answer()

    async def answer(self) -> bytes:
        """Returns the next whole frame, or b"" when the bookie has closed the connection."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            try:
                head = await self.reader.readexactly(4)
            except (asyncio.IncompleteReadError, ConnectionError):
                return b""
            return head + await self.reader.readexactly(int.from_bytes(head, "big"))

    async def close(self) -> None:
        self.writer.close()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    made = await Served.start()
    yield made
    await made.server.close()


def adds(ledger_id: int, ids: range, size: int = 0, flags: int = 0) -> bytes:
    """Returns the v2 frames that add these entries."""
    return b"".join(v2.add_request(KEY, entry, flags) for entry in entries_of(ledger_id, ids, size))
