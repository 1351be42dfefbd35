"""The limits of the web port: connections, sizes and calls."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The settings of the web port. Each field has the snake_case name of a key in broker.conf, and Apache's default if
    Apache's broker has the key."""

    max_http_server_connections: int = 2048
    """How many connections may be open. Beyond this number a new connection takes the place of an idle connection."""
    http_server_accept_queue_size: int = 8192
    """How many connections may wait in the kernel to be accepted; the kernel refuses further connections. The kernel's
    own bound holds too."""
    http_max_request_header_size: int = 8192
    """The limit of a request's line and headers together, in bytes. A longer request is refused with 431."""
    max_concurrent_http_requests: int = 1024
    """How many calls may be in progress; a further call is refused with 503. Lookups and health checks are counted
    separately, with an equal limit."""
    web_service_request_log_enabled: bool = False
    """Whether every call leaves a line in the log. Apache's broker has no such key and always writes its request
    log."""
