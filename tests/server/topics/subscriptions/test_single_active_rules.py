"""Which consumer is active, compared with Java's sorted map of ring points, written out."""

from bisect import bisect_left

import mmh3
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.server.topics.subscriptions.single_active_rules import Candidate, choose_active, ring_hash

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=0, max_size=8)
CANDIDATES = st.lists(st.builds(Candidate, NAMES, st.integers(0, 3)), min_size=1, max_size=8)
TOPIC = "persistent://public/default/t"


def java_order(name: str) -> list[int]:
    """Returns the name's UTF-16 units, in the order of which String.compareTo sorts."""
    encoded = name.encode("utf-16-be")
    return [int.from_bytes(encoded[at : at + 2], "big") for at in range(0, len(encoded), 2)]


def twin(candidates: list[Candidate], topic: str, partition_index: int, always_hash: bool) -> Candidate:
    """Does what Java's AbstractDispatcherSingleActiveConsumer does, with a sorted list for its TreeMap."""
    consumers = sorted(candidates, key=lambda candidate: (candidate.priority, java_order(candidate.name)))
    consumers = [candidate for candidate in consumers if candidate.priority == consumers[0].priority]
    if partition_index >= 0 and not always_hash:
        return consumers[partition_index % len(consumers)]
    ring: dict[int, Candidate] = {}
    for consumer in consumers:
        for replica in range(100):
            ring[mmh3.hash((consumer.name + str(replica)).encode(), 0, signed=False) & 0x7FFFFFFF] = consumer
    points = sorted(ring)
    at = bisect_left(points, mmh3.hash(topic.encode(), 0, signed=False) & 0x7FFFFFFF)
    return ring[points[at] if at < len(points) else points[0]]


@settings(deadline=None)
@given(CANDIDATES, st.integers(-1, 20), st.booleans(), st.text(max_size=5))
def test_the_choice_is_java_s(candidates: list[Candidate], partition_index: int, always_hash: bool, end: str) -> None:
    topic = TOPIC + end.encode("utf-8", "ignore").decode()
    index = choose_active(candidates, topic, partition_index, always_hash=always_hash)
    expected = twin(candidates, topic, partition_index, always_hash)
    assert (candidates[index].name, candidates[index].priority) == (expected.name, expected.priority)


def test_the_hash_is_murmur3_32_of_utf8_without_its_sign() -> None:
    # Reference values of murmur3 x86 32, seed 0: "" -> 0, "test" -> 0xba6bd213, "Hello, world!" -> 0xc0363e43.
    assert ring_hash("") == 0
    assert ring_hash("test") == 0x3A6BD213
    assert ring_hash("Hello, world!") == 0x40363E43


def test_partitions_spread_over_consumers_of_the_best_priority() -> None:
    candidates = [Candidate("c", 0), Candidate("worse", 1), Candidate("a", 0), Candidate("b", 0)]
    chosen = [candidates[choose_active(candidates, TOPIC, index)].name for index in range(6)]
    assert chosen == ["a", "b", "c", "a", "b", "c"]


@settings(deadline=None)
@given(st.sets(NAMES, min_size=2, max_size=6))
def test_few_topics_move_when_a_consumer_leaves(names: set[str]) -> None:
    candidates = [Candidate(name, 0) for name in sorted(names)]
    topics = [f"{TOPIC}-{number}" for number in range(30)]
    before = {topic: candidates[choose_active(candidates, topic, -1)] for topic in topics}
    left = candidates.pop()
    after = {topic: candidates[choose_active(candidates, topic, -1)] for topic in topics}
    assert all(after[topic] == before[topic] for topic in topics if before[topic] != left)
