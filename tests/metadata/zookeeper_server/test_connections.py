"""Connections of every kind: handshakes of all clients, limits, four-letter words, and bytes that make no sense."""

import asyncio
import os
import random
import signal
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from magnetar.server.process.loop_watch import CPU_LIMIT_VARIABLE
from tests.metadata.zookeeper.own_server import OwnServer, running
from tests.metadata.zookeeper_server import raw_client as raw
from tests.metadata.zookeeper_server.raw_client import RawClient, command

pytestmark = pytest.mark.process

EXTRA = "4lw.commands.whitelist=ruok,mntr,stat,conf,isro,cons,dump,wchs,envi\n"
FUZZED = 400
MEMORY_MAX = 200 << 20
MULTIS = 60
"""As many multis take some hundred milliseconds, and fit into one read of the socket."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServer]:
    with running(tmp_path_factory.mktemp("connections"), OwnServer, EXTRA) as one:
        yield one


async def closed(client: RawClient) -> bool:
    with suppress(ConnectionError):
        return await client.rest() == b""
    return True


async def test_timeouts_are_granted_within_the_bounds(server: OwnServer) -> None:
    for wanted, granted in ((1, 1000), (7_000, 7_000), (10**9, 60_000)):
        assert (await RawClient.connect(server.port, timeout_ms=wanted)).timeout_ms == granted


async def test_clients_before_3_4_are_answered_without_the_flag_that_they_do_not_know(server: OwnServer) -> None:
    client = await RawClient.open(server.port)
    client.write_frame(struct.pack(">iqiq", 0, 0, 5000, 0) + raw.buffer(bytes(16)))
    assert len(await client.read_frame()) == 36
    newer = await RawClient.open(server.port)
    assert len(await newer.shake_hands(5000)) == 37


async def test_requests_behind_the_connect_request_wait_for_the_session(server: OwnServer) -> None:
    client = await RawClient.open(server.port)
    client.write_frame(struct.pack(">iqiq", 0, 0, 5000, 0) + raw.buffer(bytes(16)) + b"\0")
    client.ask(raw.EXISTS, raw.watched("/"))
    await client.read_frame()
    assert (await client.frame()).error == 0


async def test_a_session_is_taken_over_with_its_password_only(server: OwnServer) -> None:
    client = await RawClient.connect(server.port)
    thief = await RawClient.open(server.port)
    await thief.shake_hands(5000, client.session_id, b"x" * 16)
    assert thief.session_id == 0
    assert await closed(thief)
    assert (await client.call(raw.EXISTS, raw.watched("/"))).error == 0
    heir = await RawClient.connect(server.port, former=client)
    assert heir.session_id == client.session_id
    assert await closed(client)


async def test_a_client_that_has_seen_more_than_the_server_is_sent_away(server: OwnServer) -> None:
    client = await RawClient.open(server.port)
    client.write_frame(struct.pack(">iqiq", 0, 2**60, 5000, 0) + raw.buffer(bytes(16)) + b"\0")
    assert await closed(client)


async def test_a_silent_session_expires_and_its_records_go(server: OwnServer) -> None:
    silent, other = await RawClient.connect(server.port, timeout_ms=1000), await RawClient.connect(server.port)
    await silent.call(raw.CREATE, raw.create("/fleeting", b"", 1))
    assert (await other.call(raw.EXISTS, raw.watched("/fleeting", True))).error == 0
    event = await other.frame()
    assert (event.xid, event.fields[:4]) == (-1, struct.pack(">i", 2))
    assert await closed(silent)
    gone = await RawClient.connect(server.port, former=silent)
    assert gone.session_id == 0


async def test_pings_keep_a_session(server: OwnServer) -> None:
    client, clock = await RawClient.connect(server.port, timeout_ms=1000), await RawClient.connect(server.port)
    loop = asyncio.get_running_loop()
    until = loop.time() + 2.5
    while loop.time() < until:
        await client.until(client.ask(raw.PING, xid=-2))
        await clock.call(raw.SYNC, raw.text("/"))
    assert (await client.call(raw.EXISTS, raw.watched("/"))).error == 0


async def test_an_unknown_request_is_told_so_and_ends_the_connection(server: OwnServer) -> None:
    client = await RawClient.connect(server.port)
    client.ask(4711)
    assert (await client.frame()).error == -6
    assert await closed(client)


async def test_a_frame_too_long_ends_its_connection(server: OwnServer) -> None:
    for length in (-1, 0x100000, 2**31 - 1):
        client = await RawClient.connect(server.port)
        client.write(struct.pack(">i", length))
        assert await closed(client)


async def test_four_letter_words_answer_as_tools_expect(server: OwnServer) -> None:
    assert await command(server.port, b"ruok") == "imok"
    assert await command(server.port, b"isro") == "rw"
    lines = dict(line.split("\t") for line in (await command(server.port, b"mntr")).splitlines())
    assert lines["zk_server_state"] == "standalone"
    assert int(lines["zk_znode_count"]) >= 4
    stat = await command(server.port, b"stat")
    assert stat.startswith("Zookeeper version: 3.9.")
    assert "\nMode: standalone\nNode count: " in stat
    assert f"clientPort={server.port}\n" in await command(server.port, b"conf")
    client = await RawClient.connect(server.port)
    await client.call(raw.EXISTS, raw.watched("/nowhere", True))
    assert f"sid=0x{client.session_id:x}," in await command(server.port, b"cons")
    assert f"\t0x{client.session_id:x}\n" in await command(server.port, b"dump")
    assert "Total watches:" in await command(server.port, b"wchs")
    assert "host.name=" in await command(server.port, b"envi")
    refused = await command(server.port, b"wchc")
    assert refused == "wchc is not executed because it is not in the whitelist.\n"


async def test_bytes_that_make_no_sense_harm_nobody_but_their_sender(server: OwnServer) -> None:
    """Requests with random bytes, and requests cut or changed anywhere. Another session does not notice."""
    rng, witness = random.Random(7), await RawClient.connect(server.port)
    sound = [
        (raw.CREATE, raw.create("/fuzz", b"data")),
        (raw.MULTI, raw.multi((raw.CREATE, raw.create("/m")), (raw.DELETE, raw.text("/m") + raw.number(-1)))),
        (raw.SET_WATCHES2, struct.pack(">q", 0) + raw.texts(["/a", "/b"]) * 5),
        (raw.SET_ACL, raw.text("/fuzz") + raw.acl(raw.OPEN) + raw.number(-1)),
        (raw.MULTI_READ, raw.multi((raw.GET_DATA, raw.watched("/fuzz")))),
        (raw.AUTH, raw.number(0) + raw.text("digest") + raw.buffer(b"a:b")),
    ]
    for _ in range(FUZZED):
        opcode, fields = rng.choice(sound)
        frame = bytearray(struct.pack(">ii", 1, rng.choice((opcode, opcode, rng.randrange(-12, 110)))) + fields)
        for _ in range(rng.randrange(4)):
            frame[rng.randrange(4, len(frame))] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
        del frame[rng.randrange(4, len(frame) + 1) :]
        if rng.random() < 0.2:
            client = await RawClient.open(server.port)
            client.write(rng.randbytes(rng.randrange(1, 200)))
        else:
            client = await RawClient.connect(server.port)
            client.write_frame(bytes(frame))
            client.ask(raw.PING, xid=-2)
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                await client.until(-2)
        await client.close()
        assert (await witness.call(raw.EXISTS, raw.watched("/"))).error == 0
    assert "Traceback" not in server.log()
    assert psutil.Process(server.pid).memory_info().rss < MEMORY_MAX


async def test_a_client_that_does_not_read_is_not_read_either_and_costs_little(server: OwnServer) -> None:
    client, other = await RawClient.connect(server.port), await RawClient.connect(server.port)
    await other.call(raw.CREATE, raw.create("/large", b"x" * 500_000))
    for _ in range(2_000):
        client.ask(raw.GET_DATA, raw.watched("/large"))
    for _ in range(200):
        assert (await other.call(raw.EXISTS, raw.watched("/large"))).error == 0
    assert psutil.Process(server.pid).memory_info().rss < MEMORY_MAX
    await client.close()


async def test_a_long_list_of_children_comes_whole_and_in_its_place(server: OwnServer) -> None:
    client = await RawClient.connect(server.port)
    await client.call(raw.CREATE, raw.create("/many"))
    xids = [client.ask(raw.CREATE, raw.create(f"/many/{number:05d}")) for number in range(25_000)]
    for xid in xids:
        await client.until(xid)
    listed = client.ask(raw.GET_CHILDREN2, raw.watched("/many", True))
    made = client.ask(raw.CREATE, raw.create("/many/last"))
    (answer,) = await client.until(listed)
    assert struct.unpack_from(">i", answer.fields)[0] == 25_000
    assert struct.unpack_from(">i", answer.fields[-12:])[0] == 25_000
    assert [frame.xid for frame in await client.until(made)] == [-1, made]


@pytest.fixture
def watched_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnServer]:
    """A server whose log says which callbacks take more than 50 ms of CPU."""
    monkeypatch.setenv(CPU_LIMIT_VARIABLE, "50")
    with running(tmp_path, OwnServer) as one:
        yield one


async def test_many_multis_at_once_do_not_hold_the_loop(watched_server: OwnServer) -> None:
    client = await RawClient.connect(watched_server.port)
    os.kill(watched_server.pid, signal.SIGSTOP)  # so that it reads many of them at once
    for group in range(MULTIS):
        paths = [f"/{group}-{number}" for number in range(100)]
        client.ask(raw.MULTI, raw.multi(*((raw.CREATE, raw.create(path)) for path in paths)))
    os.kill(watched_server.pid, signal.SIGCONT)
    for _ in range(MULTIS):
        assert (await client.frame()).error == 0
    watched_server.terminate()  # whose end waits until all callbacks were looked at
    assert "held the event loop" not in watched_server.log()
