"""The configuration keys of client connections, as a settings class."""

from dataclasses import dataclass

from pulsar_proto.wire.framing import FRAME_PADDING, MAX_MESSAGE_SIZE


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """What clients may do on their connections. The fields are the snake_case of broker.conf's keys. 0 means "no limit"
    unless the field says otherwise. Raises ValueError for a size or an interval that is not positive."""

    max_message_size: int = MAX_MESSAGE_SIZE
    """Bytes of a message's body."""
    keep_alive_interval_seconds: int = 30
    connection_liveness_check_timeout_millis: int = 5_000
    """How long an old connection has to answer a PING before it is closed in favour of a new one. 0 or less means that
    it counts as alive without being asked."""
    max_pending_publish_requests_per_connection: int = 1_000
    max_message_publish_buffer_size_in_mb: int = 64
    """Published bytes of the whole process that have no receipt yet; 0 or less means "no limit". Java's default is half
    of its direct memory."""
    max_message_dispatch_buffer_size_in_mb: int = 256
    """Output of the whole process that clients have not taken. Beyond it, clients that do not read are cut off. 0 or
    less means "no limit". This key is ours; Java's broker has none."""
    max_concurrent_lookup_request: int = 50_000
    """LOOKUP and PARTITIONED_METADATA of all connections together, with the lookups over HTTP."""
    broker_max_connections: int = 0
    broker_max_connections_per_ip: int = 0
    enable_broker_topic_list_watcher: bool = True
    """Whether clients with a topic pattern are told of topics that come and go. Otherwise they poll."""
    subscription_pattern_max_length: int = 50
    """Characters of a topic pattern that the broker is willing to evaluate."""

    def __post_init__(self) -> None:
        if self.max_message_size <= 0 or self.keep_alive_interval_seconds <= 0:
            raise ValueError("maxMessageSize and keepAliveIntervalSeconds must be positive")

    @property
    def max_frame_size(self) -> int:
        return self.max_message_size + FRAME_PADDING
