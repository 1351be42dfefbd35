"""Requests for a socket are refused as HTTP answers that name the reason."""

from pathlib import Path

import pytest

from tests.server.websocket.websocket_scene import sockets


async def test_what_leads_to_no_socket_is_refused(tmp_path: Path) -> None:
    async with sockets(tmp_path) as scene:
        assert (await scene.refused("nope/persistent/public/default/x"))[0] == 404
        status, reason = await scene.refused("producer/persistent/public/default")
        assert (status, reason[:48]) == (400, "Invalid query params: Invalid topic name format:")
        path = "/ws/v2/producer/persistent/public/default/x"
        assert (await scene.web.get(path))[0] == 426
        assert (await scene.web.call("POST", path))[0] == 405
        assert (await scene.refused("producer/persistent/public/default/x", {"Sec-WebSocket-Key": "x"}))[0] == 400
        assert (await scene.refused("producer/persistent/public/default/x", {"Sec-WebSocket-Version": "1"}))[0] == 400


async def test_a_key_that_is_none_and_subprotocols_of_others_are_no_fault_of_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with sockets(tmp_path) as scene:
        path = "producer/persistent/public/default/x"
        assert (await scene.refused(path, {"Sec-WebSocket-Key": "\u00e9" * 24}))[0] == 400
        asks = {"Sec-WebSocket-Version": "1", "Sec-WebSocket-Protocol": "token.secret"}
        assert (await scene.refused(path, asks))[0] == 400
    assert "secret" not in caplog.text
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_the_service_can_be_switched_off(tmp_path: Path) -> None:
    async with sockets(tmp_path, webSocketServiceEnabled="false") as scene:
        status, reason = await scene.refused("producer/persistent/public/default/x")
        assert (status, "not enabled" in reason) == (404, True)
