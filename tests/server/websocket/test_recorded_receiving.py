"""What Apache Pulsar 4.0.7 was recorded to say to consumers and readers is what they hear here.

Message ids, which Apache made, are translated by the order of the messages. Differences are listed in `DIFFERENT`.
"""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.server.websocket.receiving_scene import Receiver, receiving

RECORDED = "ws-1795354149"
VECTORS = Path(__file__).parents[2] / "vectors" / "websocket_exchanges.json"
SOCKETS = [each for each in json.loads(VECTORS.read_text())["sockets"] if "/producer/" not in each["url"]]

APACHE_IDS = ["CBQQADAA", "CBQQATAA", "CBQQAjAA", "CBQQAzAA"]
"""Of the messages that the recording's producer published."""

DIFFERENT = {
    "messageId=rubbish": 400,  # Apache: 500
    "/ws/v3/consumer/v3sub": 400,  # Apache: 500
}
"""The status with which a socket is refused, where it is not Apache's."""


async def say_what_was_said(socket: Receiver, log: list[list[str]], ids: dict[str, str]) -> None:
    for who, text in log:
        if who == "note":
            assert (await socket.end())[0] == 1007  # Apache: 3, which is no legal code
        elif who == "client":
            await socket.say(text if text == "rubbish" else _translated(json.loads(text), ids))
        elif text == "nothing":
            await socket.gets_nothing_now()
        else:
            expected, heard = _translated(json.loads(text), ids), await socket.heard()
            assert heard.pop("publishTime", None) is not None or "publishTime" not in expected
            expected.pop("publishTime", None)
            assert list(heard) == list(expected)
            assert heard == expected


def _translated(value: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    return value | {"messageId": ids[value["messageId"]]} if "messageId" in value else value


@pytest.mark.parametrize("at", range(len(SOCKETS)), ids=[each["url"] for each in SOCKETS])
async def test_the_recorded_exchange(tmp_path: Path, at: int) -> None:
    recorded = SOCKETS[at]
    topic = f"persistent/public/default/{RECORDED}"
    path = recorded["url"].removeprefix("/ws/")
    async with receiving(tmp_path) as scene:
        await scene.publish([b"hello"], topic, partition_key="k", event_time=1_795_341_600_000, properties={"a": "1"})
        await scene.publish([b"plain", b"y", b""], topic)
        async with scene.open(f"v2/reader/{topic}?messageId=earliest") as reader:
            ours = [(await reader.heard())["messageId"] for _ in APACHE_IDS]
        ids = dict(zip(APACHE_IDS, ours, strict=True))
        for apaches, other in ids.items():
            path = path.replace(apaches, other)
        if "refused" not in recorded:
            async with scene.open(path) as socket:
                await say_what_was_said(socket, recorded["log"], ids)
            return
        expected = next((status for end, status in DIFFERENT.items() if recorded["url"].endswith(end)), 0)
        async with AsyncExitStack() as stack:
            if recorded["refused"] == "409":
                first = await stack.enter_async_context(scene.open(path))
                listening = asyncio.create_task(first.end())  # it answers the ping that asks whether it lives
                stack.callback(listening.cancel)
            status, _ = await scene.refused(path)
            assert status == (expected or int(recorded["refused"]))
