"""The settings with which WebSocket clients are served on the web port."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebSocketSettings:
    """The settings of WebSocket clients. Each field has the snake_case name of a key in broker.conf, and Apache's
    default if Apache's broker has the key."""

    web_socket_service_enabled: bool = True
    """Whether paths below /ws/ are served. The value is true in Apache's standalone.conf and false in Apache's
    broker.conf."""
    web_socket_max_text_frame_size: int = 1_048_576
    """The longest text message of a client, in bytes. A longer message closes the client's socket with 1009."""
    web_socket_session_idle_timeout_millis: int = 300_000
    """A socket without any traffic for this many milliseconds is closed. 0 or less means "never"."""
    web_socket_ping_duration_seconds: int = -1
    """The time between two pings of the server, in seconds. 0 or less means "no pings"."""
    web_socket_max_connections: int = 0
    """How many WebSockets may be open; a further one is refused with 503. 0 means half of maxHttpServerConnections, so
    that WebSockets, which stay open for long, leave connections for HTTP calls. Apache has no such key."""
