"""Decides at which points a bundle is split. Does no I/O.

An algorithm gets the hashes of the bundle's topics and returns the points at which new bundles begin. If it returns no
point, the bundle is not split; this is not a failure. Sources: NamespaceBundleSplitAlgorithm and its implementations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

RANGE_EQUALLY_DIVIDE = "range_equally_divide"
TOPIC_COUNT_EQUALLY_DIVIDE = "topic_count_equally_divide"
SPECIFIED_POSITIONS_DIVIDE = "specified_positions_divide"
FLOW_OR_QPS_EQUALLY_DIVIDE = "flow_or_qps_equally_divide"


@dataclass(frozen=True, slots=True)
class TopicLoad:
    """One topic of the bundle. Rates are per second and include incoming and outgoing traffic."""

    hash: int
    messages: float = 0.0
    bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class SplitTask:
    """The input of an algorithm."""

    lower: int
    upper: int
    topics: Sequence[TopicLoad] = ()
    positions: Sequence[int] = ()
    """The points that the caller asks for. Only SPECIFIED_POSITIONS_DIVIDE uses them."""
    max_messages: float = field(default=30_000.0)
    """loadBalancerNamespaceBundleMaxMsgRate."""
    max_bytes: float = field(default=100.0 * (1 << 20))
    """loadBalancerNamespaceBundleMaxBandwidthMbytes, in bytes."""
    tolerance: float = 0.1
    """flowOrQpsDifferenceThresholdPercentage, as a fraction."""


class SplitRefused(Exception):
    """The requested split is impossible. The text is that of Apache's broker."""


def split_points(algorithm: str, task: SplitTask) -> list[int]:
    """Returns the points inside the bundle at which it is split, in ascending order. Raises SplitRefused when the
    algorithm is unknown or lacks the positions that it needs."""
    divide = _ALGORITHMS.get(algorithm)
    if divide is None:
        raise SplitRefused(unsupported_algorithm())
    points = divide(task)
    return sorted({point for point in points if task.lower < point < task.upper})


def unsupported_algorithm() -> str:
    return f"Unsupported namespace bundle split algorithm, supported algorithms are [{', '.join(ALGORITHMS)}]"


def _range_equally(task: SplitTask) -> list[int]:
    return [task.lower + (task.upper - task.lower) // 2]


def _topic_count_equally(task: SplitTask) -> list[int]:
    """Splits between the two topics in the middle, by the order of their hashes."""
    hashes = sorted(topic.hash for topic in task.topics)
    if len(hashes) <= 1:
        return []
    half = len(hashes) // 2
    start, end = hashes[max(half - 1, 0)], hashes[half]
    return [start + (end - start) // 2]


def _specified_positions(task: SplitTask) -> list[int]:
    if not task.positions:
        raise SplitRefused("No positions have been set")
    return [] if len(task.topics) <= 1 else list(task.positions)


def _flow_or_qps_equally(task: SplitTask) -> list[int]:
    """Fills one new bundle after the other up to the limits, in the order of the hashes. A bundle is split only if it
    exceeds a limit by more than the tolerance."""
    busy = sorted(
        {topic.hash: topic for topic in task.topics if topic.messages > 0 or topic.bytes > 0}.values(),
        key=lambda topic: topic.hash,
    )
    messages, total_bytes = sum(topic.messages for topic in busy), sum(topic.bytes for topic in busy)
    slack = 1 + task.tolerance
    if len(busy) < 2 or (messages <= task.max_messages * slack and total_bytes <= task.max_bytes * slack):
        return []
    points = []
    messages, total_bytes = busy[0].messages, busy[0].bytes
    for before, topic in pairwise(busy):
        if messages + topic.messages > task.max_messages or total_bytes + topic.bytes > task.max_bytes:
            points.append(before.hash + (topic.hash - before.hash) // 2 + 1)
            messages = total_bytes = 0.0
        messages += topic.messages
        total_bytes += topic.bytes
    return points


_ALGORITHMS: dict[str, Callable[[SplitTask], list[int]]] = {
    RANGE_EQUALLY_DIVIDE: _range_equally,
    TOPIC_COUNT_EQUALLY_DIVIDE: _topic_count_equally,
    SPECIFIED_POSITIONS_DIVIDE: _specified_positions,
    FLOW_OR_QPS_EQUALLY_DIVIDE: _flow_or_qps_equally,
}
ALGORITHMS = tuple(_ALGORITHMS)
