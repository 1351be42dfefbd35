"""The bound on all messages that have come only in part: sockets that stopped first are closed, others go on."""

import asyncio
import contextlib
from pathlib import Path

from tests.server.websocket.client_frames import frame
from tests.server.websocket.raw_socket import RawSocket, raw_socket
from tests.server.websocket.websocket_scene import SECONDS_MAX, TOPIC, sockets

TEXT, CONTINUATION, PING = 1, 0, 9
PART = b'{"payload":"' + b"A" * 500_000
"""Two of them fit into 1 MiB, three do not."""


async def begin_message(socket: RawSocket) -> None:
    """Sends the first part of a message, and returns when the server has read the part."""
    socket.writer.write(frame(TEXT, PART, final=False) + frame(PING, b"?"))
    assert await socket.read(3) == b"\x8a\x01?"


async def finish_message(socket: RawSocket) -> bytes:
    """Sends the rest of the message, and returns the beginning of the server's answer."""
    socket.writer.write(frame(CONTINUATION, b'AAAA"}'))
    async with asyncio.timeout(SECONDS_MAX):
        return (await socket.read(40))[2:]


async def test_the_socket_that_stopped_first_in_its_message_is_closed_when_all_take_too_much(tmp_path: Path) -> None:
    async with sockets(tmp_path, maxMessagePublishBufferSizeInMB="1") as scene:
        url = scene.url(f"producer/{TOPIC}")
        async with raw_socket(url) as first, raw_socket(url) as second, raw_socket(url) as third:
            for each in (first, second, third):
                await begin_message(each)
            with contextlib.suppress(ConnectionResetError):
                assert await first.rest() == b""
            for each in (second, third):
                assert (await finish_message(each)).startswith(b'{"result":"ok"')
