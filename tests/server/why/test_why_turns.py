"""An answer about many consumers is made in portions: other tasks run while it is made."""

import asyncio
from collections.abc import Iterator

import pytest

from magnetar.server.process import turns
from magnetar.server.why import answers
from magnetar.server.why.reasons import Reason
from magnetar.server.why.subscription_rules import reasons_of
from magnetar.server.why.subscription_snapshot import SubscriptionSnapshot
from tests.server.topics.scene import FakeConnection, Scene
from tests.server.topics.subscriptions.shared_scene import numbers


async def test_other_tasks_run_between_the_snapshot_and_each_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, events = Scene(), list[str]()
    for number in range(20):
        await scene.consumer(FakeConnection(), "Failover", consumer_name=f"billing-{number}")
    scene.ledger.append_now(numbers(1))

    def told(found: SubscriptionSnapshot) -> Iterator[Reason]:
        events.append("rules")
        for reason in reasons_of(found):
            events.append("reason")
            yield reason

    async def tick() -> None:
        while True:
            events.append("tick")
            await asyncio.sleep(0)

    monkeypatch.setattr(turns, "PORTION_SECONDS", -1.0)  # every portion takes longer
    monkeypatch.setattr(answers, "reasons_of", told)
    ticking = asyncio.ensure_future(tick())
    answer = await answers.why(scene.topic, "b:1", is_owned=True, hindrance="", subscription=None)
    ticking.cancel()
    assert answer["standsInTheWay"] is True
    reasons = [at for at, event in enumerate(events) if event == "reason"]
    assert events[events.index("rules") - 1] == "tick"
    assert len(reasons) > 1
    assert all(events[at + 1] == "tick" for at in reasons)
