"""The configuration keys of client connections, as a settings class."""

from dataclasses import dataclass

from pulsar_proto.wire.framing import FRAME_PADDING, MAX_MESSAGE_SIZE


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """The limits of client connections. Each field has the snake_case name of a key in broker.conf. 0 means "no limit"
    unless the field says otherwise. Raises ValueError for a size or an interval that is not positive."""

    max_message_size: int = MAX_MESSAGE_SIZE
    """The largest body of a message, in bytes."""
    keep_alive_interval_seconds: int = 30
    """The interval between two PINGs to a client. A client that has not answered by the next PING is disconnected."""
    connection_liveness_check_timeout_millis: int = 5_000
    """The time in ms in which an old connection must answer a PING, or it is closed in favour of a new connection. With
    0 or less the old connection counts as alive without a PING."""
    max_pending_publish_requests_per_connection: int = 1_000
    """How many messages of one connection may be without a receipt. Beyond this number the broker reads no more from
    the connection until receipts are sent."""
    max_message_publish_buffer_size_in_mb: int = 64
    """The limit of published data without a receipt, for the whole process; 0 or less means "no limit". The default of
    Apache's broker is half of Java's direct memory."""
    max_message_dispatch_buffer_size_in_mb: int = 256
    """The limit of output that clients have not taken, for the whole process. Beyond this limit, clients that do not
    read are disconnected. 0 or less means "no limit". Apache's broker has no such key."""
    max_concurrent_lookup_request: int = 50_000
    """How many LOOKUP, PARTITIONED_METADATA, GET_TOPICS_OF_NAMESPACE and WATCH_TOPIC_LIST requests of all connections,
    and lookups over HTTP, may be in progress."""
    broker_max_connections: int = 0
    """How many client connections the broker holds. A further connection is refused."""
    broker_max_connections_per_ip: int = 0
    """How many client connections the broker holds from one address."""
    enable_broker_topic_list_watcher: bool = True
    """Whether clients with a topic pattern are told of topics that come and go. Otherwise these clients poll."""
    subscription_pattern_max_length: int = 50
    """The length in characters of the longest topic pattern that the broker is willing to evaluate; with 0 it evaluates
    none."""

    def __post_init__(self) -> None:
        if self.max_message_size <= 0 or self.keep_alive_interval_seconds <= 0:
            raise ValueError("maxMessageSize and keepAliveIntervalSeconds must be positive")

    @property
    def max_frame_size(self) -> int:
        return self.max_message_size + FRAME_PADDING
