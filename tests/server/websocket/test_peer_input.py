"""What comes from a peer goes to its session in groups, waits while the socket is throttled, and ends as RFC 6455
says."""

import asyncio
from collections.abc import Sequence
from unittest.mock import Mock

import aiohttp

from magnetar.server.process.byte_budget import ByteBudget
from magnetar.server.websocket import peer_input
from magnetar.server.websocket.peer_input import PeerInput
from tests.server.websocket.client_frames import frame
from tests.server.websocket.echo_scene import SECONDS_MAX, Echo, scene
from tests.server.websocket.raw_socket import raw_socket
from tests.waiting import until


async def test_frames_that_come_with_the_handshake_are_answered() -> None:
    async with scene() as made, raw_socket(made.url, frame(1, b"early") + frame(9, b"ping")) as socket:
        assert await socket.read(6) == b"\x8a\x04ping"
        assert await socket.read(7) == b"\x81\x05early"


async def test_all_texts_of_one_read_come_as_one_group_and_a_long_group_in_portions() -> None:
    groups: list[int] = []

    def prepare(echo: Echo) -> None:
        take = echo.on_texts

        def counted(texts: Sequence[bytearray]) -> int:
            groups.append(len(texts))
            return take(texts)

        echo.on_texts = counted  # type: ignore[method-assign]

    async with scene() as made:
        made.prepare = prepare
        many = peer_input.TEXTS_A_STEP + 5
        async with raw_socket(made.url, frame(1, b"x") * many) as socket:
            assert await socket.read(3 * many) == b"\x81\x01x" * many
        assert sum(groups) == many
        assert max(groups) <= peer_input.TEXTS_A_STEP


async def test_texts_that_a_session_did_not_take_come_again_when_it_is_released() -> None:
    def prepare(echo: Echo) -> None:
        def one_by_one(texts: Sequence[bytearray]) -> int:
            echo.events.append(texts[0].decode())
            echo.client.throttle_reading(echo)
            return 1

        echo.on_texts = one_by_one  # type: ignore[method-assign]

    async with scene() as made:
        made.prepare = prepare
        async with raw_socket(made.url, frame(1, b"a") + frame(1, b"b") + frame(8, b"")) as socket:
            await until(lambda: bool(made.sessions) and "a" in made.sessions[0].events)
            echo = made.sessions[0]
            echo.client.release_reading(echo)
            await until(lambda: "b" in echo.events)
            assert await socket.rest() == b"\x88\x00"
            assert echo.events == ["open", "started", "a", "b", "closed"]


async def test_the_peers_close_frame_is_answered_with_its_code_after_the_answers_to_its_texts() -> None:
    async with scene() as made, raw_socket(made.url) as socket:
        socket.writer.write(frame(1, b"last") + frame(8, b"\x0f\xa0bye"))
        assert await socket.rest() == b"\x81\x04last\x88\x02\x0f\xa0"
        await until(lambda: made.sessions[0].events[-1] == "closed")


async def test_a_peer_that_breaks_the_protocol_is_told_and_left() -> None:
    async with scene() as made, raw_socket(made.url) as socket:
        socket.writer.write(b"\x81\x02{}" + frame(1, b"x") * 1000)
        told = await socket.rest()
        assert told[:1] == b"\x88"
        assert told[2:4] == (1002).to_bytes(2, "big")
        assert b"not masked" in told
        assert "closed" in made.sessions[0].events
        assert made.service.sockets == []


async def test_a_socket_that_is_closed_by_the_server_waits_for_the_peers_close_frame() -> None:
    async with scene() as made, raw_socket(made.url) as socket:
        await until(lambda: bool(made.sessions) and "started" in made.sessions[0].events)
        made.sessions[0].client.close("planted", 1001)
        assert await socket.read(4 + len("planted")) == b"\x88\x09" + (1001).to_bytes(2, "big") + b"planted"
        socket.writer.write(frame(1, b"late") + frame(8, (1001).to_bytes(2, "big")))
        assert await socket.rest() == b""
        assert "late" not in made.sessions[0].events


async def test_a_peer_that_sends_much_while_it_is_throttled_is_not_read() -> None:
    async with scene() as made, made.connect() as socket:
        await until(lambda: bool(made.sessions) and "started" in made.sessions[0].events)
        echo = made.sessions[0]
        echo.client.throttle_reading("one")
        count = 200
        sending = asyncio.ensure_future(send_large(socket, count))
        await until(lambda: echo.client.input._is_paused)
        assert echo.client.input._waiting_bytes < 2 * peer_input.WAITING_BYTES_HIGH + 1_000_000
        assert not sending.done()
        echo.client.release_reading("one")
        for _ in range(count):
            assert len(await socket.receive_str(timeout=SECONDS_MAX)) == 100_000
        await sending


async def test_a_peer_that_is_not_read_from_does_not_count_as_one_that_stopped_in_its_message() -> None:
    owner, connection, budget = Mock(), Mock(), ByteBudget(0, lambda: 0.0)
    owner.on_texts = len
    bytes_in = PeerInput(owner, connection, 1_000_000, budget)
    later_s = asyncio.get_running_loop().time() + 1000
    bytes_in.throttle("one")
    large = frame(1, b"x" * 200_000)
    bytes_in.feed_data(large * 2 + large[:1_000])
    assert connection.pause_reading.called
    assert (bytes_in.held_bytes, bytes_in.idle_since(later_s)) == (1_000, later_s)
    bytes_in.release("one")
    await until(lambda: connection.resume_reading.called)
    assert bytes_in.held_bytes == 1_000
    assert bytes_in.idle_since(later_s) < later_s


async def send_large(socket: aiohttp.ClientWebSocketResponse, count: int) -> None:
    for _ in range(count):
        await socket.send_str("x" * 100_000)
