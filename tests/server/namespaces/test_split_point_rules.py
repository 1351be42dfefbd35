"""Where bundles are split, by each algorithm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.namespaces.split_point_rules import (
    ALGORITHMS,
    FLOW_OR_QPS_EQUALLY_DIVIDE,
    RANGE_EQUALLY_DIVIDE,
    SPECIFIED_POSITIONS_DIVIDE,
    TOPIC_COUNT_EQUALLY_DIVIDE,
    SplitRefused,
    SplitTask,
    TopicLoad,
    split_points,
)

LOWER, UPPER = 0x40000000, 0x80000000


def topics(*hashes: int, messages: float = 0.0) -> list[TopicLoad]:
    return [TopicLoad(each, messages) for each in hashes]


def test_in_half() -> None:
    assert split_points(RANGE_EQUALLY_DIVIDE, SplitTask(LOWER, UPPER)) == [0x60000000]
    assert split_points(RANGE_EQUALLY_DIVIDE, SplitTask(0xF0000000, 0xFFFFFFFF)) == [0xF7FFFFFF]
    assert split_points(RANGE_EQUALLY_DIVIDE, SplitTask(7, 8)) == []


def test_between_the_topics_in_the_middle() -> None:
    def points(*hashes: int) -> list[int]:
        return split_points(TOPIC_COUNT_EQUALLY_DIVIDE, SplitTask(0, 1000, topics(*hashes)))

    assert points(10, 20, 40, 900) == [30]
    assert points(900, 10, 40) == [25]
    assert points(10) == points() == []
    assert points(10, 10) == [10]


def test_where_the_caller_wants_it() -> None:
    def points(*positions: int, count: int = 2) -> list[int]:
        task = SplitTask(LOWER, UPPER, topics(*range(LOWER, LOWER + count)), positions)
        return split_points(SPECIFIED_POSITIONS_DIVIDE, task)

    assert points(0x70000000, 0x50000000, 0x50000000) == [0x50000000, 0x70000000]
    assert points(0x70000000, 0, LOWER, UPPER, 2**40) == [0x70000000], "what lies outside is left out"
    assert points(1) == []
    assert points(0x70000000, count=1) == [], "one topic is in one bundle anyway"
    with pytest.raises(SplitRefused, match="No positions have been set"):
        points()


def test_by_traffic() -> None:
    def points(limit: float, *loads: float) -> list[int]:
        found = [TopicLoad(100 * (number + 1), load) for number, load in enumerate(loads)]
        return split_points(FLOW_OR_QPS_EQUALLY_DIVIDE, SplitTask(0, 10_000, found, max_messages=limit))

    assert points(10, 5, 5) == [], "what fits is not split"
    assert points(10, 5, 6) == [], "nor what exceeds it by a tenth"
    assert points(10, 6, 6) == [151]
    assert points(10, 5, 5, 5, 5, 0, 9) == [251, 501]
    assert points(10, 100) == [], "one topic cannot be divided"
    task = SplitTask(0, 1000, [TopicLoad(100, 1, 60), TopicLoad(300, 1, 60)], max_messages=10, max_bytes=100)
    assert split_points(FLOW_OR_QPS_EQUALLY_DIVIDE, task) == [201]


def test_an_unknown_algorithm_is_refused_in_apache_s_words() -> None:
    with pytest.raises(SplitRefused) as refused:
        split_points("bad", SplitTask(0, 10))
    assert str(refused.value) == (
        "Unsupported namespace bundle split algorithm, supported algorithms are [range_equally_divide, "
        "topic_count_equally_divide, specified_positions_divide, flow_or_qps_equally_divide]"
    )


@given(
    st.sampled_from(ALGORITHMS),
    st.integers(0, 2**32 - 2),
    st.integers(1, 2**32 - 1),
    st.lists(st.tuples(st.integers(0, 2**32 - 1), st.floats(0, 1e6), st.floats(0, 1e9)), max_size=30),
    st.lists(st.integers(-(2**70), 2**70), min_size=1, max_size=5),
)
def test_points_ascend_inside_the_bundle(
    algorithm: str, lower: int, width: int, loads: list[tuple[int, float, float]], positions: list[int]
) -> None:
    upper = min(lower + width, 2**32 - 1)
    inside = [TopicLoad(lower + each % max(1, upper - lower), rate, size) for each, rate, size in loads]
    points = split_points(algorithm, SplitTask(lower, upper, inside, positions))
    assert points == sorted(set(points))
    assert all(lower < point < upper for point in points)


@given(st.lists(st.integers(1, 999), min_size=2, unique=True))
def test_as_many_topics_on_either_side(places: list[int]) -> None:
    hashes = [10 * place for place in places]  # between neighbours there is no room for a point
    points = split_points(TOPIC_COUNT_EQUALLY_DIVIDE, SplitTask(0, 10_000, topics(*hashes)))
    for point in points:
        left = sum(each < point for each in hashes)
        assert abs(2 * left - len(hashes)) <= 1
