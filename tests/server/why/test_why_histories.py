"""No answer is false: random histories of a subscription, at every point of which somebody asks why it gets nothing.

1. The parts of the backlog add up to it, and it is what the clients have not acknowledged; what is called delivered is
   what the clients have.
2. While a reason holds everything back, a message that is published is not delivered.
3. When no reason holds anything back, a message that is published is delivered at once.
4. A reason that is removed is gone from the next answer, or its figures or the backlog have changed.
5. Whoever removes the reasons one after the other gets every message.
"""

from typing import Any

from hypothesis import settings
from hypothesis.stateful import precondition, rule

from magnetar.server.why.reasons import Holds, Reason, in_the_way
from magnetar.server.why.subscription_gathering import subscription_snapshot
from magnetar.server.why.subscription_rules import reasons_of
from magnetar.server.why.subscription_snapshot import SubscriptionSnapshot
from pulsar_proto.ids import Position
from tests.rounds import rounds
from tests.server.topics.scene import pass_time, settle
from tests.server.topics.subscriptions.dispatch_histories import (
    AutoSplitHistories,
    DisorderHistories,
    ExclusiveHistories,
    FailoverHistories,
    Histories,
    RingHistories,
    SharedHistories,
    StickyHistories,
)

STEPS_MAX = 200
"""After so many removed reasons, more than any history has, something else holds the messages back."""


