"""What is known about the producers of one topic at one moment, as plain values. `producer_rules` reads nothing
else."""

from dataclasses import dataclass

from magnetar.server.why.subscription_snapshot import RefusedSnapshot


@dataclass(frozen=True, slots=True)
class ProducerSnapshot:
    name: str
    address: str
    pending: int
    """How many of its SENDs are not answered."""


@dataclass(frozen=True, slots=True)
class QuotaSnapshot:
    """A backlog quota that the topic exceeds."""

    kind: str
    """`destination_storage`, in bytes, or `message_age`, in seconds."""
    limit: int
    policy: str
    """What happens: producer_request_hold, producer_exception or consumer_backlog_eviction."""
    stops_producers: bool


@dataclass(frozen=True, slots=True)
class PublishRateSnapshot:
    is_of_broker: bool
    """Whether the rate is the broker's, which all topics share, or the topic's own."""
    messages_per_second: float
    bytes_per_second: float
    """The limits; 0 or less stands for no limit."""
    wait_seconds: float
    """In how many seconds publishing may go on; 0 when the rate is not exceeded."""
    waiting: tuple[str, ...]
    """The addresses of the clients whose connections are not read until then."""


@dataclass(frozen=True, slots=True)
class ProducersSnapshot:
    now_ms: int
    producers: tuple[ProducerSnapshot, ...] = ()
    waiting: tuple[str, ...] = ()
    """The names of the producers that wait for exclusive access."""
    exclusive: str | None = None
    last_publish_ms: int = 0
    quotas: tuple[QuotaSnapshot, ...] = ()
    backlog_bytes: int = 0
    rates: tuple[PublishRateSnapshot, ...] = ()
    is_terminated: bool = False
    takes_messages: bool = True
    """False after an append failed, until a ledger could be opened again."""
    storage_is_down: bool = False
    """Whether opening a ledger has failed too, so that new producers are refused."""
    storage_reason: str = ""
    """Why the last append, or the last try to open a ledger, failed."""
    hindrance: str = ""
    """Why the broker's own storage takes no writes: a full disk, or a fault that lasts until a restart."""
    storage_warning: str = ""
    """Why the broker's own storage may soon take no writes: a disk that is nearly full."""
    metadata_is_away: bool = False
    dedup_is_starting: bool = False
    """Whether deduplication is being turned on; producers are let in when it knows what is stored."""
    pending_sends: int = 0
    unanswered_since_ms: int | None = None
    """Since when SENDs wait while none is confirmed."""
    log_state: str = "open"
    """What the writing end of the log does: idle, open, settling (it changes ledgers), fenced, terminated, closed."""
    refused: RefusedSnapshot | None = None
    """The producer that was refused last."""
