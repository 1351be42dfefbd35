"""The periodic jobs on topics: expiry, the three backlog quota policies, and the deletion of inactive topics and
subscriptions."""

import time
from dataclasses import replace
from typing import Any

import pytest

from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.policies.effective_policies import of_broker
from magnetar.server.policies.policy_values import (
    BacklogAction,
    BacklogQuota,
    BacklogQuotas,
    InactiveTopicDeleteMode,
    InactiveTopicPolicies,
    Persistence,
)
from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.counters import now_ms
from magnetar.server.topics.non_persistent.topic import NonPersistentTopic
from magnetar.server.upkeep import jobs
from pulsar_proto.errors import QuotaExceeded, QuotaExceededHold
from pulsar_proto.ids import EARLIEST, LATEST
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.scene import FakeConnection, Scene, in_virtual_time, payload, payloads, settle

HOLD, EXCEPTION, EVICT = BacklogAction


class Deleted:
    """Stands for the service; it deletes at once and keeps the topics' names."""

    def __init__(self) -> None:
        self.topics: list[str] = []

    async def delete_unused(self, topic: BaseTopic) -> None:
        self.topics.append(topic.name.full)


def scene_with(**policies: Any) -> Scene:
    scene = Scene()
    scene.topic.set_policies(replace(of_broker(scene.settings), **policies))
    return scene


async def visit(visiting: Any) -> None:
    if visiting is not None:
        await visiting


def published(*times_ms: int) -> list[bytes]:
    return [payload(b"m", publish_time=time_ms) for time_ms in times_ms]


@in_virtual_time
async def test_messages_expire_by_the_time_to_live_but_not_for_readers() -> None:
    scene = scene_with(message_ttl_in_seconds=5)
    subscription = await scene.topic.create_subscription("s", EARLIEST)
    reader = await scene.consumer(FakeConnection(), subscription="reader", durable=False)
    scene.ledger.append_now(published(1_000, 2_000, 7_000))
    await visit(jobs.expire_messages(scene.topic, 7_500))
    assert subscription.cursor.backlog == 1
    assert reader.subscription.cursor.backlog == 3
    await visit(jobs.expire_messages(scene.topic, 12_500))
    assert subscription.cursor.backlog == 0
    assert jobs.expire_messages(scene.topic, 99_000) is None


@in_virtual_time
async def test_the_ages_of_backlogs_are_learnt_without_a_quota_too() -> None:
    scene = scene_with()
    late = await scene.topic.create_subscription("late", EARLIEST)
    early = await scene.topic.create_subscription("early", EARLIEST)
    done = await scene.topic.create_subscription("done", EARLIEST)
    assert jobs.check_quotas(scene.topic, 0) is None
    scene.ledger.append_now(published(1_000, 5_000))
    ages = scene.topic.backlog_ages
    assert ages.age_seconds(late.cursor, 11_000) == -1
    early.cursor.ack([(10, 0, None)])
    done.cursor.ack_cumulative(10, 1)
    await visit(jobs.check_quotas(scene.topic, 11_000))
    assert scene.topic.quota.oldest.known_ms() == 1_000
    assert [ages.age_seconds(each.cursor, 11_000) for each in (late, early, done)] == [10, 6, 0]
    reads = len(scene.ledger.reads)
    await visit(jobs.check_quotas(scene.topic, 12_000))
    assert len(scene.ledger.reads) == reads


@in_virtual_time
async def test_an_age_that_cannot_be_read_stays_unknown() -> None:
    scene = scene_with()
    subscription = await scene.topic.create_subscription("s", EARLIEST)
    scene.ledger.append_now(published(1_000))
    scene.ledger.read_failures = 1
    await visit(jobs.check_quotas(scene.topic, 2_000))
    assert scene.topic.backlog_ages.age_seconds(subscription.cursor, 2_000) == -1
    await visit(jobs.check_quotas(scene.topic, 3_000))
    assert scene.topic.backlog_ages.age_seconds(subscription.cursor, 3_000) == 2
    assert jobs.check_quotas(scene.topic, 4_000) is None


