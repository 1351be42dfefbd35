"""Nothing is left of WebSockets that have ended, although no collection looks at old objects."""

import gc
import json
import weakref
from pathlib import Path

import aiohttp
import pytest

from magnetar.server.process import left_objects
from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from magnetar.server.websocket.websocket_client import WebSocketClient
from tests.reference_counts import collector_off, living
from tests.server.process.left import Left
from tests.waiting import until

TOPIC = "persistent/public/default/t"
VISITS = 3


async def visit(http: aiohttp.ClientSession, url: str) -> "list[weakref.ref[WebSocketClient]]":
    """Sends a message from a producer to a consumer and a reader. Returns the server's ends, which have become old."""
    async with (
        http.ws_connect(f"{url}/producer/{TOPIC}") as producer,
        http.ws_connect(f"{url}/consumer/{TOPIC}/s") as consumer,
        http.ws_connect(f"{url}/reader/{TOPIC}") as reader,
    ):
        await producer.send_json({"payload": "eA=="})
        await producer.receive()
        for each in (consumer, reader):
            await each.send_json({"messageId": json.loads((await each.receive()).data)["messageId"]})
        ends = list(map(weakref.ref, living(WebSocketClient)))
        gc.freeze()
        return ends


async def test_ended_sockets_leave_no_garbage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = Left()
    monkeypatch.setattr(left_objects, "_current", left)
    server = Standalone(
        StandaloneOptions(tmp_path, broker_port=0, web_port=0, overrides={"webSocketServiceEnabled": "true"})
    )
    await server.start()
    try:
        url = f"ws{server.web_url.removeprefix('http')}/ws/v2"
        async with aiohttp.ClientSession() as http:
            with collector_off():
                ends = [end for _ in range(VISITS) for end in await visit(http, url)]
                assert len(ends) == 3 * VISITS
                await until(lambda: len(left.waiting) >= len(ends))
                was_left = list(map(weakref.ref, left.waiting))

                def are_gone() -> bool:
                    """Gives another look to those that a task or a timer may still have used at the last one."""
                    left.waiting = [each for each in (found() for found in was_left) if each is not None]
                    left.free()
                    return not any(end() for end in ends)

                await until(are_gone)
    finally:
        gc.unfreeze()
        await server.stop()
