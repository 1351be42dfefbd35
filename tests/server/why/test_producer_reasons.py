"""Each reason why producers are not answered or not admitted: provoked, told with its figures, and gone in the end."""

import asyncio
from dataclasses import replace

import pytest

from magnetar.server.policies.effective_policies import of_broker
from magnetar.server.policies.policy_values import BacklogAction, BacklogQuota, BacklogQuotas, PublishRate
from magnetar.server.topics.publishing.publish_limiter import PublishLimiter
from magnetar.server.upkeep.jobs import check_quotas
from magnetar.server.why.reasons import Holds, in_the_way
from magnetar.storage.managed.appender import AppendState
from magnetar.storage.managed.managed_ledger_errors import AppendFault
from pulsar_proto.errors import ProducerFenced, QuotaExceededHold
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.scene import FakeConnection, Scene, Throttled, in_virtual_time, pass_time, publish, settle
from tests.server.topics.subscriptions.shared_scene import numbers
from tests.server.why.why_scene import reasons_for_producers


async def test_nothing_stands_in_the_way_of_a_producer_that_is_answered() -> None:
    scene = Scene()
    publish(await scene.producer(FakeConnection(), "p"), [b"x"])
    await settle()
    assert reasons_for_producers(scene.topic) == {}


async def test_no_producer_is_connected() -> None:
    scene = Scene()
    producer = await scene.producer(FakeConnection(), "p")
    publish(producer, [b"x"])
    await settle()
    producer.close()
    reason = reasons_for_producers(scene.topic)["NO_PRODUCER"]
    assert reason.holds is Holds.NOTHING
    assert "the last message since the topic was loaded came 0." in reason.sentence


@in_virtual_time
async def test_a_publish_rate_is_told_with_the_connections_that_are_not_read() -> None:
    scene, cnx = Scene(), Throttled()
    cnx.remote_address = "/10.0.0.1:99"
    scene.topic.set_policies(replace(of_broker(scene.settings), publish_rate=PublishRate(messages=10)))
    publish(await scene.producer(cnx, "fast"), [b"m"] * 30)
    await settle()
    reason = reasons_for_producers(scene.topic)["TOPIC_PUBLISH_RATE"]
    assert reason.holds is Holds.SOME
    assert reason.figures["connections"] == ["/10.0.0.1:99"]
    assert reason.figures["waitSeconds"] == pytest.approx(2.0, abs=0.1)
    await pass_time(2.1)
    assert reasons_for_producers(scene.topic) == {}


@in_virtual_time
async def test_the_broker_s_publish_rate_is_told_apart_from_the_topic_s() -> None:
    scene = Scene()
    scene.topic.broker_limiter = PublishLimiter(PublishRate(bytes=10))
    scene.topic.apply_send_policies()
    publish(await scene.producer(Throttled(), "fast"), [b"m"] * 30)
    await settle()
    assert list(reasons_for_producers(scene.topic)) == ["BROKER_PUBLISH_RATE"]
    scene.topic.broker_limiter.close()


@pytest.mark.parametrize("action", list(BacklogAction))
async def test_a_backlog_quota_is_told_with_its_policy(action: BacklogAction) -> None:
    scene = Scene()
    await scene.topic.make_subscription("s")
    scene.ledger.append_now(numbers(10))
    quotas = BacklogQuotas(BacklogQuota(100, action), BacklogQuota())
    scene.topic.set_policies(replace(of_broker(scene.settings), backlog_quotas=quotas))
    code = "BACKLOG_EVICTED" if action is BacklogAction.CONSUMER_BACKLOG_EVICTION else "BACKLOG_QUOTA"
    reason = reasons_for_producers(scene.topic)[code]
    assert reason.figures == {"quota": "destination_storage", "limit": 100, "policy": action.value}
    assert (reason.holds is Holds.EVERYTHING) == (code == "BACKLOG_QUOTA")
    scene.topic.set_policies(of_broker(scene.settings))
    assert code not in reasons_for_producers(scene.topic)


async def test_a_quota_by_age_is_told_after_the_periodic_check_and_so_is_the_refusal() -> None:
    scene = Scene()
    await scene.topic.make_subscription("s")
    scene.ledger.append_now(numbers(1))
    quotas = BacklogQuotas(BacklogQuota(), BacklogQuota(60, BacklogAction.PRODUCER_REQUEST_HOLD))
    scene.topic.set_policies(replace(of_broker(scene.settings), backlog_quotas=quotas))
    assert "BACKLOG_QUOTA" not in reasons_for_producers(scene.topic)
    checking = check_quotas(scene.topic, 1_000_000)
    assert checking is not None
    await checking
    assert reasons_for_producers(scene.topic)["BACKLOG_QUOTA"].figures["quota"] == "message_age"
    with pytest.raises(QuotaExceededHold):
        await scene.producer(FakeConnection("/10.0.0.2:1"))
    refused = reasons_for_producers(scene.topic)["PRODUCER_REFUSED"]
    assert "/10.0.0.2:1" in refused.sentence
    assert "QuotaExceededHold" in refused.sentence