@in_virtual_time
async def test_without_a_time_to_live_nothing_is_looked_at() -> None:
    scene = scene_with()
    await scene.topic.create_subscription("s", EARLIEST)
    scene.ledger.append_now(published(1))
    assert jobs.expire_messages(scene.topic, 10**12) is None


@pytest.mark.parametrize(("action", "error"), [(HOLD, QuotaExceededHold), (EXCEPTION, QuotaExceeded)])
def test_a_full_topic_closes_its_producers_and_refuses_others(action: BacklogAction, error: type[Exception]) -> None:
    @in_virtual_time
    async def run() -> None:
        quotas = BacklogQuotas(BacklogQuota(100, action), BacklogQuota())
        scene = scene_with(backlog_quotas=quotas)
        subscription = await scene.topic.create_subscription("s", EARLIEST)
        cnx = FakeConnection()
        await scene.producer(cnx, "p")
        scene.ledger.append_now([b"x" * 60])
        await visit(jobs.check_quotas(scene.topic, 1_000))
        assert cnx.kinds == []
        scene.ledger.append_now([b"x" * 60])
        await visit(jobs.check_quotas(scene.topic, 1_000))
        assert cnx.kinds == ["CLOSE_PRODUCER"]
        with pytest.raises(error, match="Cannot create producer on topic with backlog quota exceeded"):
            await scene.producer(FakeConnection(), "q")
        subscription.cursor.ack_cumulative(*scene.ledger.last_confirmed)
        await scene.producer(FakeConnection(), "q")

    run()


@in_virtual_time
async def test_a_topic_whose_oldest_message_is_too_old_takes_no_producers_until_it_is_consumed() -> None:
    scene = scene_with(backlog_quotas=BacklogQuotas(BacklogQuota(), BacklogQuota(10, HOLD)))
    subscription = await scene.topic.create_subscription("s", EARLIEST)
    cnx = FakeConnection()
    await scene.producer(cnx, "p")
    scene.ledger.append_now(published(1_000, 15_000))
    await visit(jobs.check_quotas(scene.topic, 10_500))
    assert cnx.kinds == []
    await visit(jobs.check_quotas(scene.topic, 11_500))
    assert cnx.kinds == ["CLOSE_PRODUCER"]
    with pytest.raises(QuotaExceededHold):
        await scene.producer(FakeConnection(), "q")
    subscription.cursor.ack([(10, 0, None)])
    await visit(jobs.check_quotas(scene.topic, 11_500))
    await scene.producer(FakeConnection(), "q")


@in_virtual_time
async def test_eviction_by_size_moves_only_those_who_are_behind() -> None:
    scene = scene_with(backlog_quotas=BacklogQuotas(BacklogQuota(1_000, EVICT), BacklogQuota()))
    slow = await scene.topic.create_subscription("slow", EARLIEST)
    quick = await scene.topic.create_subscription("quick", EARLIEST)
    cnx = FakeConnection()
    await scene.producer(cnx, "p")
    scene.ledger.append_now([b"x" * 100] * 20)
    quick.cursor.ack_cumulative(10, 15)
    await visit(jobs.check_quotas(scene.topic, 1_000))
    assert (slow.cursor.backlog, quick.cursor.backlog) == (9, 4)
    assert scene.topic.backlog_size <= 900
    assert cnx.kinds == []


@in_virtual_time
async def test_eviction_by_age_skips_what_is_older() -> None:
    scene = scene_with(backlog_quotas=BacklogQuotas(BacklogQuota(), BacklogQuota(10, EVICT)))
    subscription = await scene.topic.create_subscription("s", EARLIEST)
    scene.ledger.append_now(published(1_000, 2_000, 30_000))
    await visit(jobs.check_quotas(scene.topic, 31_000))
    assert subscription.cursor.backlog == 1
    await scene.producer(FakeConnection(), "p")


