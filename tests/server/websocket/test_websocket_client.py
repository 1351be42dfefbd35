"""What one socket may do and what becomes of it: limits, time-outs, back-pressure, ends. The session is the test's."""

import asyncio
import logging

import aiohttp
import pytest

from magnetar.server.websocket import websocket_client
from magnetar.server.websocket.websocket_client import WebSocketClient
from pulsar_proto.errors import NotAllowed
from pulsar_proto.wire.commands import success_frame
from tests.server.websocket.echo_scene import SECONDS_MAX, Echo, scene
from tests.waiting import until


async def ended(socket: aiohttp.ClientWebSocketResponse) -> tuple[int | None, str]:
    """Code and reason of the close frame, after whatever else came."""
    while (message := await socket.receive(timeout=SECONDS_MAX)).type is aiohttp.WSMsgType.TEXT:
        pass
    return socket.close_code, str(message.extra or "")


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 1_048_576])
async def test_texts_of_every_length_go_both_ways(size: int) -> None:
    async with scene() as made, made.connect(max_msg_size=0) as socket:
        await socket.send_str("x" * size)
        assert await socket.receive_str(timeout=SECONDS_MAX) == "x" * size


async def test_a_text_that_is_too_long_closes_the_socket() -> None:
    async with scene(web_socket_max_text_frame_size=1024) as made:
        async with made.connect() as socket:
            await socket.send_str("x" * 1024)
            assert len(await socket.receive_str()) == 1024
            await socket.send_str("x" * 1025)
            assert (await ended(socket))[0] == 1009
        await until(lambda: made.sessions[0].events[-1] == "closed")


async def test_binary_messages_close_the_socket() -> None:
    async with scene() as made, made.connect() as socket:
        await socket.send_bytes(b"{}")
        code, reason = await ended(socket)
        assert (code, "send JSON as text" in reason) == (1003, True)


async def test_an_idle_socket_is_closed_and_a_busy_one_is_not() -> None:
    idle_millis = {"web_socket_session_idle_timeout_millis": 400}
    async with scene(**idle_millis) as made, made.connect() as busy, made.connect() as idle:
        ending = asyncio.ensure_future(ended(idle))
        while not ending.done():
            await busy.send_str("x")
            assert await busy.receive_str() == "x"
        code, reason = ending.result()
        assert (code, "webSocketSessionIdleTimeoutMillis" in reason) == (1001, True)
        assert made.service.sockets == [made.sessions[0].client]


async def test_pings_come_with_their_payload_and_do_not_keep_a_silent_peer(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"web_socket_ping_duration_seconds": 1, "web_socket_session_idle_timeout_millis": 1800}
    async with scene(**settings) as made, made.connect(autoping=False) as socket:
        message = await socket.receive(timeout=SECONDS_MAX)
        assert (message.type, bytes(message.data)) == (aiohttp.WSMsgType.PING, b"PING")
        assert (await ended(socket))[0] == 1001


async def test_pongs_keep_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"web_socket_ping_duration_seconds": 1, "web_socket_session_idle_timeout_millis": 1800}
    async with scene(**settings) as made, made.connect(autoping=False) as socket:
        for _ in range(3):
            message = await socket.receive(timeout=SECONDS_MAX)
            assert message.type is aiohttp.WSMsgType.PING
            await socket.pong(message.data)


async def test_there_is_a_bound_on_sockets_and_an_end_makes_room() -> None:
    async with scene(web_socket_max_connections=2) as made, made.connect(), made.connect() as second:
        status, reason = await made.refused()
        assert (status, "webSocketMaxConnections" in reason) == (503, True)
        await second.close()
        await until(lambda: len(made.service.sockets) == 1)
        async with made.connect():
            pass


