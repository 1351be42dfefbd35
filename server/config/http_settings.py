"""What the web port may hold and do at once."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebSettings:
    """Names and defaults are broker.conf's where Apache has them."""

    max_http_server_connections: int = 2048
    """At the bound a new connection takes the place of one that is idle: see `seats`."""
    http_server_accept_queue_size: int = 8192
    """Connections that the kernel holds for us before it refuses; the kernel has a bound of its own."""
    http_max_request_header_size: int = 8192
    """Bytes of a request's line and headers; more is refused with 431."""
    max_concurrent_http_requests: int = 1024
    """Calls in progress; one more is refused with 503. Lookups and health checks have as many for themselves."""
    web_service_request_log_enabled: bool = False
    """Ours: every call leaves a line in the log. Apache always writes its request log."""
