"""START_TLS between a ledger client and bookies: who gets a connection, who does not, and what a stranger may add."""

import asyncio
import contextlib
import json
import logging
import ssl
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from compat_tests.certificates import Authority, Certificate
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.storage.bookie import start_tls_gate
from magnetar.storage.bookie.wire_limits import WireLimits
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.ledger.wire_channel import WireChannel
from magnetar.storage.ledger.wire_config import WireConfig
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.wire import bookie_wire as v2
from pulsar_proto.wire import bookie_wire_v3 as v3
from pulsar_proto.wire.bookie_wire import BookieRc
from tests.storage.bookie.wire_support import Peer, Served, adds
from tests.storage.ledger.wire_scene import BOTH, TlsContext, client, nodes
from tests.waiting import until

DEADLINE = 60
EXCHANGES = Path(__file__).parents[2] / "vectors/bookkeeper_exchanges.json"


class Files:
    """An authority, and the contexts of both sides."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self.authority = Authority(folder, name)
        self._bookie = self.authority.issue("bookie", f"{name}-bookie")
        self._broker = self.authority.issue("broker", f"{name}-broker")

    def port(self, *, needs_certificate: bool = True) -> TlsContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._bookie.certificate, self._bookie.key)
        if needs_certificate:
            context.load_verify_locations(self.authority.path)
            context.verify_mode = ssl.CERT_REQUIRED
        return lambda: context

    def client(self, *, shows_certificate: bool = True) -> TlsContext:
        context = ssl.create_default_context(cafile=self.authority.path)
        context.check_hostname = False
        if shows_certificate:
            own: Certificate = self._broker
            context.load_cert_chain(own.certificate, own.key)
        return lambda: context


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def start_tls_request() -> bytes:
    request = v3.new_request(pb.START_TLS, 7)
    request.startTLSRequest.SetInParent()
    return v3.frame(request)


@pytest.mark.parametrize("loop", [None, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
@BOTH
def test_a_ledger_is_written_and_read_over_tls(tmp_path: Path, files: Files, use_v2: bool, loop: Any) -> None:
    async def scenario() -> None:
        async with (
            nodes(tmp_path, 3, files.port()) as cluster,
            client(MemoryStore(), cluster, use_v2, tls=files.client()) as bookkeeper,
        ):
            handle = await bookkeeper.create_ledger()
            entries = [b"%d" % number * 50_000 for number in range(20)]
            for entry in entries:
                await handle.add(entry)
            stored = await handle.read(0, 19)
            assert [entry[-len(payload) :] for entry, payload in zip(stored, entries, strict=True)] == entries
            peers = [peer for node in cluster for peer in node.server.connections]
            assert peers
            assert all(peer._transport.get_extra_info("cipher") for peer in peers), "a connection is in the clear"
            await handle.close()

    run(loop, scenario())


def run(loop_factory: Any, work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE):
            await work

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(bounded())


async def refused(tmp_path: Path, port: TlsContext, tls: TlsContext) -> None:
    async with nodes(tmp_path, 1, port) as cluster:
        async with client(MemoryStore(), cluster, True, tls=tls) as bookkeeper:
            with pytest.raises(LedgerError):
                await (await bookkeeper.create_ledger()).add(b"secret")
        await until(lambda: not cluster[0].server.connections)


async def test_a_client_with_tls_sends_nothing_to_a_bookie_without_it(
    tmp_path: Path, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    await refused(tmp_path, None, files.client())
    assert "cannot be reached: the bookie does not speak TLS" in caplog.text


async def test_a_bookie_of_another_authority_gets_nothing(
    tmp_path: Path, files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    await refused(tmp_path, Files(tmp_path, "stranger").port(needs_certificate=False), files.client())
    assert "the TLS handshake failed: " in caplog.text


@pytest.mark.parametrize("has_any", [False, True], ids=["none", "another authority's"])
async def test_a_client_without_the_right_certificate_is_refused(tmp_path: Path, files: Files, has_any: bool) -> None:
    stranger = Files(tmp_path, "stranger")
    context = ssl.create_default_context(cafile=files.authority.path)
    context.check_hostname = False
    if has_any:
        context.load_cert_chain(stranger._broker.certificate, stranger._broker.key)
    await refused(tmp_path, files.port(), lambda: context)


async def test_a_client_in_the_clear_is_served_however_its_first_packet_comes(files: Files) -> None:
    served = await Served.start(tls=files.port())
    for chunk in (1, 3, 1_000):
        peer = await served.peer()
        data = adds(5, range(chunk, chunk + 2))
        for start in range(0, len(data), chunk):
            peer.writer.write(data[start : start + chunk])
            await asyncio.sleep(0)
        assert await peer.answer() == v2.add_response(BookieRc.EOK, 5, chunk)
        assert await peer.answer() == v2.add_response(BookieRc.EOK, 5, chunk + 1)
    await served.server.close()


async def test_a_short_first_packet_that_is_no_start_tls_goes_to_the_bookie(files: Files) -> None:
    served = await Served.start(tls=files.port())
    peer = await served.peer()
    assert v2.decode_response((await peer.ask(v2.read_request(5, 0)))[4:]).rc == BookieRc.ENOLEDGER
    late = v3.parse_response((await (await served.peer()).ask(v3.frame(v3.new_request(pb.GET_BOOKIE_INFO, 3))))[4:])
    assert late.header.txnId == 3
    await served.server.close()


async def test_bytes_that_came_with_start_tls_are_not_taken(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    """They were not encrypted: somebody on the way could have added them."""
    served = await Served.start(tls=files.port())
    peer = await served.peer()
    peer.writer.write(start_tls_request() + adds(5, range(1)))
    with contextlib.suppress(ConnectionResetError):
        assert await asyncio.wait_for(peer.reader.read(), DEADLINE) == b""
    assert "came together with START_TLS" in caplog.text
    assert not served.bookie.groups
    await served.server.close()


async def test_the_answer_to_start_tls_is_apaches(files: Files) -> None:
    served = await Served.start(tls=files.port())
    exchanges = json.loads(EXCHANGES.read_text())["items"]
    (known,) = (each for each in exchanges if each["name"] == "probe: v3 START_TLS to a bookie with TLS on")
    answer = await (await served.peer()).ask(bytes.fromhex(known["request"]))
    assert answer.hex() == known["response"]
    await served.server.close()


async def test_a_second_start_tls_is_refused(files: Files) -> None:
    served = await Served.start(tls=files.port())
    address = ("127.0.0.1", served.port)
    channel = WireChannel("b", lambda: address, WireConfig(use_v2_wire_protocol=False, tls=files.client()))
    connection = await channel._v3.open_connection()
    request = v3.new_request(pb.START_TLS, 0)
    request.startTLSRequest.SetInParent()
    assert (await connection.exchange(request)).status == pb.EBADREQ
    await channel.close()
    await served.server.close()


async def test_connections_at_the_gate_are_counted_and_end_with_the_port(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    served = await Served.start(WireLimits(connections_max=1), tls=files.port())
    first: Peer = await served.peer()
    await until(lambda: bool(served.server._gates))
    assert await asyncio.wait_for((await served.peer()).reader.read(), DEADLINE) == b"", "the port is full"
    handshake = await first.ask(start_tls_request())
    assert v3.parse_response(handshake[4:]).status == pb.EOK
    await served.server.close()
    assert await asyncio.wait_for(first.reader.read(), DEADLINE) == b""
    assert not served.server._gates


async def test_who_does_not_finish_the_handshake_is_cut_off(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_tls_gate, "HANDSHAKE_SECONDS_MAX", 0.05)
    served = await Served.start(tls=files.port())
    peer = await served.peer()
    await peer.ask(start_tls_request())
    assert await asyncio.wait_for(peer.reader.read(), DEADLINE) == b""
    await until(lambda: not served.server._gates)
    await served.server.close()
