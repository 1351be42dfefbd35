"""How a connection of the web port answers bytes of which not all are sound requests, and treats clients that send
nothing."""

import asyncio
import logging
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from magnetar.server.web import http_app as web_app
from magnetar.server.web import http_connection as web_connection
from tests.server.web.web_scene import SECONDS_MAX, Web, running

CLUSTERS = b"GET /admin/v2/clusters HTTP/1.1\r\nHost: here\r\n\r\n"
PUT = b"PUT /admin/v2/tenants/broken HTTP/1.1\r\nHost: here\r\n"
CHUNKED = PUT + b"Transfer-Encoding: chunked\r\n\r\n"


def statuses(said: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d+)", said)]


async def test_a_request_is_answered_though_what_follows_it_is_none(tmp_path: Path) -> None:
    """Node sends the body of a DELETE without its length."""
    async with running(tmp_path) as web:
        path = "/admin/v2/persistent/public/default/gone"
        assert (await web.get(path, "PUT"))[0] == 204
        said = await web.said(f"DELETE {path} HTTP/1.1\r\nHost: here\r\nConnection: keep-alive\r\n\r\n{{}}".encode())
        assert statuses(said) == [204, 400]
        assert (await web.get(f"{path}/stats"))[0] == 404


BROKEN = {
    "a chunk without a size": [CHUNKED + b"zz\r\nhi\r\n0\r\n\r\n"],
    "a later chunk without a size": [CHUNKED, b"2\r\n{}\r\n", b"zz\r\nhi\r\n0\r\n\r\n"],
    "a chunk longer than it says": [CHUNKED + b"2\r\n{}XX0\r\n\r\n"],
    "a chunk of more than 64 bits": [CHUNKED + b"f" * 17 + b"\r\n{}"],
    "a negative chunk": [CHUNKED + b"-2\r\n{}"],
    "a negative chunk on its own": [CHUNKED, b"-2\r\n{}"],
    "two lengths": [PUT + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} "],
    "the same length twice": [PUT + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}"],
    "a length and chunks": [PUT + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"],
    "a negative length": [PUT + b"Content-Length: -2\r\n\r\n{}"],
    "a length with a sign": [PUT + b"Content-Length: +2\r\n\r\n{}"],
    "a length that is a word": [PUT + b"Content-Length: x\r\n\r\n{}"],
    "a length of more than 64 bits": [PUT + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n{}"],
    "an unknown encoding": [PUT + b"Transfer-Encoding: gzip\r\n\r\n{}"],
    "chunks twice": [PUT + b"Transfer-Encoding: chunked, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"],
    "a body that is no gzip": [PUT + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"],
    "a folded header": [PUT + b" folded\r\n\r\n"],
    "a header without a colon": [PUT + b"Content-Length 2\r\n\r\n{}"],
    "a NUL in a header": [PUT + b"X: \x00\r\n\r\n"],
    "another version": [b"GET /admin/v2/clusters HTTP/9.1\r\n\r\n"],
    "TLS": [b"\x16\x03\x01\x02\x00\x01\x00"],
}


async def test_broken_framing_is_refused_at_once_and_nothing_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All deadlines are set so far away that an answer which waited for one would hang the test."""
    for name in ("CALL_SECONDS_MAX", "BODY_SECONDS_MAX"):
        monkeypatch.setattr(web_app, name, 10_000.0)
    async with running(tmp_path) as web:
        got = {kind: statuses(await web.said(*parts)) for kind, parts in BROKEN.items()}
        assert got == {key: [400] for key in BROKEN}
        assert (await web.get("/admin/v2/tenants/broken"))[0] == 404
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_sound_calls_before_a_broken_one_are_answered(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        assert statuses(await web.said(CLUSTERS + CLUSTERS + CHUNKED + b"zz\r\n")) == [200, 200, 400]


async def test_what_is_too_large_is_refused_before_it_has_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_app, "BODY_SECONDS_MAX", 10_000.0)
    get = b"GET /admin/v2/clusters HTTP/1.1\r\n"
    async with running(tmp_path) as web:
        for parts, status in (
            ([PUT + b"Content-Length: 99999999999\r\n\r\n{}"], 413),
            ([CHUNKED + b"200001\r\n" + b"x" * 0x200001], 413),
            ([get + b"X: " + b"x" * 9_000 + b"\r\n\r\n"], 431),
            ([get + b"X: x\r\n" * 5_000], 431),
            ([get.replace(b" HTTP", b"?" + b"x" * 9_000 + b" HTTP")], 431),
        ):
            assert statuses(await web.head(*parts)) == [status], parts[0][:80]


async def test_who_waits_to_be_asked_for_the_body_is_asked(tmp_path: Path) -> None:
    head = b"PUT /admin/v2/tenants/acme HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
    async with running(tmp_path) as web:
        reader, writer = await web.connect()
        writer.write(head + b"Expect: 100-continue\r\n\r\n")
        assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS_MAX) == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"{}")
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), SECONDS_MAX)
        assert answer.startswith(b"HTTP/1.1 4")
        writer.close()


async def test_a_body_shorter_than_said_is_waited_for_in_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_app, "BODY_SECONDS_MAX", 0.05)
    monkeypatch.setattr(web_connection, "LINGER_SECONDS", 0.01)
    async with running(tmp_path) as web:
        assert statuses(await web.said(PUT + b"Content-Length: 20\r\n\r\n{}")) == [408]
        assert statuses(await web.said(CHUNKED + b"2\r\n{}\r\n")) == [408]


async def test_a_client_that_goes_away_inside_its_body_is_no_fault_of_ours(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as web:
        _, writer = await web.connect()
        writer.write(PUT + b"Content-Length: 20\r\n\r\n{}")
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        assert await web.json("/admin/v2/clusters") == ["standalone"]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_who_does_not_send_a_whole_head_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as web:
        await web.get("/status.html")  # from here on the web server is loaded
        monkeypatch.setattr(web_connection, "HEAD_SECONDS_MAX", 0.05)
        assert await web.said() == b""
        assert await web.said(CLUSTERS[:-4]) == b""
        reader, writer = await kept(web)
        writer.write(CLUSTERS[:-4])
        assert await asyncio.wait_for(reader.read(), 60) == b""


async def kept(web: Web) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Returns a connection that has had one call answered and is kept open."""
    reader, writer = await web.connect()
    await ask(reader, writer)
    return reader, writer


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(CLUSTERS)
    assert (await asyncio.wait_for(reader.readuntil(b'["standalone"]'), 60)).startswith(b"HTTP/1.1 200")


async def test_silent_connections_shut_nobody_out_and_go_before_those_that_were_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, maxHttpServerConnections="8") as web:
        real = [await kept(web) for _ in range(3)]
        silent = [await web.connect() for _ in range(40)]
        for reader, _ in silent[:-5]:
            assert await asyncio.wait_for(reader.read(), 60) == b""
        for reader, writer in real:
            await ask(reader, writer)
        await ask(*await kept(web))
    assert "maxHttpServerConnections" in caplog.text


async def test_where_descriptors_are_few_http_connections_leave_half_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_connection, "DESCRIPTORS", SimpleNamespace(limit=8))
    async with running(tmp_path) as web:
        silent = [await web.connect() for _ in range(5)]
        await ask(*await kept(web))
        for reader, _ in silent[:2]:
            assert await asyncio.wait_for(reader.read(), 60) == b""


async def test_where_every_connection_has_a_call_in_progress_a_newcomer_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, maxHttpServerConnections="2") as web:
        busy = []
        for _ in range(2):
            reader, writer = await web.connect()
            writer.write(PUT + b"Content-Length: 2\r\n\r\n{")
            busy.append((reader, writer))
        await writer.drain()
        # The server reads connections in the order in which they came: the newcomers' calls come after both heads.
        while await web.said(CLUSTERS.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")):
            pass
        for reader, writer in busy:
            writer.write(b"}")
            assert statuses(await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)) == [412]
