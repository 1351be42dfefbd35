"""Plans follow from their seeds, and over many seeds they have every kind of fault on every pair of roles."""

from dataclasses import replace

import pytest

from compat_tests.chaos.link_rules import LinkRule
from compat_tests.chaos.plan import (
    FAULTS_MAX,
    OF_LINKS,
    SESSION_SECONDS,
    WITH_SHIM,
    Fault,
    Kind,
    Shape,
    bookies_taken_away,
    plan_of,
)

SHAPE = Shape("z", ("k0", "k1", "k2"), ("b0", "b1"), "c", tiny_disk="k2")
SECONDS = 9.0
PLANS = [plan_of(f"7 {number}", SHAPE, SECONDS) for number in range(2_000)]
FAULTS = [fault for plan in PLANS for fault in plan]


def roles_of(fault: Fault) -> frozenset[str]:
    return frozenset((fault.target[0], fault.other[:1]))


def test_a_plan_follows_from_its_seed() -> None:
    assert plan_of("7 3", SHAPE, SECONDS) == PLANS[3]
    assert len(set(PLANS)) > 1_900


def test_a_plan_has_one_to_three_faults_that_end_in_time() -> None:
    assert {len(plan) for plan in PLANS} == set(range(1, FAULTS_MAX + 1))
    assert all(0 <= fault.begins <= fault.ends <= SECONDS + 0.02 for fault in FAULTS)


def test_every_kind_hits_every_role_that_it_can_hit() -> None:
    links = {frozenset(pair) for pair in ("zk", "zb", "kb", "bc")} | {frozenset("k"), frozenset("b")}
    for kind in OF_LINKS:
        assert {roles_of(fault) for fault in FAULTS if fault.kind is kind} == links
    for kind, roles in ((Kind.FREEZE, "zkb"), (Kind.KILL, "zkb"), (Kind.CLOCK, "zkb"), (Kind.FAILED_SYNC, "zk")):
        assert {fault.target[0] for fault in FAULTS if fault.kind is kind} == set(roles)
    assert {fault.target for fault in FAULTS if fault.kind is Kind.FULL_DISK} == {"k2"}


def test_one_way_partitions_go_both_ways_in_turn() -> None:
    ways = {(fault.target[0], fault.other[0]) for fault in FAULTS if fault.kind is Kind.ONE_WAY}
    assert {("z", "b"), ("b", "z"), ("k", "b"), ("b", "k"), ("c", "b"), ("b", "c")} <= ways


def test_processes_freeze_for_shorter_and_for_longer_than_their_sessions() -> None:
    frozen = [fault.lasts for fault in FAULTS if fault.kind is Kind.FREEZE]
    shorter = [each for each in frozen if each < SESSION_SECONDS]
    assert 0.3 < len(shorter) / len(frozen) < 0.7


def test_no_process_and_no_link_has_two_faults_of_its_kind() -> None:
    for plan in PLANS:
        own = [fault.target for fault in plan if fault.kind not in OF_LINKS]
        links = [frozenset((fault.target, fault.other)) for fault in plan if fault.kind in OF_LINKS]
        assert len(set(own)) == len(own)
        assert len(set(links)) == len(links)


def test_no_plan_takes_away_more_bookies_than_are_to_spare() -> None:
    taken = [bookies_taken_away(plan, SHAPE) for plan in PLANS]
    assert max(len(bookies) for bookies in taken) == SHAPE.spare_bookies
    assert set().union(*taken) == set(SHAPE.bookies)
    many = replace(SHAPE, spare_bookies=2)
    assert max(len(bookies_taken_away(plan_of(f"7 {number}", many, SECONDS), many)) for number in range(500)) == 2


def test_a_bookie_is_taken_away_by_its_disk_and_by_a_cut_to_those_who_write() -> None:
    def taken(kind: Kind, target: str, other: str = "") -> set[str]:
        return bookies_taken_away((Fault(kind, target, other, 0, 1, 0),), SHAPE)

    assert taken(Kind.FAILED_SYNC, "k1") == taken(Kind.KILL, "k1") == taken(Kind.ONE_WAY, "b0", "k1") == {"k1"}
    assert taken(Kind.PARTITION, "k1", "z") == {"k1"}
    assert taken(Kind.PARTITION, "k1", "k2") == taken(Kind.DELAY, "k1", "b0") == taken(Kind.KILL, "b0") == set()


def test_without_a_compiler_no_plan_needs_the_library() -> None:
    bare = replace(SHAPE, has_shim=False, tiny_disk="")
    kinds = {fault.kind for number in range(500) for fault in plan_of(f"7 {number}", bare, SECONDS)}
    assert kinds == set(Kind) - {*WITH_SHIM, Kind.FULL_DISK}


@pytest.mark.parametrize(("drawn", "is_lost"), [(0.0, True), (0.29, True), (0.31, False)])
def test_a_link_loses_its_share(drawn: float, is_lost: bool) -> None:
    assert LinkRule(loss=0.3).loses(drawn) is is_lost


def test_faults_of_one_link_add_up() -> None:
    joined = LinkRule(delay=0.1).joined(LinkRule(loss=0.5)).joined(LinkRule(loss=0.5, delay=0.2))
    assert (joined.is_cut, joined.loss, round(joined.delay, 3)) == (False, 0.75, 0.3)
    assert joined.joined(LinkRule(is_cut=True)).loses(0.999)
