"""Limits and deadlines of the connections to bookies."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pulsar_proto.wire.packets import PACKET_BYTES_MAX

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True, slots=True, kw_only=True)
class WireConfig:
    """The settings of connections to bookies. If a description begins with a key, the key is that of BookKeeper's
    client. Times are seconds."""

    use_v2_wire_protocol: bool = True
    """useV2WireProtocol: whether adds and reads use v2. Pulsar's brokers switch it on; BookKeeper's default is off."""
    add_entry_timeout_sec: float = 30.0
    """addEntryTimeoutSec: after how long an unanswered add fails. The default is 5 in BookKeeper and 30 in a Pulsar
    broker."""
    read_entry_timeout_sec: float = 30.0
    connect_timeout_sec: float = 10.0
    """connectTimeoutMillis: how long making a connection may take."""
    reconnect_delay_min_sec: float = 0.1
    reconnect_delay_max_sec: float = 5.0
    """After a failed connect, all requests fail at once during a delay. With each further failure the delay doubles,
    from `reconnect_delay_min_sec` to this maximum."""
    silence_check_sec: float = 1.0
    """How often a bookie that owes answers is checked. `silence_rules` says after how many silent checks it counts
    as dead."""
    packet_bytes_max: int = PACKET_BYTES_MAX
    """nettyMaxFrameSizeBytes of the bookies: the size of the largest packet."""
    unanswered_bytes_max: int = 128 << 20
    """How many bytes of entries may be sent to one bookie and not answered. A further add fails at once with
    BookieOverloaded (-105)."""
    tls: "Callable[[], ssl.SSLContext] | None" = None
    """Returns the SSL context of a connection that is made now; a bookie that does not speak TLS then counts as one
    that cannot be reached. None: connections are in the clear."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if name not in ("use_v2_wire_protocol", "tls") and getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive, is {getattr(self, name)}")
