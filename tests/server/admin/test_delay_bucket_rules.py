"""Due times are grouped into few buckets of a width that people read easily."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.admin.delay_bucket_rules import BUCKETS_MAX, buckets_of

TIMES = st.lists(st.integers(0, 2**62), min_size=1, max_size=200).map(sorted)


def test_nothing_has_no_buckets() -> None:
    assert buckets_of([]) == []


def test_times_of_a_minute_are_grouped_by_two_seconds() -> None:
    times = [1_000_000, 1_000_500, 1_003_000, 1_060_000]
    assert buckets_of(times) == [
        {"from": 1_000_000, "to": 1_002_000, "messages": 2},
        {"from": 1_002_000, "to": 1_004_000, "messages": 1},
        {"from": 1_060_000, "to": 1_062_000, "messages": 1},
    ]


@given(TIMES)
def test_every_time_is_in_one_bucket_and_there_are_never_too_many(times: list[int]) -> None:
    buckets = buckets_of(times)
    assert len(buckets) <= BUCKETS_MAX
    assert sum(each["messages"] for each in buckets) == len(times)
    assert len({each["to"] - each["from"] for each in buckets}) == 1
    for each in buckets:
        assert each["messages"] == sum(each["from"] <= time < each["to"] for time in times)
