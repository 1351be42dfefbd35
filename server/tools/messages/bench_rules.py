"""What a bench does and what it found: settings, the share of each client, results and their sums. No I/O here."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from struct import Struct
from typing import Any

from magnetar.server.tools.messages.latency_rules import LatencyHistogram
from magnetar.server.tools.messages.quantity_rules import size_text, whole
from pulsar_proto.counted import counted

HEADER = Struct(">8sQ")
"""A message of a bench begins with the mark of its run and the time of sending in nanoseconds (monotonic, so that all
processes of a machine agree about it)."""
MARK_BYTES = 8


class Role(Enum):
    """What a client of the bench does."""

    PRODUCER = "producer"
    CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of a bench. They are all printed."""

    mode: str
    """pub, sub or both."""
    topic: str
    messages: int
    """Of all producers together, or to be consumed; 0 when only the duration ends the bench."""
    size_bytes: int
    producers: int
    consumers: int
    rate: float
    """Messages a second of all producers together; 0 for as many as possible."""
    duration_s: float
    """0 when only the number of messages ends the bench."""
    processes: int
    batching: bool
    batch_delay_s: float
    compression: str
    pending: int
    """How many messages of a producer may wait for their receipts."""
    subscription: str
    subscription_type: str
    queue: int
    """How many messages a consumer asks for in advance."""
    from_earliest: bool

    def describe(self) -> str:
        """Returns all settings in one line."""
        parts = []
        if self.messages:
            parts.append(counted(self.messages, "message", form=","))
        if self.duration_s:
            parts.append(f"{self.duration_s:g} s")
        if self.mode != "sub":
            rate = f"{whole(int(self.rate))}/s" if self.rate else "unlimited"
            batching = f"batches of {self.batch_delay_s * 1000:g} ms" if self.batching else "no batches"
            parts += [
                f"{whole(self.size_bytes)} B each",
                f"producers {self.producers}",
                f"rate {rate}",
                batching,
                f"compression {self.compression}",
                f"pending {whole(self.pending)}",
            ]
        if self.mode != "pub":
            begin = "earliest" if self.from_earliest else "latest"
            parts += [
                f"consumers {self.consumers}",
                f"subscription {self.subscription} ({self.subscription_type}, from {begin})",
                f"queue {whole(self.queue)}",
            ]
        return f"bench {self.mode} {self.topic}: {', '.join(parts)}, processes {self.processes}"


@dataclass(frozen=True, slots=True)
class ClientTask:
    """The share of one client."""

    role: Role
    number: int
    """From 1 on, among the clients of its role."""
    messages: int
    """How many it sends or receives; 0 when something else ends it: the duration, or for a consumer of `both` the end
    of the producers."""
    rate: float


def tasks_of(plan: Plan) -> list[ClientTask]:
    """Returns the share of every client. The first ones have one message more when the number does not divide."""
    consumed = plan.messages if plan.mode == "sub" else 0
    return [
        *_shares(Role.PRODUCER, plan.producers, plan.messages, plan.rate),
        *_shares(Role.CONSUMER, plan.consumers, consumed, 0.0),
    ]


def _shares(role: Role, clients: int, messages: int, rate: float) -> list[ClientTask]:
    each, more = divmod(messages, max(clients, 1))
    tasks = [ClientTask(role, number, each + (number <= more), rate / clients) for number in range(1, clients + 1)]
    # A client without a share would go on until something else ends it.
    return [task for task in tasks if task.messages or not messages]


def spread(tasks: Sequence[ClientTask], processes: int) -> list[list[ClientTask]]:
    """Deals the clients out to processes, producers and consumers each in turn."""
    hands: list[list[ClientTask]] = [[] for _ in range(min(processes, len(tasks)))]
    for index, task in enumerate(tasks):
        hands[index % len(hands)].append(task)
    return hands


@dataclass(slots=True)
class ClientResult:
    """What one client did. Times are monotonic."""

    role: Role
    number: int
    messages: int = 0
    bytes: int = 0
    failed: int = 0
    began_s: float = 0.0
    ended_s: float = 0.0
    latencies: LatencyHistogram = field(default_factory=LatencyHistogram)
    fault: str = ""

    @property
    def name(self) -> str:
        return f"{self.role.value} {self.number}"

    @property
    def seconds(self) -> float:
        return max(self.ended_s - self.began_s, 0.0)


def total_of(results: Sequence[ClientResult], role: Role) -> ClientResult | None:
    """Returns the sum of all clients of a role, from the first one's begin to the last one's end; None without any."""
    chosen = [each for each in results if each.role is role]
    if not chosen:
        return None
    active = [each for each in chosen if each.messages] or chosen
    return ClientResult(
        role,
        0,
        sum(each.messages for each in chosen),
        sum(each.bytes for each in chosen),
        sum(each.failed for each in chosen),
        min(each.began_s for each in active),
        max(each.ended_s for each in active),
        LatencyHistogram().merge(each.latencies for each in chosen),
        next((each.fault for each in chosen if each.fault), ""),
    )


def row_of(result: ClientResult) -> dict[str, Any]:
    """Returns a result as the columns of the CSV file and the members of the JSON."""
    seconds = result.seconds
    latencies = result.latencies
    has_latencies = latencies.count > 0
    return {
        "client": result.name if result.number else f"{result.role.value}s",
        "messages": result.messages,
        "bytes": result.bytes,
        "failed": result.failed,
        "seconds": round(seconds, 6),
        "messagesPerSecond": round(result.messages / seconds, 1) if seconds else 0.0,
        "bytesPerSecond": round(result.bytes / seconds, 1) if seconds else 0.0,
        "p50Ms": latencies.quantile_us(0.5) / 1000 if has_latencies else None,
        "p99Ms": latencies.quantile_us(0.99) / 1000 if has_latencies else None,
        "p99.9Ms": latencies.quantile_us(0.999) / 1000 if has_latencies else None,
        "maxMs": latencies.largest_us / 1000 if has_latencies else None,
        "meanMs": round(latencies.mean_us / 1000, 3) if has_latencies else None,
    }


def text_line(result: ClientResult) -> str:
    """Returns a result as a line for people."""
    row = row_of(result)
    line = (
        f"{row['client']:<12} {whole(row['messages']):>12} messages  {whole(round(row['messagesPerSecond'])):>9}/s  "
        f"{size_text(row['bytesPerSecond']):>10}/s"
    )
    if row["p50Ms"] is not None:
        what = "publish" if result.role is Role.PRODUCER else "end to end"
        line += (
            f"  {what} ms: p50 {row['p50Ms']:.2f}  p99 {row['p99Ms']:.2f}  p99.9 {row['p99.9Ms']:.2f}  "
            f"max {row['maxMs']:.2f}"
        )
    return f"{line}  failed {whole(row['failed'])}" if row["failed"] else line


def tree_of(plan: Plan, results: Sequence[ClientResult]) -> dict[str, Any]:
    """Returns everything as JSON has it."""
    settings = {_camel(name): value for name, value in asdict(plan).items()}
    tree: dict[str, Any] = {"settings": settings, "clients": [row_of(each) for each in results]}
    for role in Role:
        total = total_of(results, role)
        if total is not None:
            tree[f"{role.value}s"] = row_of(total)
    return tree


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(each.capitalize() for each in others)
