"""Who owns a key, in all three modes, as Apache Pulsar's selectors decide it."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.server.topics.subscriptions.key_shared_rules import (
    SLOTS,
    AutoSplit,
    ConsistentHashing,
    KeySharedPolicy,
    Selector,
    Sticky,
    hash_of,
    range_slot,
    ring_slot,
    selector_for,
)
from pulsar_proto.errors import ConsumerAssignFault
from tests.rounds import rounds

GOLDEN = json.loads((Path(__file__).parents[3] / "vectors" / "key_shared_owners.json").read_text())
NAMES = ["a", "b", "a", "consumer-é", "e"]


class Member:
    def __init__(self, name: str) -> None:
        self.name = name


def owners(selector: Selector[Member], members: list[Member]) -> str:
    found = (selector.owner(index * 163 % 65_535 + 1) for index in range(1, 401))
    return "".join(str(next(i for i, member in enumerate(members) if member is owner)) for owner in found)


@pytest.mark.parametrize("kind", ["ring", "split"])
def test_owners_are_those_of_apache_pulsar(kind: str) -> None:
    selector: Selector[Member] = ConsistentHashing(100) if kind == "ring" else AutoSplit()
    golden = GOLDEN["owners"][kind]
    members = [Member(name) for name in NAMES]
    for member in members:
        selector.add(member, member.name)
    assert owners(selector, members) == golden["five"]
    selector.remove(members[0])
    selector.remove(members[3])
    assert owners(selector, members) == golden["less"]
    members[0] = Member("a")
    selector.add(members[0], "a")
    assert owners(selector, members) == golden["again"]


def test_hashes_are_those_of_apache_pulsar() -> None:
    assert {key: hash_of(key.encode()) for key in GOLDEN["hashes"]} == GOLDEN["hashes"]


def test_no_key_has_slot_zero() -> None:
    assert (ring_slot(0), ring_slot(SLOTS - 2), ring_slot(SLOTS - 1)) == (1, SLOTS - 1, 1)
    assert (range_slot(0), range_slot(SLOTS), range_slot(SLOTS - 1)) == (1, 1, SLOTS - 1)


@settings(deadline=None, max_examples=rounds(50))
@given(st.sampled_from(["ring", "split"]), st.lists(st.integers(0, 5), max_size=30))
def test_each_slot_has_one_owner_whoever_comes_and_goes(kind: str, events: list[int]) -> None:
    """Each event removes the member of that number, or adds a member when there is none."""
    selector: Selector[Member] = ConsistentHashing(7) if kind == "ring" else AutoSplit()
    members: list[Member] = []
    for event in events:
        if event < len(members):
            selector.remove(members.pop(event))
        else:
            members.append(Member(f"m{event}"))
            selector.add(members[-1], members[-1].name)
        ranges = sorted(
            (first, last, m) for m, member in enumerate(members) for first, last in selector.ranges().get(member, [])
        )
        if members:
            assert [ranges[0][0], ranges[-1][1]] == [1, SLOTS - 1]
        else:
            assert selector.owner(1) is None
        for (_, last, _), (first, _, _) in pairwise(ranges):
            assert first == last + 1
        for first, last, index in ranges:
            assert selector.owner(first) is selector.owner(last) is members[index]


def test_split_ranges_run_out() -> None:
    selector: AutoSplit[Member] = AutoSplit()
    selector._ends = [*range(1, SLOTS + 1)]
    selector._owners = [Member("x")] * SLOTS
    with pytest.raises(ConsumerAssignFault, match="No more range can assigned"):
        selector.add(Member("one too many"), "c")


def test_sticky_ranges_are_owned_by_who_chose_them() -> None:
    selector: Sticky[Member] = Sticky()
    first, second = Member("first"), Member("second")
    selector.add(first, "first", [(0, 99), (200, 299)])
    selector.add(second, "second", [(300, SLOTS - 1), (100, 150)])
    assert [selector.owner(slot) for slot in (1, 99, 100, 150, 200, 299, 300, 65_535)] == [
        *(first, first, second, second),
        *(first, first, second, second),
    ]
    assert selector.owner(151) is selector.owner(199) is None
    assert selector.ranges()[second] == [(100, 150), (300, SLOTS - 1)]
    assert selector.rival([(180, 190), (90, 98)]) is first
    assert selector.rival([(120, 180)]) is second
    selector.remove(first)
    assert selector.owner(1) is None
    assert selector.rival([(0, 99)]) is None


@pytest.mark.parametrize(
    ("ranges", "text"),
    [
        ([], "must not be empty"),
        ([(5, 4)], "is not"),
        ([(0, SLOTS)], "is not"),
        ([(-1, 3)], "is not"),
        ([(300, 400), (350, 360)], "of one consumer overlap"),
        ([(300, 400), (50, 100)], "Range conflict"),
        ([(0, 1000)], "Range conflict"),
        ([(500, 500)] * (SLOTS + 1), "more than there are slots"),
        ([(99, 99)], "Range conflict"),
    ],
)
def test_sticky_ranges_that_cannot_be_are_refused(ranges: list[tuple[int, int]], text: str) -> None:
    selector: Sticky[Member] = Sticky()
    selector.add(Member("there"), "there", [(10, 99), (120, 199)])
    with pytest.raises(ConsumerAssignFault, match=text):
        selector.add(Member("new"), "new", ranges)
    selector.add(Member("other"), "other", [(0, 9), (100, 119), (200, SLOTS - 1)])


def test_the_policy_says_which_selector() -> None:
    def kind(policy: KeySharedPolicy, consistent_hashing: bool) -> type[object]:
        selector: Selector[Member] = selector_for(policy, consistent_hashing=consistent_hashing, points=3)
        return type(selector)

    assert kind(KeySharedPolicy(is_sticky=True), True) is Sticky
    assert kind(KeySharedPolicy(), True) is ConsistentHashing
    assert kind(KeySharedPolicy(allows_disorder=True), False) is AutoSplit
