"""How much the web port may hold and do at once."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The settings of the web port. The fields are the snake_case of broker.conf's keys, with Apache's defaults where
    Apache has the key."""

    max_http_server_connections: int = 2048
    """When so many are open, a new connection takes the place of an idle one (see `magnetar.server.web.seat_rules`)."""
    http_server_accept_queue_size: int = 8192
    """How many connections wait in the kernel to be accepted before it refuses more. The kernel's own bound holds
    too."""
    http_max_request_header_size: int = 8192
    """Bytes of a request's line and headers. A longer request is refused with 431."""
    max_concurrent_http_requests: int = 1024
    """How many calls may be in progress; one more is refused with 503. Lookups and health checks are counted
    separately, with the same limit."""
    web_service_request_log_enabled: bool = False
    """Whether every call leaves a line in the log. The key is ours: Apache always writes its request log."""
