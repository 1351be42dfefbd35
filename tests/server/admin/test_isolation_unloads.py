"""Namespaces are unloaded when their isolation policy changes, also if an owner refuses at first."""

import asyncio
from collections import Counter

import pytest

from magnetar.server.admin import isolation_unloads
from magnetar.server.admin.isolation_unloads import unload_moved
from magnetar.server.broker.broker_state import BrokerState
from magnetar.server.web.calls import Refusal
from pulsar_proto.errors import ServiceNotReady
from tests.server.fakes import make_broker, settle
from tests.waiting import until

PAUSES = (0.0, 0.0, 0.0)


class Owners:
    """The owners of bundles. They refuse to unload a namespace as often as `refusals` says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refusals: dict[str, list[Exception]]) -> None:
        self.refusals = refusals
        self.asked: Counter[str] = Counter()
        monkeypatch.setattr(isolation_unloads, "unload_everywhere", self.unload)

    async def unload(self, broker: object, namespace: str) -> None:
        await asyncio.sleep(0)
        self.asked[namespace] += 1
        if self.refusals.get(namespace):
            raise self.refusals[namespace].pop(0)


async def test_only_what_was_refused_is_unloaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals: dict[str, list[Exception]] = {"t/b": [Refusal(503, "stopping"), ServiceNotReady("away")]}
    owners, broker = Owners(monkeypatch, refusals), make_broker()
    await unload_moved(broker, ["t/a", "t/b", "t/c"], PAUSES)
    assert owners.asked == {"t/a": 1, "t/b": 1, "t/c": 1}, "the caller does not wait for the attempts that follow"
    assert not broker.background_tasks, "the end of a broker would wait for them"
    await until(lambda: owners.asked["t/b"] == 3)
    await until(lambda: not broker.background_tasks)
    assert owners.asked == {"t/a": 1, "t/b": 3, "t/c": 1}


async def test_what_is_refused_every_time_is_told_in_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    owners = Owners(monkeypatch, {"t/a": [Refusal(503, "stopping") for _ in range(9)]})
    await unload_moved(make_broker(), ["t/a"], PAUSES)
    await until(lambda: "t/a: bundles stay at brokers" in caplog.text)
    assert owners.asked == {"t/a": 1 + len(PAUSES)}


async def test_a_broker_that_stops_unloads_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    owners, broker = Owners(monkeypatch, {"t/a": [Refusal(503, "stopping")]}), make_broker()
    broker.state = BrokerState.CLOSING
    await unload_moved(broker, ["t/a"], PAUSES)
    await settle()
    assert owners.asked == {"t/a": 1}
    assert not broker.background_tasks
