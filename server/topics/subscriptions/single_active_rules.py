"""Decides which consumer of an Exclusive or Failover subscription gets the messages.

One of the consumers with the best priority (0 is best) is chosen; they are sorted by name. On a partition the consumer
at the partition's index is chosen, so that the partitions of a topic spread evenly over the consumers. On other topics
a consistent-hash ring chooses, so that many topics spread evenly, and few topics get another active consumer when a
consumer comes or leaves.

Does no I/O. Sources: AbstractDispatcherSingleActiveConsumer.pickAndScheduleActiveConsumer, makeHashRing.
"""

import codecs
from collections.abc import Sequence
from typing import NamedTuple

from mmh3 import mmh3_32_uintdigest

POINTS_PER_CONSUMER = 100
_NON_NEGATIVE = 0x7FFF_FFFF


class Candidate(NamedTuple):
    """A consumer that may become the active consumer."""

    name: str
    priority: int
    """The priority level; 0 is best."""


def choose_active(
    candidates: Sequence[Candidate], topic: str, partition_index: int, *, always_hash: bool = False
) -> int:
    """Returns the index in `candidates` (not empty) of the consumer that shall be active.

    `topic` is the full name; `partition_index` is -1 for a topic that is no partition; `always_hash` is
    `activeConsumerFailoverConsistentHashing`.
    """
    order = sorted(range(len(candidates)), key=lambda index: _rank(candidates[index]))
    best = candidates[order[0]].priority
    eligible = [index for index in order if candidates[index].priority == best]
    if partition_index >= 0 and not always_hash:
        return eligible[partition_index % len(eligible)]
    if len(eligible) == 1:
        return eligible[0]
    return eligible[_owner_on_ring([candidates[index].name for index in eligible], topic)]


def _rank(candidate: Candidate) -> tuple[int, bytes]:
    # Java compares strings by UTF-16 units. `str.encode` would import the codec, at the first consumer and on the event
    # loop.
    return candidate.priority, codecs.utf_16_be_encode(candidate.name, "surrogatepass")[0]


def _owner_on_ring(names: Sequence[str], topic: str) -> int:
    """Returns the index of the name whose point on the ring is the first point at or after the topic's point. If no
    point is there, returns the index of the name with the first point of the ring. When two names have the same point,
    the later name counts, because Apache's broker fills a map with the names in order."""
    key = ring_hash(topic)
    following: tuple[int, int] | None = None
    first: tuple[int, int] | None = None
    for index, name in enumerate(names):
        for replica in range(POINTS_PER_CONSUMER):
            point = ring_hash(f"{name}{replica}")
            if point >= key and (following is None or point <= following[0]):
                following = point, index
            if first is None or point <= first[0]:
                first = point, index
    owner = following or first
    assert owner is not None
    return owner[1]


def ring_hash(text: str) -> int:
    """Returns Murmur3_32Hash.makeHash of Apache: seed 0, the sign bit cleared."""
    return mmh3_32_uintdigest(text.encode("utf-8", "surrogatepass"), 0) & _NON_NEGATIVE