async def test_a_peer_that_does_not_read_is_not_read_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for long answers and takes none: the server stops reading, and what waits is bounded."""
    monkeypatch.setattr(websocket_client, "OUTPUT_HIGH_WATER_BYTES", 100_000)
    monkeypatch.setattr(websocket_client, "OUTPUT_LOW_WATER_BYTES", 50_000)
    heard = 0

    def prepare(echo: Echo) -> None:
        def answer(text: str) -> None:
            nonlocal heard
            heard += 1
            echo.client.say(b"y" * 10_000)

        echo.answer = answer

    async with scene() as made:
        made.prepare = prepare
        async with made.connect(max_msg_size=0) as socket:
            asked = 3_000
            sending = asyncio.ensure_future(send_all(socket, asked))
            await until(lambda: bool(made.sessions) and not made.sessions[0].client.is_writable)
            client = made.sessions[0].client
            seen = -1
            while seen != heard:  # until it stands still
                seen = heard
                for _ in range(200):
                    await asyncio.sleep(0)
            assert heard < asked
            assert client.unsent_bytes < 5_000_000
            for _ in range(asked):
                assert len(await socket.receive_str(timeout=SECONDS_MAX)) == 10_000
            await sending
            await until(lambda: client.is_writable)


async def send_all(socket: aiohttp.ClientWebSocketResponse, count: int) -> None:
    for _ in range(count):
        await socket.send_str("x")


async def test_a_peer_that_takes_nothing_for_long_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene() as made, made.connect() as socket:
        await socket.send_str("x")
        await socket.receive_str()
        client = made.sessions[0].client
        now_s = float(round(asyncio.get_running_loop().time()))  # sums and differences of whole seconds are exact
        monkeypatch.setattr(WebSocketClient, "unsent_bytes", 5)
        client.tick(now_s)
        client.tick(now_s + websocket_client.STUCK_SECONDS_MAX)
        assert client.is_open
        client.tick(now_s + websocket_client.STUCK_SECONDS_MAX + 1)
        assert not client.is_open
        assert (await ended(socket))[0] == 1006


async def test_a_throttled_socket_is_not_read_until_every_reason_is_gone() -> None:
    async with scene() as made, made.connect() as socket:
        await socket.send_str("a")
        assert await socket.receive_str() == "a"
        client = made.sessions[0].client
        client.throttle_reading("one")
        client.throttle_reading("two")
        for text in "bcd":
            await socket.send_str(text)
        hearing = asyncio.ensure_future(socket.receive_str(timeout=SECONDS_MAX))
        assert await client.check_liveness()  # the peer answers the ping, so it has sent everything before
        client.release_reading("one")
        assert await client.check_liveness()
        assert "b" not in made.sessions[0].events
        client.release_reading("two")
        heard = [await hearing] + [await socket.receive_str(timeout=SECONDS_MAX) for _ in range(2)]
        assert heard == ["b", "c", "d"]


async def test_the_end_of_a_throttled_socket_is_noticed() -> None:
    async with scene() as made:
        async with made.connect() as socket:
            await until(lambda: "started" in made.sessions[0].events)
            made.sessions[0].client.throttle_reading("one")
            await socket.close()
        await until(lambda: made.sessions[0].events[-1] == "closed")
        assert made.service.sockets == []


async def test_frames_of_topics_come_to_the_session_after_the_call_that_wrote_them() -> None:
    async with scene() as made, made.connect() as socket:
        await until(lambda: bool(made.sessions) and "started" in made.sessions[0].events)
        echo = made.sessions[0]
        frame = success_frame(7)
        echo.client.write(frame)
        echo.client.write_frames([frame[:5], frame[5:], frame])
        echo.client.close_producer(3)
        assert "SUCCESS" not in echo.events
        await socket.send_str("x")
        await socket.receive_str()
        await until(lambda: "CLOSE_PRODUCER" in echo.events)
        assert [event for event in echo.events if event.isupper()] == ["SUCCESS"] * 3 + ["CLOSE_PRODUCER"]


async def test_a_fault_of_a_session_ends_its_socket_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    async with scene() as made, made.connect() as other, made.connect() as socket:
        await until(lambda: len(made.sessions) == 2)

        def fail(text: str) -> None:
            raise RuntimeError("planted")

        made.sessions[1].answer = fail
        with caplog.at_level(logging.CRITICAL):
            await socket.send_str("x")
            assert (await ended(socket))[0] == 1011
        await other.send_str("x")
        assert await other.receive_str() == "x"
        assert made.sessions[1].events[-1] == "closed"


async def test_a_session_that_cannot_be_opened_is_closed_and_refused() -> None:
    async with scene() as made:

        def prepare(echo: Echo) -> None:
            echo.fault = NotAllowed("planted")

        made.prepare = prepare
        assert await made.refused() == (405, "Failed to create producer: planted")
        assert made.sessions[0].events == ["open", "closed"]
        assert made.service.sockets == []


async def test_a_peer_that_leaves_while_its_socket_is_opened_leaves_nothing_behind() -> None:
    gate = asyncio.Event()
    async with scene() as made:

        def prepare(echo: Echo) -> None:
            echo.gate = gate

        made.prepare = prepare
        connecting = asyncio.ensure_future(made.http.ws_connect(made.url))
        await until(lambda: bool(made.sessions and made.sessions[0].events))
        connecting.cancel()
        await asyncio.gather(connecting, return_exceptions=True)
        gate.set()
        await until(lambda: made.sessions[0].events[-1] == "closed")
        await until(lambda: made.service.sockets == [])


async def test_the_end_of_the_server_is_told() -> None:
    async with scene() as made, made.connect() as socket:
        await until(lambda: bool(made.sessions) and "started" in made.sessions[0].events)
        closing = asyncio.ensure_future(made.listener.close())
        assert await ended(socket) == (1001, "the server stops")
        await closing
        assert made.sessions[0].events[-1] == "closed"


async def test_a_peer_that_answers_no_ping_fails_the_liveness_check() -> None:
    async with scene() as made, made.connect(autoping=False) as socket:
        await until(lambda: bool(made.sessions) and "started" in made.sessions[0].events)
        client = made.sessions[0].client
        object.__setattr__(client.broker.limits, "connection_liveness_check_timeout_millis", 50)
        assert not await client.check_liveness()
        assert (await socket.receive(timeout=SECONDS_MAX)).type is aiohttp.WSMsgType.PING
        assert (await ended(socket))[0] == 1006
