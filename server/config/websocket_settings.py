"""How WebSocket clients are served on the web port."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebSocketSettings:
    """The settings of WebSocket clients. The fields are the snake_case of broker.conf's keys, with Apache's defaults
    where Apache has the key."""

    web_socket_service_enabled: bool = True
    """Whether paths below /ws/ are served. Apache's standalone.conf says true, its broker.conf false."""
    web_socket_max_text_frame_size: int = 1_048_576
    """Bytes of a client's text message. A longer one closes its socket with 1009."""
    web_socket_session_idle_timeout_millis: int = 300_000
    """A socket without any traffic for this long is closed. 0 or less means "never"."""
    web_socket_ping_duration_seconds: int = -1
    """The time between two pings of the server, in seconds. 0 or less means "no pings"."""
    web_socket_max_connections: int = 0
    """How many sockets may be open; one more is refused with 503. 0 means half of maxHttpServerConnections, because a
    socket keeps its seat for as long as it is open, and calls need seats too. The key is ours."""