@in_virtual_time
async def test_a_topic_is_deleted_when_it_was_not_used_for_so_long() -> None:
    scene = scene_with()
    service = Deleted()
    cnx = FakeConnection()
    await scene.producer(cnx, "p")
    begin = time.monotonic()
    assert jobs.delete_inactive(scene.topic, service, begin + 1_000) is None
    cnx.close("gone")
    assert jobs.delete_inactive(scene.topic, service, begin + 1_059) is None
    await visit(jobs.delete_inactive(scene.topic, service, begin + 1_060))
    assert service.topics == [scene.name.full]


@in_virtual_time
async def test_a_subscription_without_consumers_does_not_keep_a_non_persistent_topic() -> None:
    name = TopicName.parse("non-persistent://public/default/t")
    topic = NonPersistentTopic(name, TopicSettings(), new_producer_name=lambda: "p")
    rule = InactiveTopicPolicies(True, 60, InactiveTopicDeleteMode.DELETE_WHEN_NO_SUBSCRIPTIONS)
    topic.set_policies(replace(topic.policies, inactive_topic_policies=rule))
    service, begin = Deleted(), time.monotonic()
    command = pb.CommandSubscribe(
        topic=name.full, subscription="s", subType=pb.CommandSubscribe.Shared, consumer_id=1, request_id=1
    )
    consumer = await topic.subscribe(FakeConnection(), command)
    assert jobs.delete_inactive(topic, service, begin + 1_000) is None
    consumer.close()
    assert "s" in topic.subscriptions
    assert jobs.delete_inactive(topic, service, begin + 1_059) is None
    await visit(jobs.delete_inactive(topic, service, begin + 1_060))
    assert service.topics == [name.full]


@in_virtual_time
async def test_a_subscription_that_nobody_used_for_so_long_is_deleted() -> None:
    scene = scene_with(subscription_expiration_time_minutes=1)
    await scene.topic.create_subscription("idle", LATEST)
    await scene.consumer(FakeConnection(), subscription="used")
    scene.ledger.now_ms = 50_000
    scene.ledger.append_now(payloads(b"m"))
    recent = await scene.topic.create_subscription("recent", EARLIEST)
    recent.cursor.ack([(10, 0, None)])
    await visit(jobs.expire_subscriptions(scene.topic, 60_001))
    assert sorted(scene.topic.subscriptions) == ["recent", "used"]


@in_virtual_time
async def test_a_subscription_of_a_non_persistent_topic_expires_too() -> None:
    topic = NonPersistentTopic(
        TopicName.parse("non-persistent://public/default/t"), TopicSettings(), new_producer_name=lambda: "p"
    )
    topic.set_policies(replace(topic.policies, subscription_expiration_time_minutes=1))
    topic.add_subscription("s")
    assert jobs.expire_subscriptions(topic, now_ms() + 59_000) is None
    await visit(jobs.expire_subscriptions(topic, now_ms() + 61_000))
    assert topic.subscriptions == {}


@in_virtual_time
async def test_retention_and_time_to_live_reach_the_log() -> None:
    scene = scene_with(retention_time_in_minutes=10, retention_size_in_mb=-1, message_ttl_in_seconds=60)
    assert scene.ledger.config.retention_ms == 11 * 60_000
    scene.topic.set_policies(replace(scene.topic.policies, message_ttl_in_seconds=3_600))
    assert scene.ledger.config.retention_ms == 10 * 60_000
    await settle()


@in_virtual_time
async def test_persistence_reaches_the_log_and_goes_back_when_the_policy_goes() -> None:
    scene = scene_with(persistence=Persistence(3, 3, 2, 0.5))
    assert scene.ledger.config.quorums == (3, 3, 2)
    assert scene.ledger.config.managed_ledger_default_mark_delete_rate_limit == 0.5
    scene.topic.set_policies(replace(scene.topic.policies, persistence=None))
    assert scene.ledger.config == scene.topic.base_config
    await settle()
