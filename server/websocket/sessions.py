"""Which session serves which kind of path."""

from collections.abc import Mapping

from magnetar.server.web.calls import Refusal
from magnetar.server.websocket.consumer_session import ConsumerSession
from magnetar.server.websocket.reader_session import ReaderSession
from magnetar.server.websocket.session import MakeSession, Session
from magnetar.server.websocket.websocket_client import WebSocketClient
from magnetar.server.websocket.websocket_path_rules import SocketKind, SocketPath


def _not_yet(client: WebSocketClient, path: SocketPath, query: Mapping[str, str]) -> Session:
    raise Refusal(501, f"A {path.kind.value} cannot be opened yet")


SESSIONS: dict[SocketKind, MakeSession] = {
    SocketKind.PRODUCER: _not_yet,
    SocketKind.CONSUMER: ConsumerSession,
    SocketKind.READER: ReaderSession,
}
