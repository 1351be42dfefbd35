"""How often a consumer may subscribe."""

from dataclasses import replace

import pytest

from magnetar.server.policies.effective_policies import of_broker
from magnetar.server.policies.policy_values import SubscribeRate
from magnetar.server.topics.subscriptions.subscribe_rate_rules import CONSUMERS_MAX, ConsumerIdentity, SubscribeLimiter
from pulsar_proto.errors import NotAllowed
from tests.server.topics.scene import FakeConnection, Scene, in_virtual_time

ONE = ConsumerIdentity("/127.0.0.1", "c", 1)


def test_so_many_in_a_period_and_again_in_the_next_one() -> None:
    limiter = SubscribeLimiter(SubscribeRate(2, 30))
    admitted = [now_s for now_s in (0, 1, 2, 29, 30, 31, 32) if limiter.admit(ONE, now_s)]
    assert admitted == [0, 1, 30, 31]
    assert limiter.admit(ONE._replace(consumer_id=2), 32)


def test_only_so_many_consumers_are_remembered() -> None:
    limiter = SubscribeLimiter(SubscribeRate(1, 30))
    for number in range(CONSUMERS_MAX):
        assert limiter.admit(ONE._replace(consumer_id=number), float(number % 2))
    assert not limiter.admit(ONE._replace(consumer_id=5), 2.0)
    assert limiter.admit(ONE._replace(consumer_id=-1), 30.5), "the periods of half of them are over"
    assert not limiter.admit(ONE._replace(consumer_id=5), 30.6)


@in_virtual_time
async def test_who_subscribes_too_often_is_refused_on_every_connection_of_its_host() -> None:
    scene = Scene()
    scene.topic.set_policies(replace(of_broker(scene.settings), subscribe_rate=SubscribeRate(2, 30)))
    for port in (1, 2):
        (await scene.consumer(FakeConnection(f"/127.0.0.1:{port}"), consumer_id=7)).close()
    with pytest.raises(NotAllowed, match="Subscribe limited by subscribe rate limit per consumer"):
        await scene.consumer(FakeConnection("/127.0.0.1:3"), consumer_id=7)
    await scene.consumer(FakeConnection("/127.0.0.2:3"), consumer_id=7)
