"""Publish rates: the token bucket alone, and connections that the server stops reading for a while."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.policies.effective_policies import of_broker
from magnetar.server.policies.policy_values import PublishRate
from magnetar.server.stats.domain_stats import topic_stats
from magnetar.server.topics.token_bucket import BURST_SECONDS, TokenBucket
from tests.server.topics.scene import Scene, Throttled, in_virtual_time, pass_time, publish, settle


@given(st.integers(1, 1_000), st.lists(st.tuples(st.integers(0, 50), st.integers(1, 300)), max_size=30))
def test_no_more_is_taken_than_the_rate_and_one_burst_and_the_last_group(
    rate: int, takes: list[tuple[int, int]]
) -> None:
    """A producer that waits as it is told stays within the rate, over any time that starts at the beginning."""
    bucket = TokenBucket(rate, 0.0)
    now_s = taken = 0.0
    for pause_ds, count in takes:
        now_s += pause_ds / 10 + bucket.wait_seconds(now_s + pause_ds / 10)
        assert taken <= rate * (now_s + BURST_SECONDS) + 1e-6
        bucket.take(count, now_s)
        taken += count


def test_a_bucket_saves_up_no_more_than_a_burst() -> None:
    bucket = TokenBucket(10, 0.0)
    bucket.take(10, 100.0)
    assert bucket.wait_seconds(100.0) == 0
    bucket.take(5, 100.0)
    assert bucket.wait_seconds(100.0) == 0.5


def limited(rate: PublishRate) -> Scene:
    scene = Scene()
    scene.topic.set_policies(replace(of_broker(scene.settings), publish_rate=rate))
    return scene


@in_virtual_time
async def test_who_publishes_too_fast_is_not_read_until_the_rate_allows_it_and_loses_nothing() -> None:
    scene = limited(PublishRate(messages=10))
    fast, slow = Throttled(), Throttled()
    producer = await scene.producer(fast, "fast")
    await scene.producer(slow, "slow")
    publish(producer, [b"m"] * 30)
    await settle()
    assert len(fast.receipts) == 30
    assert (len(fast.throttles), len(slow.throttles)) == (1, 0)
    await pass_time(1.9)
    assert fast.throttles
    await pass_time(0.2)
    assert not fast.throttles
    assert topic_stats(scene.topic)["publishRateLimitedTimes"] == 1


@in_virtual_time
async def test_bytes_are_limited_too_and_a_changed_or_removed_limit_holds_at_once() -> None:
    scene = limited(PublishRate(bytes=1_000))
    cnx = Throttled()
    producer = await scene.producer(cnx, "p")
    publish(producer, [b"x" * 5_000])
    await settle()
    assert cnx.throttles
    scene.topic.set_policies(of_broker(scene.settings))
    assert not cnx.throttles
    publish(producer, [b"x" * 5_000])
    assert not cnx.throttles


@in_virtual_time
async def test_a_topic_that_closes_lets_its_connections_be_read() -> None:
    scene = limited(PublishRate(messages=1))
    cnx = Throttled()
    publish(await scene.producer(cnx, "p"), [b"m"] * 1_000)
    await settle()
    assert cnx.throttles
    await scene.topic.close()
    assert not cnx.throttles