class Asking(Histories):
    """Histories with somebody who asks."""

    def snapshot(self) -> SubscriptionSnapshot:
        topic = self.model.scene.topic

        async def take() -> SubscriptionSnapshot:
            return subscription_snapshot(topic, topic.subscriptions["s"], self.model.now_ms)

        return self.model.do(take())

    def ask(self) -> list[Reason]:
        found = self.snapshot()
        parts = found.backlog
        assert parts.entries == len(self.model.left)
        assert (
            parts.delivered + parts.again + parts.waiting_for_chunks + parts.delayed + parts.not_read == parts.entries
        )
        if found.switch_seconds is None:
            assert parts.delivered == len(self.with_clients())
        reasons = list(reasons_of(found))
        if any(reason.code == "DELIVERED_NOT_ACKNOWLEDGED" for reason in reasons):
            others = set(self.model.left) - self.with_clients()
            assert all(self.model.due_ms.get(each, 0) > self.model.now_ms - 2 for each in others)
        return reasons

    def with_clients(self) -> set[Position]:
        """Returns the unacknowledged messages that the clients have."""
        model = self.model
        if not model.clients:
            return set()
        if model.is_shared:
            return {position for client in model.clients for position in client.held}
        last = model.last or Position(-1, -1)
        return {each for each in model.left if each <= last}

    @property
    def is_asked(self) -> bool:
        return "s" in self.model.scene.topic.subscriptions

    @precondition(lambda self: self.is_asked)
    @rule()
    def ask_and_publish(self) -> None:
        model = self.model
        model.check()
        reasons = self.ask()
        dispatcher = model.dispatcher
        is_reading = dispatcher is not None and dispatcher.is_reading
        is_unlucky = self.ledger.read_failures > 0 or self.gate is not None  # nobody can know that before the read
        model.publish([0])
        model.do(settle())
        delivered = [each.position for client in model.clients for each in client.cnx.messages]
        if any(reason.holds is Holds.EVERYTHING for reason in reasons):
            assert not delivered, f"{delivered} came in spite of {reasons}"
        if not in_the_way(reasons) and not is_reading and not is_unlucky:
            assert model.positions[-1] in delivered, f"not delivered, and only {reasons} stand in the way"
        model.check()

    @precondition(lambda self: self.is_asked)
    @rule()
    def do_as_the_answers_say(self) -> None:
        self.model.check()
        for _ in range(STEPS_MAX):
            reason = next((each for each in self.ask() if each.holds is not Holds.NOTHING), None)
            dispatcher = self.model.dispatcher
            if reason is None and dispatcher is not None and dispatcher.is_reading:
                self.model.do(pass_time(2))
                self.model.check()
                continue
            if reason is None:
                assert not self.model.left, f"{sorted(self.model.left)} wait, and nothing stands in the way"
                return
            before = self.snapshot().backlog
            self.remove(reason)
            self.model.check()
            assert reason not in self.ask() or self.snapshot().backlog != before, f"still there: {reason}"
        raise AssertionError("the reasons have no end")

    def remove(self, reason: Reason) -> None:
        """Does what an operator would do about the reason."""
        model, figures = self.model, reason.figures
        match reason.code:
            case "NO_CONSUMER" | "KEY_WITHOUT_CONSUMER":
                model.do(model.subscribe("d", 0))
                self.flow(model.clients[-1], 9)
            case "NO_PERMITS":
                for client in model.clients:
                    if client.permits <= 0:
                        self.flow(client, 10 - client.permits)
            case "CONNECTION_NOT_READ":
                self.everybody_reads_again()
            case "READ_WAITS":
                self.reads_end()
            case "READ_FAILS":
                if self.gate is not None:
                    self.reads_end()
                self.ledger.read_failures = 0
                model.do(pass_time(5))
            case "CONSUMER_SWITCH" | "DELAYED":
                model.do(pass_time(self.wait_for(figures)))
            case "KEY_CONSUMER_TAKES_NOTHING" | "CHUNKS_WAIT" | "LOOK_AHEAD_LIMIT":
                self.everybody_takes()
            case "KEY_HELD_BY_ANOTHER":
                holders = {each["holder"] for each in figures["hashes"]}  # type: ignore[attr-defined]
                for client in model.clients:
                    if client.consumer.name in holders:
                        self.acknowledge_all(client, list(client.held))
            case "CONSUMER_UNACKED_LIMIT" | "SUBSCRIPTION_UNACKED_LIMIT":
                for client in model.clients:
                    self.acknowledge_all(client, list(client.held))
            case "DELIVERED_NOT_ACKNOWLEDGED":
                self.acknowledge_everything_delivered()
            case _:
                raise AssertionError(f"nobody knows what to do about {reason}")

    def wait_for(self, figures: Any) -> float:
        if "seconds" in figures:
            return float(figures["seconds"]) + 0.1
        due_ms = figures["nextDueMs"]
        assert due_ms is not None
        return float(max(0, due_ms - self.model.now_ms)) / 1000 + 0.1

    def everybody_takes(self) -> None:
        for client in self.model.clients:
            self.acknowledge_all(client, list(client.held))
            self.model.call(client.cnx.become_writable)
            if client.permits <= 0:
                self.flow(client, 10 - client.permits)

    def acknowledge_everything_delivered(self) -> None:
        model = self.model
        if model.is_shared:
            for client in model.clients:
                self.acknowledge_all(client, list(client.held))
        else:
            self.acknowledge_all(model.clients[0], list(self.with_clients()))


class SharedAsked(Asking, SharedHistories):
    pass


class RingAsked(Asking, RingHistories):
    pass


class AutoSplitAsked(Asking, AutoSplitHistories):
    pass


class StickyAsked(Asking, StickyHistories):
    pass


class DisorderAsked(Asking, DisorderHistories):
    pass


class FailoverAsked(Asking, FailoverHistories):
    pass


class ExclusiveAsked(Asking, ExclusiveHistories):
    pass


LIMITS = settings(max_examples=rounds(60), stateful_step_count=30, deadline=None)
TestShared = SharedAsked.TestCase
TestShared.settings = LIMITS
TestRing = RingAsked.TestCase
TestRing.settings = LIMITS
TestAutoSplit = AutoSplitAsked.TestCase
TestAutoSplit.settings = LIMITS
TestSticky = StickyAsked.TestCase
TestSticky.settings = LIMITS
TestDisorder = DisorderAsked.TestCase
TestDisorder.settings = LIMITS
TestFailover = FailoverAsked.TestCase
TestFailover.settings = LIMITS
TestExclusive = ExclusiveAsked.TestCase
TestExclusive.settings = LIMITS
