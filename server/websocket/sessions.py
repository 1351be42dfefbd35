"""Which session serves which kind of path."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from magnetar.server.web.calls import Refusal
from magnetar.server.websocket.websocket_path_rules import SocketKind, SocketPath

if TYPE_CHECKING:
    from magnetar.server.websocket.session import Session
    from magnetar.server.websocket.websocket_client import WebSocketClient

MakeSession = Callable[["WebSocketClient", SocketPath, Mapping[str, str]], "Session"]


def _not_yet(client: "WebSocketClient", path: SocketPath, query: Mapping[str, str]) -> "Session":
    raise Refusal(501, f"A {path.kind.value} cannot be opened yet")


SESSIONS: dict[SocketKind, MakeSession] = {
    SocketKind.PRODUCER: _not_yet,
    SocketKind.CONSUMER: _not_yet,
    SocketKind.READER: _not_yet,
}
