"""A WebSocket as the package `websockets` opens it, with messages as Python values."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from compat_tests.harness import WAIT_SECONDS, Server

SILENCE_SECONDS = 0.7
"""When nothing came for so long, nothing comes."""

FOLDER = "persistent/public/default"


def socket_url(server: Server, path: str) -> str:
    """`path` is what follows the port."""
    return f"ws{server.web_url.removeprefix('http')}{path}"


def path_of(message_id: str) -> str:
    """Returns a message id as it stands in a query."""
    return quote(message_id, safe="")


class Socket:
    """One open socket. Use it as a context manager; leaving it closes the socket."""

    def __init__(self, server: Server, path: str) -> None:
        """`path` begins with the kind, as "producer/persistent/…". Raises websockets' InvalidStatus when refused."""
        url = socket_url(server, path if path.startswith("/") else f"/ws/v2/{path}")
        self._stack = ExitStack()
        self.connection = self._stack.enter_context(
            connect(url, max_size=None, compression=None, open_timeout=WAIT_SECONDS, close_timeout=5)
        )

    def say(self, message: Mapping[str, object]) -> None:
        self.connection.send(json.dumps(message))

    def hear(self, seconds: float = WAIT_SECONDS) -> dict[str, Any]:
        """Returns the next message. Raises TimeoutError, and ConnectionClosed when the server closed the socket."""
        message: dict[str, Any] = json.loads(self.connection.recv(timeout=seconds))
        return message

    def ask(self, message: Mapping[str, object]) -> dict[str, Any]:
        self.say(message)
        return self.hear()

    def publish(self, payload: bytes, **more: object) -> str:
        """Publishes one message and returns its id."""
        answer = self.ask({"payload": b64encode(payload).decode(), **more})
        assert answer["result"] == "ok", answer
        message_id: str = answer["messageId"]
        return message_id

    def take(self) -> bytes:
        """Returns the payload of the next message, acknowledged."""
        message = self.hear()
        self.say({"messageId": message["messageId"]})
        return b64decode(message["payload"])

    def hears_nothing(self) -> bool:
        try:
            message = self.hear(SILENCE_SECONDS)
        except TimeoutError:
            return True
        raise AssertionError(f"nothing was to come, but {message}")

    def is_closed_by_the_server(self) -> bool:
        """Waits until the server closes the socket."""
        try:
            while True:
                self.hear()
        except ConnectionClosed:
            return True

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
