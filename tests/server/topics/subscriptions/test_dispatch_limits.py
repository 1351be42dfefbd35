"""Dispatch rates: messages come no faster than the rate says, and not slower either."""

from typing import Any

import pytest

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.policies.policy_values import DispatchRate
from magnetar.server.topics.counters import Rate
from tests.server.topics.scene import FakeConnection, Scene, in_virtual_time, pass_time, payload, settle

TYPES = pytest.mark.parametrize("kind", ["Exclusive", "Shared", "Key_Shared"])


def limited(**rates: Any) -> EffectivePolicies:
    return EffectivePolicies(**rates)


async def busy(
    kind: str, policies: EffectivePolicies, *names: str, batch: int = 0
) -> tuple[Scene, list[FakeConnection]]:
    """Makes a backlog of 100 messages, and for each subscription a consumer that takes all of them."""
    scene = Scene()
    scene.topic.set_policies(policies)
    scene.ledger.append_now([payload(b"%d" % number, batch=batch) for number in range(100)])
    connections = [FakeConnection() for _ in names]
    for name, cnx in zip(names, connections, strict=True):
        (await scene.consumer(cnx, kind, subscription=name)).flow(1_000)
    await settle()
    return scene, connections


def count(cnx: FakeConnection) -> int:
    return len(cnx.messages)


@TYPES
@in_virtual_time
async def test_a_subscription_gets_its_rate(kind: str) -> None:
    scene, (cnx,) = await busy(kind, limited(subscription_dispatch_rate=DispatchRate(messages=10)), "s")
    assert count(cnx) == 10
    dispatcher = scene.topic.subscriptions["s"].dispatcher
    assert dispatcher is not None
    assert dispatcher.why_idle() == "the dispatch rate is reached"
    for second in range(1, 5):
        await pass_time(1)
        assert 10 * second + 8 <= count(cnx) <= 10 * second + 12
    await pass_time(10)
    assert count(cnx) == 100


@pytest.mark.parametrize(
    ("policy", "rate", "exhausted"),
    [
        ("subscription_dispatch_rate", DispatchRate(messages=10), ("msg", "subscription")),
        ("dispatch_rate", DispatchRate(messages=10), ("msg", "topic")),
        ("dispatch_rate", DispatchRate(bytes=10), ("bytes", "topic")),
    ],
)
@in_virtual_time
async def test_each_pause_is_counted_with_what_was_exhausted(
    policy: str, rate: DispatchRate, exhausted: tuple[str, str]
) -> None:
    scene, _ = await busy("Shared", limited(**{policy: rate}), "s")
    scene.ledger.add_entries([payload(b"later")], lambda result: None)
    await settle()
    dispatcher = scene.topic.subscriptions["s"].dispatcher
    assert dispatcher is not None
    assert {key for key, events in dispatcher.throttled_events.items() if events} == {exhausted}


@in_virtual_time
async def test_of_readers_that_are_gone_nothing_is_kept() -> None:
    policies = limited(subscription_dispatch_rate=DispatchRate(messages=10))
    scene, _ = await busy("Exclusive", policies, "reader")
    before = len(scene.topic.dispatch_limits)
    await scene.topic.subscriptions["reader"].delete()
    assert len(scene.topic.dispatch_limits) == before - 1


@TYPES
@in_virtual_time
async def test_all_subscriptions_share_the_topics_rate(kind: str) -> None:
    _, connections = await busy(kind, limited(dispatch_rate=DispatchRate(messages=10)), "one", "two")
    await pass_time(5)
    assert 50 <= sum(map(count, connections)) <= 64


@TYPES
@pytest.mark.parametrize("policy", ["dispatch_rate", "subscription_dispatch_rate"])
@in_virtual_time
async def test_what_exceeds_a_rate_of_bytes_is_paid_for_afterwards(kind: str, policy: str) -> None:
    size = len(payload(b"00"))
    rate = DispatchRate(bytes=size * 20, period_seconds=10)
    scene, (cnx,) = await busy(kind, limited(**{policy: rate}), "s")
    assert count(cnx) == 100, "one read may exceed the rate"
    scene.ledger.add_entries([payload(b"later")], lambda result: None)
    await pass_time(45)
    assert count(cnx) == 100, "98 messages more than the bucket held, at 2 a second"
    await pass_time(6)
    assert count(cnx) == 101


@in_virtual_time
async def test_messages_count_not_batches() -> None:
    _, (cnx,) = await busy("Shared", limited(subscription_dispatch_rate=DispatchRate(messages=10)), "s", batch=5)
    await pass_time(10)
    assert 20 <= count(cnx) <= 34


@TYPES
@in_virtual_time
async def test_a_limit_that_is_lifted_holds_no_longer(kind: str) -> None:
    scene, (cnx,) = await busy(kind, limited(subscription_dispatch_rate=DispatchRate(messages=1)), "s")
    assert count(cnx) == 1
    scene.topic.set_policies(limited())
    await settle()
    assert count(cnx) == 100


@in_virtual_time
async def test_a_relative_rate_is_on_top_of_what_is_published() -> None:
    rate = DispatchRate(messages=10, relative_to_publish_rate=True)
    scene, (cnx,) = await busy("Shared", limited(subscription_dispatch_rate=rate), "s")
    scene.topic.publishing.counters.message_rate = Rate(20.0)
    await pass_time(1)
    assert 35 <= count(cnx) <= 45
