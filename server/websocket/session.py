"""The interface of a session, which publishes, consumes or reads for one WebSocket client.

A session is a class whose constructor takes the `WebSocketClient`, the `SocketPath` and the query parameters, and
raises QueryFault for parameters that make no sense. `sessions.py` says which class serves which kind of path.

The life of a session, in this order:

1. `open()`, before the upgrade. The session asks `client.authorize(...)` first, for every topic, and then attaches its
   producers or consumers to the topics, with the client as their `ClientConnection`. An error that `open()` raises
   becomes an HTTP answer.
2. `started()`, when the upgrade was answered. Consumers get their first permits here, not before.
3. `on_texts()` for the texts of the peer, all of one read together, and `on_command()` for each frame that the topic's
   code wrote for this client: SEND_ERROR, CLOSE_PRODUCER, MESSAGE, CLOSE_CONSUMER, ACTIVE_CONSUMER_CHANGE,
   REACHED_END_OF_TOPIC. Receipts come by calls to the session's producers
   (`server/topics/publishing/receipt_writers.py`), not as frames. Frames are never handed over from inside of the call
   that wrote them, but soon after it, in their order.
   `tick()` comes about once a second.
4. `closed()`, at least once and in any case, also after an `open()` that failed. The session removes its producers and
   consumers from all topics.

A session answers with `client.say(json)`, stops reading from its peer with `client.throttle_reading(key)`, and ends the
socket with `client.close(reason, code)`. An error that a session raises closes the session's socket and no other.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from magnetar.server.websocket.websocket_path_rules import SocketPath
from pulsar_proto.pb import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.server.websocket.websocket_client import WebSocketClient


class Session(Protocol):
    """One session; the module's docstring describes its life. All methods are called on the event loop's thread."""

    async def open(self) -> None:
        """Attaches the session to its topics. Raises QueryFault and PulsarError. The method runs to its end even if the
        peer leaves meanwhile; `closed` is then called once more, after `open`."""

    def started(self) -> None: ...

    def on_texts(self, texts: Sequence[bytearray]) -> int:
        """Handles texts in their order, and returns how many: all of them, or fewer when the session throttles the
        client meanwhile. The others come again when the client is released. Raises NotUtf8Error for a text that is not
        UTF-8."""

    def on_command(self, command: pb.BaseCommand, payload: bytes | None) -> None:
        """Handles a command that a topic's code wrote. `payload` is the rest of the frame: for MESSAGE the stored
        payload from its checksum on."""

    def tick(self, now_s: float) -> None:
        """Called about once a second; `now_s` is the event loop's time."""

    def closed(self) -> None: ...


MakeSession = Callable[["WebSocketClient", SocketPath, Mapping[str, str]], Session]
"""The constructor of a session class."""
