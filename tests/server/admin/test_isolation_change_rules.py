"""Which namespaces move when an isolation policy changes."""

from typing import Any

import pytest

from magnetar.server.admin.isolation_change_rules import isolation_of, moved_by_isolation

OLD: dict[str, Any] = {"namespaces": ["a/.*"], "primary": ["h1"], "secondary": []}
NARROW: dict[str, Any] = {**OLD, "namespaces": ["a/x"]}


@pytest.mark.parametrize(
    ("namespace", "before", "after", "moves"),
    [
        ("a/x", {}, OLD, True),
        ("b/x", {}, OLD, False),
        ("a/x", OLD, OLD, False),
        ("a/x", OLD, {**OLD, "unload_scope": "all_matching"}, True),
        ("b/x", OLD, {**OLD, "unload_scope": "all_matching"}, False),
        ("a/x", {}, {**OLD, "unload_scope": "none"}, False),
        ("a/x", OLD, {**OLD, "primary": ["h2"]}, True),
        ("a/x", OLD, {**OLD, "primary": ["h2"], "unload_scope": "changed"}, True),
        ("a/x", OLD, NARROW, False),
        ("a/y", OLD, NARROW, True),
        ("a/y", NARROW, OLD, True),
        ("a/xx", {}, {**OLD, "namespaces": ["a/x", "("]}, False),
    ],
)
def test_a_change_moves_what_it_may_place_elsewhere(
    namespace: str, before: dict[str, Any], after: dict[str, Any], moves: bool
) -> None:
    assert moved_by_isolation(namespace, before, after) is moves


def test_a_broker_s_part_is_that_of_the_first_policy_of_the_namespace() -> None:
    policies = {"p": {**OLD, "secondary": ["h2"]}, "q": {"namespaces": [".*"], "primary": ["h3"]}}
    for namespace, host, assignment, controlled in (
        ("a/x", "h1", "primary", True),
        ("a/x", "h2", "secondary", True),
        ("a/x", "h3", "shared", True),
        ("b/x", "h3", "primary", True),
    ):
        assert isolation_of(namespace, host, policies) == {"broker_assignment": assignment, "is_controlled": controlled}
    assert isolation_of("b/x", "h1", {}) == {"broker_assignment": "shared", "is_controlled": False}
