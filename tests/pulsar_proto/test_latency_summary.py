"""The summary of latencies: its quantiles are within the promised error, and belong to the last periods."""

import math
import random

import pytest

from pulsar_proto.latency_summary import LONGEST_SECONDS, PERIOD_SECONDS, SHORTEST_SECONDS, LatencySummary

QUANTILES = (0.0, 0.5, 0.75, 0.95, 0.99, 0.999, 1.0)


@pytest.mark.parametrize("seed", range(5))
def test_quantiles_differ_from_the_true_ones_by_five_percent_at_most(seed: int) -> None:
    source = random.Random(seed)
    latencies = sorted(math.exp(source.uniform(math.log(2e-5), math.log(50))) for _ in range(5000))
    summary = LatencySummary()
    for latency in latencies:
        summary.add(latency)
    for quantile, found in zip(QUANTILES, summary.quantiles(QUANTILES, now_s=0), strict=True):
        true = latencies[max(0, math.ceil(quantile * len(latencies)) - 1)]
        assert abs(found - true) <= 0.05 * true, quantile
    assert summary.count == 5000
    assert summary.seconds == pytest.approx(sum(latencies))


def test_a_group_counts_as_often_as_it_has_members() -> None:
    summary = LatencySummary()
    summary.add(0.001, 99)
    summary.add(1.0, 1)
    half, last = summary.quantiles((0.5, 1.0), now_s=0)
    assert half == pytest.approx(0.001, rel=0.05)
    assert last == pytest.approx(1.0, rel=0.05)
    assert summary.count == 100
    assert summary.seconds == pytest.approx(1.099)


def test_what_is_shorter_or_longer_than_all_buckets_is_counted_too() -> None:
    summary = LatencySummary()
    summary.add(SHORTEST_SECONDS / 100)
    summary.add(LONGEST_SECONDS * 100)
    shortest, longest = summary.quantiles((0.0, 1.0), now_s=0)
    assert shortest < SHORTEST_SECONDS
    assert longest >= LONGEST_SECONDS


def test_without_latencies_a_quantile_is_no_number() -> None:
    assert all(map(math.isnan, LatencySummary().quantiles(QUANTILES, now_s=0)))


def test_quantiles_forget_what_is_older_than_two_periods() -> None:
    summary = LatencySummary()
    list(summary.quantiles((1.0,), now_s=1000))
    summary.add(10.0)
    (slow,) = summary.quantiles((1.0,), now_s=1000 + PERIOD_SECONDS)
    assert slow == pytest.approx(10.0, rel=0.05)
    summary.add(0.001)
    (fast,) = summary.quantiles((1.0,), now_s=1000 + 2 * PERIOD_SECONDS)
    assert fast == pytest.approx(0.001, rel=0.05)
    assert summary.count == 2
