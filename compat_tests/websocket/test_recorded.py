"""What Apache 4.0.7 was recorded to say over WebSockets (`tests/vectors/websocket_exchanges.json`), asked again."""

import json
import re
import uuid
from pathlib import Path
from typing import Any

from websockets.exceptions import ConnectionClosed, InvalidStatus

from compat_tests.harness import Server
from compat_tests.websocket.socket_client import SILENCE_SECONDS, Socket, path_of

VECTORS = Path(__file__).parents[2] / "tests" / "vectors" / "websocket_exchanges.json"
RECORDED_TOPIC = "ws-1795354149"
RECORDED_ID = re.compile(r"CBQQA.AA")
PUBLISH_TIME = re.compile(r"2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?Z")

OUR_STATUS = {
    "/ws/v2/producer/persistent/public/default": 400,
    "/ws/v2/reader/persistent/public/default/TOPIC?messageId=rubbish": 400,
    "/ws/v3/consumer/v3sub": 400,
}
"""Apache answers these with 500; `compat_tests/NOTES.md` has the reasons."""


class Replay:
    """Asks for one recorded socket after another, with the names of this run in place of the recorded ones."""

    def __init__(self, server: Server, *, is_peer: bool) -> None:
        self._server = server
        self._is_peer = is_peer
        self._topic = f"recorded-{uuid.uuid4().hex[:8]}"
        self._ids: dict[str, str] = {}
        """Recorded message id → the id of the same message here."""
        self._open: list[Socket] = []
        self.differences: list[str] = []

    def replay(self, recorded: dict[str, Any]) -> None:
        place = recorded["url"].replace(RECORDED_TOPIC, "TOPIC")
        url = RECORDED_ID.sub(lambda found: path_of(self._ids[found[0]]), recorded["url"])
        try:
            socket = Socket(self._server, url.replace(RECORDED_TOPIC, self._topic))
        except InvalidStatus as refusal:
            expected = int(recorded.get("refused", 101))
            if not self._is_peer:
                expected = OUR_STATUS.get(place, expected)
            if refusal.response.status_code != expected:
                self.differences.append(f"{place}: {refusal.response.status_code}, not {expected}")
            return
        self._open.append(socket)
        if "refused" in recorded:
            self.differences.append(f"{place}: opened, not {recorded['refused']}")
            return
        for number, (who, text) in enumerate(recorded["log"]):
            said = self._said(socket, who, text)
            if said is not None:
                self.differences.append(f"{place}, line {number}: {said}, not {text}")

    def close(self) -> None:
        for each in self._open:
            each.close()

    def _said(self, socket: Socket, who: str, text: str) -> object:
        """Does one line of the record; returns what was said instead, None when it was the same."""
        if who == "client":
            socket.connection.send(RECORDED_ID.sub(lambda found: self._ids[found[0]], text))
            return None
        try:
            heard = socket.hear(SILENCE_SECONDS if text == "nothing" else 10)
        except TimeoutError:
            return None if text == "nothing" else "nothing"
        except ConnectionClosed as end:
            return None if text.startswith("closed") else f"closed {end.rcvd}"
        if text == "nothing" or text.startswith("closed"):
            return heard
        recorded = json.loads(text)
        return None if self._comparable(heard) == self._expected(recorded, heard) else heard

    def _comparable(self, message: dict[str, Any]) -> dict[str, Any]:
        """The message without what no two runs have in common. The words of an error are ours."""
        plain = {**message, "errorMsg": bool(message["errorMsg"])} if "errorMsg" in message else dict(message)
        if "publishTime" in plain:
            plain["publishTime"] = bool(PUBLISH_TIME.fullmatch(plain["publishTime"]))
        return plain

    def _expected(self, recorded: dict[str, Any], heard: dict[str, Any]) -> dict[str, Any]:
        if "messageId" in recorded:
            here = self._ids.setdefault(recorded["messageId"], heard.get("messageId", ""))
            recorded = {**recorded, "messageId": here}
        return self._comparable(recorded)


def test_a_server_says_what_apache_was_recorded_to_say(server: Server, is_peer: bool) -> None:
    replay = Replay(server, is_peer=is_peer)
    try:
        for recorded in json.loads(VECTORS.read_text())["sockets"]:
            replay.replay(recorded)
    finally:
        replay.close()
    assert replay.differences == []
