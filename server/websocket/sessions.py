"""Chooses the session class for each kind of path."""

from magnetar.server.websocket.consumer_session import ConsumerSession
from magnetar.server.websocket.producer_session import ProducerSession
from magnetar.server.websocket.reader_session import ReaderSession
from magnetar.server.websocket.session import MakeSession
from magnetar.server.websocket.websocket_path_rules import SocketKind

SESSIONS: dict[SocketKind, MakeSession] = {
    SocketKind.PRODUCER: ProducerSession,
    SocketKind.CONSUMER: ConsumerSession,
    SocketKind.READER: ReaderSession,
}
