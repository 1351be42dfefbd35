"""Every request that was captured from Apache's clients and probes is sent to our bookie, which answers with Apache's
bytes.

One test replays all of them in order, because they build on each other. Some answers show entries whose add was not
captured; these are put into the bookie first.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from struct import pack, unpack_from
from typing import Any

import pytest

from magnetar.storage.bookie.wire_calls import WireBookie
from magnetar.storage.bookie.wire_server import BookieWireServer
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.records.entry_digest import master_key
from pulsar_proto.wire import bookie_wire as v2
from pulsar_proto.wire import entry_availability
from pulsar_proto.wire.bookie_wire import AddFlags, BookieError, BookieRc
from tests.pulsar_proto.vectors import Item, load, unhex
from tests.storage.bookie.helpers import running
from tests.storage.bookie.wire_support import MemoryBookie, Peer

EXCHANGES = load("bookkeeper_exchanges.json")

SAME_CONNECTION = "(frame 2)"
TLS_ON = "probe: v3 START_TLS to a bookie with TLS on"
NEVER_ANSWERED = "probe: v3 GET_LIST_OF_ENTRIES"
"""Apache's default storage does not answer this request; our bookie does."""
REFUSED_LEDGER = "probe: v3 read of that entry"
"""Apache's bookie answers ENOENTRY, because it has created the ledger although it refused the add. Ours answers
ENOLEDGER."""
LAC_GONE_BACK = "probe: v3 READ_LAC after the lower one"
"""Apache's bookie returns the lower LAC here; ours keeps the higher one."""
DEVIATIONS = {TLS_ON: pb.EBADREQ, NEVER_ANSWERED: pb.EOK, REFUSED_LEDGER: pb.ENOLEDGER, LAC_GONE_BACK: pb.EOK}
"""What our bookie answers instead of Apache's answer."""


def is_v3(frame: bytes) -> bool:
    return frame[4:5] == b"\x0a"


def shown_entries(response: bytes) -> list[bytes]:
    if not is_v3(response):
        return list(v2.decode_response(response[4:]).entries)
    message = pb.Response.FromString(response[4:])
    return [entry for entry in (message.readResponse.body, message.readLacResponse.lastEntryBody) if entry]


SHOWN = {
    unpack_from(">qq", entry): entry
    for exchange in EXCHANGES
    if exchange["response"]
    for entry in shown_entries(unhex(exchange["response"]))
}
"""Maps (ledger, entry) to the stored entry, for all entries that the answers show."""


def made_up(ledger_id: int, entry_id: int) -> bytes:
    return pack(">qqqq", ledger_id, entry_id, -1, 0)


class Replay:
    def __init__(self, bookie: WireBookie) -> None:
        self.bookie = bookie
        self.disk_space = (0, 0)
        self.server = BookieWireServer(bookie, disk_space=lambda: self.disk_space)
        self.port = 0
        self._peer: Peer | None = None

    async def run(self) -> list[str]:
        """Replays all exchanges and returns the differences."""
        self.port = await self.server.start("127.0.0.1", 0)
        differing = []
        exchanges = iter(EXCHANGES)
        for exchange in exchanges:
            if self._waits_for_next_add(exchange):
                differing += await self._long_poll(exchange, next(exchanges))
            else:
                differing += await self._exchange(exchange)
        if self._peer is not None:
            await self._peer.close()
        await self.server.close()
        return differing

    async def _exchange(self, exchange: Item) -> list[str]:
        await self._prepare(exchange)
        peer = await self._peer_for(exchange["name"])
        answer = await peer.ask(unhex(exchange["request"]))
        deviation = DEVIATIONS.get(exchange["name"])
        if deviation is not None:
            status = pb.Response.FromString(answer[4:]).status
            return [] if status == deviation else [f"{exchange['name']}: {answer.hex()}"]
        return compared(exchange, answer)

    async def _long_poll(self, poll: Item, add: Item) -> list[str]:
        """Replays a poll that is answered because of the add behind it. Only the time of update in the answer may
        differ."""
        peer = await Peer.connect(self.port)
        peer.writer.write(unhex(poll["request"]))
        differing = await self._exchange(add)
        answer = pb.Response.FromString((await peer.answer())[4:])
        await peer.close()
        expected = pb.Response.FromString(unhex(poll["response"])[4:])
        assert answer.readResponse.lacUpdateTimestamp > 1_500_000_000_000
        answer.readResponse.lacUpdateTimestamp = expected.readResponse.lacUpdateTimestamp
        return differing + ([] if answer == expected else [f"{poll['name']}: {answer}"])

    def _waits_for_next_add(self, exchange: Item) -> bool:
        response = unhex(exchange["response"] or "")
        return is_v3(response) and pb.Response.FromString(response[4:]).readResponse.HasField("lacUpdateTimestamp")

    async def _peer_for(self, name: str) -> Peer:
        if self._peer is None or not name.endswith(SAME_CONNECTION):
            if self._peer is not None:
                await self._peer.close()
            self._peer = await Peer.connect(self.port)
        return self._peer

    async def _prepare(self, exchange: Item) -> None:
        response = unhex(exchange["response"] or "")
        if not response:
            return
        key = master_key(exchange.get("password", "").encode())
        entries = shown_entries(response)
        if is_v3(response):
            message = pb.Response.FromString(response[4:])
            info, listed = message.getBookieInfoResponse, message.getListOfEntriesOfLedgerResponse
            self.disk_space = (info.totalDiskCapacity, info.freeDiskSpace)
            if listed.HasField("availabilityOfEntriesOfLedger"):
                ids = [i for run in entry_availability.decode(listed.availabilityOfEntriesOfLedger) for i in run]
                entries = [SHOWN.get((listed.ledgerId, i)) or made_up(listed.ledgerId, i) for i in ids]
        for entry in entries:
            ledger_id, entry_id = unpack_from(">qq", entry)
            try:
                await self.bookie.read_entry(ledger_id, entry_id)
            except BookieError:
                peer = await Peer.connect(self.port)
                answer = v2.decode_response((await peer.ask(v2.add_request(key, entry, AddFlags.RECOVERY_ADD)))[4:])
                assert answer.rc == BookieRc.EOK
                await peer.close()


def compared(exchange: Item, answer: bytes) -> list[str]:
    if answer == unhex(exchange["response"] or ""):
        return []
    return [f"{exchange['name']}:\n  ours   {answer.hex()}\n  Apache {exchange['response']}"]


@asynccontextmanager
async def memory_bookie(_: Path) -> Any:
    yield MemoryBookie()


Opener = Callable[[Path], AbstractAsyncContextManager[WireBookie]]


@pytest.mark.parametrize("opener", [memory_bookie, running], ids=["bookie in memory", "our bookie"])
async def test_every_captured_request_is_answered_with_apaches_bytes(opener: Opener, tmp_path: Path) -> None:
    async with opener(tmp_path) as bookie:
        differing = await Replay(bookie).run()
    assert not differing, "\n".join(differing)
