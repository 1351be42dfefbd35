"""The call `…/why`: over HTTP on a whole server, on topics that are being loaded or closed, and on real ledgers."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from multidict import MultiDict

from magnetar.metadata import paths
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.admin import why_calls
from magnetar.server.broker.write_readiness import WriteReadiness
from magnetar.server.web.calls import Call
from magnetar.server.why.answers import why
from magnetar.storage.managed.managed_ledger_errors import MetaStoreFault
from pulsar_proto.ids import Position
from tests.server.topics.broker_scene import NAME, Broker, make_broker
from tests.server.topics.scene import FakeConnection, in_virtual_time, pass_time, settle
from tests.server.topics.storage_scene import SMALL_LEDGERS, numbers, process
from tests.server.web.web_scene import TOPIC, running
from tests.waiting import until

PATH = "/admin/v2/" + TOPIC.replace("://", "/")


def codes(reasons: list[dict[str, Any]]) -> list[str]:
    return [each["code"] for each in reasons]


async def test_the_answer_has_the_reasons_of_all_subscriptions_and_of_the_producers(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        client = await web.publish(3)
        for name in ("s", "other"):
            await web.call("PUT", f"{PATH}/subscription/{name}", '"earliest"')
        answer = await web.json(f"{PATH}/why")
        client.writer.close()
    assert answer["topic"] == TOPIC
    assert answer["broker"] == web.server.web_url.removeprefix("http://")
    assert answer["standsInTheWay"] is True
    assert answer["reasons"] == []
    assert sorted(answer["subscriptions"]) == ["other", "s"]
    told = answer["subscriptions"]["s"]
    assert codes(told["reasons"]) == ["NO_CONSUMER"]
    assert told["reasons"][0]["holdsBack"] == "everything"
    backlog = told["backlog"]
    assert (backlog["entries"], backlog["messages"], backlog["messagesAreExact"]) == (3, 3, True)
    assert (backlog["notReadEntries"], backlog["deliveredEntries"], backlog["delayedEntries"]) == (3, 0, 0)
    assert backlog["oldestPublishedMs"] == 1
    assert told["summary"].startswith("3 entries (3 messages), the oldest ")
    assert answer["producers"]["producerCount"] == 1
    assert answer["producers"]["standsInTheWay"] is False


async def test_one_subscription_is_asked_for_by_name(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        client = await web.publish(1)
        await web.call("PUT", f"{PATH}/subscription/s%2F1", '"latest"')
        await web.call("PUT", f"{PATH}/subscription/other", '"earliest"')
        answer = await web.json(f"{PATH}/why?subscription=s%2F1")
        assert list(answer["subscriptions"]) == ["s/1"]
        assert answer["subscriptionsLeftOut"] == 0
        status, _, body = await web.get(f"{PATH}/why?subscription=none")
        reason = "Subscription none not found; the topic has: other, s/1"
        assert (status, json.loads(body)) == (404, {"reason": reason})
        assert (await web.get(f"{PATH}x/why"))[0] == 404
        client.writer.close()


async def test_a_partitioned_topic_answers_for_each_partition(tmp_path: Path) -> None:
    base = "persistent://public/default/parts"
    path = "/admin/v2/persistent/public/default/parts"
    async with running(tmp_path) as web:
        await web.call("PUT", f"{path}/partitions", "3")
        answer = await web.json(f"{path}/why")
        assert list(answer["partitions"]) == [f"{base}-partition-{index}" for index in range(3)]
        assert answer["standsInTheWay"] is False
        await web.call("PUT", f"{path}/subscription/s", '"earliest"')
        answer = await web.json(f"{path}/why?subscription=s")
        assert answer["standsInTheWay"] is True
        for each in answer["partitions"].values():
            assert codes(each["subscriptions"]["s"]["reasons"]) == ["NO_CONSUMER", "NOTHING_TO_READ"]
        assert (await web.get(f"{path}/why?subscription=none"))[0] == 404


async def test_more_subscriptions_than_an_answer_takes_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("magnetar.server.why.answers.SUBSCRIPTIONS_MAX", 2)
    async with running(tmp_path) as web:
        for name in "abc":
            await web.call("PUT", f"{PATH}/subscription/{name}", '"earliest"')
        answer = await web.json(f"{PATH}/why")
        assert (len(answer["subscriptions"]), answer["subscriptionsLeftOut"]) == (2, 1)
        assert list((await web.json(f"{PATH}/why?subscription=c"))["subscriptions"]) == ["c"]


# --- topics that are not there yet ------------------------------------------------------------------------------------


def call_at(broker: Broker) -> Call:
    """Returns the call on the topic of `broker_scene`."""
    server = SimpleNamespace(
        service=broker.service, ownership=broker.service.ownership, broker_id="b:1", readiness=WriteReadiness()
    )
    parts = {"domain": "persistent", "tenant": "public", "namespace": "default", "topic": "t"}
    return Call(cast(Any, server), parts, MultiDict(), {})


async def stored_topic() -> Broker:
    broker = await make_broker()
    await broker.store.create(paths.managed_ledger_path(NAME.managed_ledger_name), make_parents=True)
    return broker


@in_virtual_time
async def test_a_topic_that_is_loading_says_for_how_long_and_in_which_step() -> None:
    broker = await stored_topic()
    broker.factory.gate = asyncio.Event()
    loading = asyncio.ensure_future(broker.service.get_topic(NAME, create=False))
    await pass_time(20)
    answer = await why_calls.why(call_at(broker))
    (reason,) = answer["reasons"]
    assert (reason["code"], answer["standsInTheWay"]) == ("TOPIC_LOADING", True)
    assert "for 25 s: its ledgers and cursors are being recovered" in reason["sentence"]
    broker.factory.gate.set()
    await loading
    assert (await why_calls.why(call_at(broker)))["reasons"] == []
    assert broker.service.load_permits.under_way == {}


@in_virtual_time
async def test_a_topic_that_waits_for_others_to_load_says_so() -> None:
    broker = await stored_topic()
    broker.service.load_permits._settings = cast(Any, SimpleNamespace(max_concurrent_topic_load_request=0))
    (reason,) = (await why_calls.why(call_at(broker)))["reasons"]
    assert (reason["code"], reason["figures"]["waitsForPermit"]) == ("TOPIC_LOADING", True)
    broker.service.load_permits.close()
    await settle()


async def test_a_topic_that_cannot_be_loaded_says_what_the_load_fails_with() -> None:
    broker = await stored_topic()
    broker.factory.failure = MetaStoreFault("t", "ledger 17: no bookie has entry 3")
    (reason,) = (await why_calls.why(call_at(broker)))["reasons"]
    assert reason["code"] == "TOPIC_LOAD_FAILS"
    assert "ledger 17: no bookie has entry 3" in reason["sentence"]


async def test_a_topic_that_another_broker_has_taken_says_so() -> None:
    broker = await stored_topic()
    topic = await broker.service.get_topic(NAME, create=False)
    answer = await why(topic, "b:1", is_owned=False, hindrance="", subscription=None)
    assert codes(cast(Any, answer["reasons"])) == ["NOT_OWNER"]
    assert answer["standsInTheWay"] is True
    topic.detach()
    answer = await why(topic, "b:1", is_owned=True, hindrance="", subscription=None)
    assert codes(cast(Any, answer["reasons"])) == ["TOPIC_CLOSING"]


# --- real ledgers -----------------------------------------------------------------------------------------------------


async def test_an_entry_that_every_bookie_lost_is_told_with_and_without_a_consumer(tmp_path: Path) -> None:
    async with process(tmp_path, MemoryStore(), SMALL_LEDGERS) as broker:
        consumer = await broker.consumer(FakeConnection(), "Shared")
        topic = await broker.topic()
        done: list[Position] = []
        topic.ledger.add_entries(
            numbers(0, 40), lambda result: done.extend(Position(run[0], run[1]) for run in result.runs)
        )
        await until(lambda: done)
        ledger_id = done[0].ledger_id
        topic.ledger.deactivate(topic.subscriptions["s"].cursor)  # the tail cache would still have them
        broker.disk.lost = {(ledger_id, 0), (ledger_id, 1)}
        consumer.close()
        told = await asked(topic)
        assert codes(told["reasons"]) == ["NO_CONSUMER", "OLDEST_UNREADABLE"]
        assert f"entries {ledger_id}:0 to {ledger_id}:1 (2) are lost" in told["reasons"][1]["sentence"]
        (await broker.consumer(FakeConnection(), "Shared")).flow(100)
        dispatcher = topic.subscriptions["s"].dispatcher
        assert dispatcher is not None
        await until(lambda: dispatcher.failure)
        told = await asked(topic)
        assert codes(told["reasons"]) == ["READ_FAILS"]
        assert "are lost" in told["reasons"][0]["sentence"]
        broker.disk.lost.clear()
        dispatcher.rewind()
        dispatcher.kick()
        await until(lambda: topic.subscriptions["s"].unacked_messages == 40)
        assert codes((await asked(topic))["reasons"]) == ["DELIVERED_NOT_ACKNOWLEDGED"]


async def asked(topic: Any) -> Any:
    answer = await why(topic, "b:1", is_owned=True, hindrance="", subscription="s")
    return cast(Any, answer["subscriptions"])["s"]
