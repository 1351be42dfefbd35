"""The histogram of latencies, the shares of clients, and the figures of a bench."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.tools.messages.bench_rules import (
    ClientResult,
    Plan,
    Role,
    row_of,
    spread,
    tasks_of,
    text_line,
    total_of,
    tree_of,
)
from magnetar.server.tools.messages.latency_rules import LatencyHistogram, bucket_of, bucket_top

PLAN = Plan(
    mode="both",
    topic="persistent://public/default/t",
    messages=100_000,
    size_bytes=1024,
    producers=3,
    consumers=2,
    rate=9000,
    duration_s=0,
    processes=2,
    batching=True,
    batch_delay_s=0.001,
    compression="lz4",
    pending=1000,
    subscription="s",
    subscription_type="Shared",
    queue=500,
    from_earliest=False,
)


def recorded(values: list[int]) -> LatencyHistogram:
    latencies = LatencyHistogram()
    for value in values:
        latencies.record(value)
    return latencies


@given(st.integers(0, 2**62))
def test_a_bucket_holds_values_within_one_percent(value: int) -> None:
    top = bucket_top(bucket_of(value))
    assert value <= top <= value * 1.01
    assert bucket_of(top) == bucket_of(value)
    assert bucket_of(top + 1) == bucket_of(value) + 1


@given(st.lists(st.integers(0, 10**9), min_size=1), st.sampled_from([0.5, 0.99, 0.999, 1.0]))
def test_quantiles_are_those_of_the_sorted_values(values: list[int], quantile: float) -> None:
    wanted = next(
        value for place, value in enumerate(sorted(values), start=1) if place >= quantile * len(values) - 1e-9
    )
    assert wanted <= recorded(values).quantile_us(quantile) <= wanted * 1.01


@given(st.lists(st.lists(st.integers(0, 10**6))))
def test_merged_histograms_are_that_of_all_values(groups: list[list[int]]) -> None:
    merged = LatencyHistogram().merge(recorded(group) for group in groups)
    together = recorded([value for group in groups for value in group])
    assert merged.buckets == together.buckets
    assert (merged.count, merged.largest_us, merged.mean_us) == (
        together.count,
        together.largest_us,
        together.mean_us,
    )


def test_no_latencies_and_negative_ones() -> None:
    assert LatencyHistogram().quantile_us(0.5) == 0
    assert recorded([-5]).largest_us == 0


def plan(**changes: object) -> Plan:
    from dataclasses import replace

    return replace(PLAN, **changes)  # type: ignore[arg-type]


@given(st.integers(0, 1000), st.integers(1, 20), st.integers(1, 20), st.sampled_from(["pub", "sub", "both"]))
def test_the_shares_make_up_the_whole(messages: int, producers: int, consumers: int, mode: str) -> None:
    chosen = plan(
        mode=mode,
        messages=messages,
        producers=0 if mode == "sub" else producers,
        consumers=0 if mode == "pub" else consumers,
    )
    tasks = tasks_of(chosen)
    role = Role.CONSUMER if mode == "sub" else Role.PRODUCER
    assert sum(task.messages for task in tasks if task.role is role) == messages
    shares = [task.messages for task in tasks if task.role is role]
    assert max(shares) - min(shares) <= 1
    hands = spread(tasks, 3)
    assert sorted((task.role.value, task.number) for hand in hands for task in hand) == sorted(
        (task.role.value, task.number) for task in tasks
    )


def test_the_first_line_says_all_settings() -> None:
    line = PLAN.describe()
    for setting in ("both", PLAN.topic, "100,000", "1,024 B", "producers 3", "9,000/s", "lz4", "1 ms", "pending 1,000"):
        assert setting in line
    for setting in ("consumers 2", "subscription s (Shared, from latest)", "queue 500", "processes 2"):
        assert setting in line


def test_a_sum_reaches_from_the_first_begin_to_the_last_end() -> None:
    results = [
        ClientResult(Role.PRODUCER, 1, 10, 1000, 0, 1.0, 3.0, recorded([1000])),
        ClientResult(Role.PRODUCER, 2, 30, 3000, 2, 2.0, 5.0, recorded([9000]), "fault"),
        ClientResult(Role.CONSUMER, 1, 40, 4000, 0, 1.0, 2.0),
    ]
    total = total_of(results, Role.PRODUCER)
    assert total is not None
    row = row_of(total)
    assert (row["messages"], row["seconds"], row["messagesPerSecond"], row["failed"]) == (40, 4.0, 10.0, 2)
    assert (row["maxMs"], row["client"], total.fault) == (9.0, "producers", "fault")
    assert total_of(results[:2], Role.CONSUMER) is None
    tree = tree_of(PLAN, results)
    assert tree["settings"]["sizeBytes"] == 1024
    assert [each["client"] for each in tree["clients"]] == ["producer 1", "producer 2", "consumer 1"]
    assert tree["consumers"]["p50Ms"] is None
    assert "publish ms: p50 9.00" in text_line(results[1])
    assert "failed 2" in text_line(results[1])


@pytest.mark.parametrize("role", Role)
def test_a_client_that_did_nothing_has_no_rate(role: Role) -> None:
    assert row_of(ClientResult(role, 1))["messagesPerSecond"] == 0.0