async def test_exclusive_access_and_the_producers_that_wait_for_it() -> None:
    scene = Scene()
    first = await scene.producer(FakeConnection(), "first", producer_access_mode=pb.WaitForExclusive)
    reason = reasons_for_producers(scene.topic)["EXCLUSIVE_PRODUCER"]
    assert (reason.holds, reason.figures) == (Holds.NOTHING, {"heldBy": "first"})
    waiting = asyncio.ensure_future(
        scene.producer(FakeConnection(), "second", producer_access_mode=pb.WaitForExclusive)
    )
    await settle()
    reason = reasons_for_producers(scene.topic)["WAITS_FOR_EXCLUSIVE_ACCESS"]
    assert (reason.holds, reason.figures) == (Holds.SOME, {"waiting": ["second"], "heldBy": "first"})
    first.close()
    await waiting
    assert "WAITS_FOR_EXCLUSIVE_ACCESS" not in reasons_for_producers(scene.topic)


async def test_a_fenced_producer_finds_the_reason() -> None:
    scene = Scene()
    await scene.producer(FakeConnection(), "first", producer_access_mode=pb.Exclusive)
    with pytest.raises(ProducerFenced):
        await scene.producer(FakeConnection(), "second", producer_access_mode=pb.Exclusive)
    assert "ProducerFenced: Topic has an existing exclusive producer: first" in (
        reasons_for_producers(scene.topic)["PRODUCER_REFUSED"].sentence
    )


@in_virtual_time
async def test_bookies_that_take_nothing_are_told_until_a_ledger_opens() -> None:
    scene = Scene()
    producer = await scene.producer(FakeConnection(), "p")
    scene.ledger.append_failure = scene.ledger.open_failure = AppendFault("t", "NotEnoughBookies: 1 of 2")
    publish(producer, [b"x"])
    await settle()
    reason = reasons_for_producers(scene.topic)["STORAGE_FAILS"]
    assert reason.holds is Holds.EVERYTHING
    assert "NotEnoughBookies: 1 of 2" in reason.sentence
    assert reason.figures["producersAreRefused"] is True
    scene.ledger.append_failure = scene.ledger.open_failure = None
    await pass_time(10)
    assert "STORAGE_FAILS" not in reasons_for_producers(scene.topic)


async def test_sends_that_are_not_confirmed_are_told_with_the_time_since_which_they_wait() -> None:
    scene = Scene()
    scene.ledger.holds_appends = True
    publish(await scene.producer(FakeConnection(), "p"), [b"x", b"y"])
    publishing = scene.topic.publishing
    assert publishing.unanswered_since_ms is not None
    assert reasons_for_producers(scene.topic) == {}, "they wait for a moment only"
    publishing._busy_since_ms -= 90_000
    scene.ledger.state = AppendState.SETTLING
    reason = reasons_for_producers(scene.topic)["APPENDS_WAIT"]
    assert reason.holds is Holds.EVERYTHING
    assert reason.sentence.startswith("2 SENDs have waited for another ledger for 1 min 30 s")
    scene.ledger.confirm()
    await settle()
    assert reasons_for_producers(scene.topic) == {}
    assert publishing.unanswered_since_ms is None


async def test_a_confirmation_begins_the_time_anew() -> None:
    scene = Scene()
    scene.ledger.holds_appends = True
    producer = await scene.producer(FakeConnection(), "p")
    for _ in range(2):
        publish(producer, [b"x"])
    publishing = scene.topic.publishing
    publishing._busy_since_ms -= 90_000
    assert "APPENDS_WAIT" in reasons_for_producers(scene.topic)
    scene.ledger.confirm()
    assert reasons_for_producers(scene.topic) == {}


async def test_a_terminated_topic_takes_nothing() -> None:
    scene = Scene()
    await scene.topic.terminate()
    assert reasons_for_producers(scene.topic)["TERMINATED"].holds is Holds.EVERYTHING


async def test_a_full_disk_and_metadata_that_is_away_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    await scene.producer(FakeConnection(), "p")
    full = reasons_for_producers(scene.topic, "the disk of the ledgers is full")
    assert "the disk of the ledgers is full" in full["STORAGE_TAKES_NO_WRITES"].sentence
    monkeypatch.setattr(scene.ledger, "metadata_is_away", True)
    away = reasons_for_producers(scene.topic)
    assert away["METADATA_AWAY"].holds is Holds.NOTHING, "the open ledger takes messages"
    assert not in_the_way(away.values())
    scene.ledger.state = AppendState.IDLE
    assert reasons_for_producers(scene.topic)["METADATA_AWAY"].holds is Holds.EVERYTHING
