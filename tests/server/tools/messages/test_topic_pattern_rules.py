"""Patterns of topics."""

import pytest

from magnetar.server.tools.messages.topic_pattern_rules import matching, parse_pattern
from pulsar_proto.names import NamespaceName

TOPICS = [
    "persistent://public/default/orders-1",
    "persistent://public/default/orders-2-partition-0",
    "persistent://public/default/orders-2-partition-1",
    "persistent://public/default/my-orders-3",
]


def test_a_pattern_matches_whole_names_and_partitioned_topics_once() -> None:
    namespace, pattern = parse_pattern("orders-.*")
    assert namespace == NamespaceName("public", "default")
    assert matching(pattern, TOPICS) == [
        "persistent://public/default/orders-1",
        "persistent://public/default/orders-2",
    ]


@pytest.mark.parametrize("text", ["persistent://a/b/x[0-9]+", "a/b/x[0-9]+", "non-persistent://a/b/x[0-9]+"])
def test_the_namespace_of_a_pattern(text: str) -> None:
    assert parse_pattern(text) == (NamespaceName("a", "b"), "a/b/x[0-9]+")


@pytest.mark.parametrize("text", ["a/b", "a/.*/x", ".*/b/x", "orders-(", "a/b/", "x" * 2000])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"pattern|regular"):
        parse_pattern(text)
