"""Ledgers that ask for groups of bookies are placed on these, and their wish is written with Java's bytes."""

from collections.abc import Callable, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage.ledger.isolation_rules import (
    POLICY_KEY,
    BookieGroups,
    PlacementByGroups,
    eligible,
    groups_in_metadata,
)
from magnetar.storage.ledger.ledger_errors import NotEnoughBookies
from magnetar.storage.ledger.placement_rules import AnyBookies, Placement

JAVA_VALUE = (
    b'{\n  "policyClass" : "org.apache.pulsar.bookie.rackawareness.IsolatedBookieEnsemblePlacementPolicy",\n'
    b'  "properties" : {\n    "isolationBookieGroups" : "g1",\n    "secondaryIsolationBookieGroups" : "g2"\n  }\n}'
)
"""The wish of a ledger of Pulsar 4.0.7, in a namespace with the primary group g1 and the secondary group g2."""

GROUPS = {"g1": {"a", "b"}, "g2": {"c"}, "g3": {"d"}}
BOOKIES = ["a", "b", "c", "d", "e"]


def test_the_wish_of_a_java_ledger_is_read_and_written_with_the_same_bytes() -> None:
    wanted = groups_in_metadata({POLICY_KEY: JAVA_VALUE})
    assert wanted == BookieGroups("g1", "g2")
    assert wanted.metadata() == JAVA_VALUE


@pytest.mark.parametrize(
    ("primary", "secondary", "ensemble", "expected"),
    [
        ("g1", "g2", 2, "ab"),  # enough primaries
        ("g1", "g2", 3, "abc"),  # and the secondaries
        ("g1", "", 3, "abe"),  # and those of no group, not those of other groups
        ("g1", "g2", 4, "abce"),
        ("g1,g3", "", 3, "abd"),
        ("", "", 1, "e"),
        ("nobody", "g2", 1, "c"),
        ("*", "*", 3, "abcde"),
    ],
)
def test_which_bookies_a_ledger_may_be_on(primary: str, secondary: str, ensemble: int, expected: str) -> None:
    assert eligible(BOOKIES, BookieGroups(primary, secondary), GROUPS, ensemble) == list(expected)


def test_without_groups_every_bookie_is_allowed() -> None:
    assert eligible(BOOKIES, BookieGroups("g1"), {}, 3) == BOOKIES


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"policyClass":"other"}', b"\xff", b'{"policyClass":3}'])
def test_a_wish_that_cannot_be_read_is_none(value: bytes) -> None:
    assert groups_in_metadata({POLICY_KEY: value}) is None
    assert groups_in_metadata({}) is None


def placements(default: BookieGroups | None = None) -> PlacementByGroups:
    def make(writable: Callable[[], Sequence[str]]) -> Placement:
        return AnyBookies(writable, Random(1))

    return PlacementByGroups(make, lambda: BOOKIES, lambda: GROUPS, default)


def test_a_ledger_without_a_wish_follows_the_configuration_of_the_client() -> None:
    assert set(placements(BookieGroups("g1"))({}).choose(2, 2, ())) == {"a", "b"}
    assert set(placements()({}).choose(5, 2, ())) == set(BOOKIES)
    asked = {POLICY_KEY: BookieGroups("g2").metadata()}
    assert placements(BookieGroups("g1"))(asked).choose(1, 1, ()) == ("c",)


def test_a_failed_bookie_is_replaced_within_the_groups() -> None:
    placement = placements()({POLICY_KEY: BookieGroups("g1", "g2").metadata()})
    assert set(placement.replace(("a", "b", "x"), {2: "x"}, 2, ())) == {"a", "b", "c"}
    with pytest.raises(NotEnoughBookies):
        placement.replace(("a", "b"), {1: "b"}, 2, ())


names = st.lists(st.sampled_from(["g1", "g2", "g3", "g9"]), max_size=3).map(",".join)


@given(names, names, st.integers(1, 5))
def test_bookies_of_groups_that_are_not_named_are_never_used(primary: str, secondary: str, ensemble: int) -> None:
    allowed = eligible(BOOKIES, BookieGroups(primary, secondary), GROUPS, ensemble)
    named = {*primary.split(","), *secondary.split(",")}
    strangers = {bookie for group, bookies in GROUPS.items() if group not in named for bookie in bookies}
    assert not strangers & set(allowed)
