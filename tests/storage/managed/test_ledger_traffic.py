"""The counters of a managed ledger: buckets and rates of the last period."""

import pytest

from magnetar.storage.managed.ledger_traffic import IDLE, NOTHING, LedgerTraffic
from magnetar.storage.managed.period_buckets import (
    LATENCY_BOUNDS_S,
    LATENCY_BUCKET_OF,
    SIZE_BOUNDS,
    LatencyBuckets,
)
from pulsar_proto.latency_summary import BOUNDS, LatencySummary


def test_a_group_counts_in_the_bucket_of_its_latency_and_of_its_average_size() -> None:
    summary = LatencySummary()
    traffic = LedgerTraffic(summary)
    traffic.added(0.003, 0.0, [bytes(100)] * 4, 400)
    traffic.added(5.0, 0.0, [bytes(3000)], 3000)
    assert traffic.last == IDLE
    traffic.roll(10.0, mark_deletes=20)
    last = traffic.last
    assert last.write_latencies == last.ledger_latencies == [0, 0, 4, 0, 0, 0, 0, 0, 0, 1]
    assert last.write_seconds == last.ledger_seconds == pytest.approx(5.012)
    assert (last.sizes, last.size_bytes) == ([4, 0, 0, 0, 1, 0, 0, 0, 0], 3400)
    assert (traffic.per_second.entries_added, traffic.per_second.bytes_added) == (0.5, 340)
    assert traffic.per_second.mark_deletes == 2
    assert summary.count == 5
    traffic.roll(10.0, mark_deletes=20)
    assert (traffic.last, traffic.per_second) == (IDLE, NOTHING)


def test_the_wait_for_a_ledger_counts_only_for_the_whole_write() -> None:
    traffic = LedgerTraffic(LatencySummary())
    traffic.added(0.003, 0.5, [b"a", b"b"], 2)
    traffic.added(0.003, 0.0, [b"c"], 1)
    traffic.roll(1.0, 0)
    assert traffic.last.write_latencies == [0, 0, 1, 0, 0, 0, 0, 0, 2, 0]
    assert traffic.last.ledger_latencies == [0, 0, 3, 0, 0, 0, 0, 0, 0, 0]
    assert traffic.last.write_seconds == pytest.approx(1.009)
    assert traffic.last.ledger_seconds == pytest.approx(0.009)


def test_a_value_at_a_bound_is_in_the_bucket_below_it() -> None:
    for number, bound in enumerate(LATENCY_BOUNDS_S):
        latency = LedgerTraffic(LatencySummary())
        latency.added(bound, 0.0, [b""], SIZE_BOUNDS[min(number, len(SIZE_BOUNDS) - 1)])
        latency.roll(1.0, 0)
        assert latency.last.write_latencies[number] == 1
        assert latency.last.sizes[min(number, len(SIZE_BOUNDS) - 1)] == 1


def test_each_fine_bucket_of_latencies_lies_in_one_of_pulsars() -> None:
    assert set(LATENCY_BOUNDS_S) <= set(BOUNDS)
    assert sorted(LATENCY_BUCKET_OF) == LATENCY_BUCKET_OF
    assert set(LATENCY_BUCKET_OF) == set(range(len(LATENCY_BOUNDS_S) + 1))


def test_rare_work_is_counted_piece_by_piece() -> None:
    buckets = LatencyBuckets()
    buckets.add(0.002, 1)
    buckets.add(9.0, 2)
    buckets.roll()
    assert buckets.last == [0, 0, 1, 0, 0, 0, 0, 0, 0, 2]
    assert buckets.last_seconds == pytest.approx(18.002)
    buckets.roll()
    assert (sum(buckets.last), buckets.last_seconds) == (0, 0.0)
