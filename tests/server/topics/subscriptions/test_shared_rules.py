"""Turns on a Shared subscription, compared with a twin that looks at every consumer."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from magnetar.server.topics.subscriptions.shared_rules import RoundRobin
from tests.rounds import rounds


class Taker:
    def __init__(self, name: int, priority: int) -> None:
        self.name = name
        self.priority = priority
        self.can_take = True
        self.entries = 1.0


class Turns(RuleBasedStateMachine):
    """The twin: determines who may be next by a look at every consumer."""

    def __init__(self) -> None:
        super().__init__()
        self.round: RoundRobin[Taker] = RoundRobin()
        self.orders: dict[int, list[Taker]] = {}
        self.members: list[Taker] = []
        self.made = 0

    @rule(priority=st.integers(-1, 2))
    def join(self, priority: int) -> None:
        taker = Taker(self.made, priority)
        self.made += 1
        self.round.add(taker, priority)
        self.members.append(taker)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        taker = data.draw(st.sampled_from(self.members))
        self.round.remove(taker)
        self.members.remove(taker)

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def change_readiness(self, data: st.DataObject) -> None:
        taker = data.draw(st.sampled_from(self.members))
        taker.can_take = not taker.can_take

    @rule()
    def pick(self) -> None:
        able = [member for member in self.members if member.can_take]
        picked = self.round.pick()
        if not able:
            assert picked is None
            return
        assert picked is not None
        assert picked.can_take
        assert picked.priority == min(member.priority for member in able)

    @invariant()
    def best_level_takes(self) -> None:
        able = [member for member in self.members if member.can_take]
        best = min((member.priority for member in able), default=0)
        expected = [member for member in able if member.priority == best]
        assert self.round.entries(1_000) == sum(int(member.entries) for member in expected)
        assert self.round.entries(2) == min(2, len(expected))
        assert len(self.round) == len(self.members)
        assert sorted(member.name for member in self.round) == sorted(member.name for member in self.members)


TestTurns = Turns.TestCase
TestTurns.settings = settings(max_examples=rounds(60), stateful_step_count=40, deadline=None)


@settings(deadline=None)
@given(st.integers(1, 8), st.integers(1, 50))
def test_everybody_gets_the_same_number_of_turns(size: int, rounds: int) -> None:
    turns: RoundRobin[Taker] = RoundRobin()
    takers = [Taker(name, 0) for name in range(size)]
    for taker in takers:
        turns.add(taker, 0)
    picked = [turns.pick() for _ in range(size * rounds)]
    assert picked == takers * rounds


@settings(deadline=None)
@given(st.integers(2, 6), st.data())
def test_one_who_cannot_take_is_skipped_and_does_not_shift_the_others(size: int, data: st.DataObject) -> None:
    turns: RoundRobin[Taker] = RoundRobin()
    takers = [Taker(name, 0) for name in range(size)]
    for taker in takers:
        turns.add(taker, 0)
    out = data.draw(st.integers(0, size - 1))
    takers[out].can_take = False
    rest = [taker for taker in takers if taker is not takers[out]]
    assert [turns.pick() for _ in range(3 * len(rest))] == rest * 3


@settings(deadline=None)
@given(st.integers(2, 6), st.data())
def test_a_leaving_consumer_takes_nobody_s_turn_away(size: int, data: st.DataObject) -> None:
    turns: RoundRobin[Taker] = RoundRobin()
    takers = [Taker(name, 0) for name in range(size)]
    for taker in takers:
        turns.add(taker, 0)
    before = data.draw(st.integers(0, size - 1))
    for _ in range(before):
        turns.pick()
    left = data.draw(st.integers(0, size - 1))
    turns.remove(takers[left])
    expected = [taker for taker in (*takers[before:], *takers[:before]) if taker is not takers[left]]
    assert [turns.pick() for _ in range(size - 1)] == expected


def test_a_lower_level_gets_something_only_while_no_better_one_can_take() -> None:
    turns: RoundRobin[Taker] = RoundRobin()
    best, worse = Taker(0, 0), Taker(1, 1)
    turns.add(worse, 1)
    turns.add(best, 0)
    assert [turns.pick(), turns.pick()] == [best, best]
    best.can_take = False
    assert [turns.pick(), turns.pick()] == [worse, worse]
    best.can_take = True
    assert turns.pick() is best


def test_the_leaving_of_somebody_unknown_is_refused() -> None:
    turns: RoundRobin[Taker] = RoundRobin()
    turns.add(Taker(0, 0), 0)
    with pytest.raises(ValueError):
        turns.remove(Taker(1, 0))
