"""Filtering and hashing the topics of a namespace."""

import random

import pytest

from magnetar.server.namespaces.topic_list_rules import filter_by_pattern, hash_of
from pulsar_proto.errors import InvalidTopicName
from tests.server.steps import finish

PARTS = [f"persistent://public/default/parts-partition-{index}" for index in range(3)]


def test_hashes_are_those_of_real_captures() -> None:
    shuffled = PARTS.copy()
    random.Random(1).shuffle(shuffled)
    assert hash_of(shuffled) == "a6b6622d"
    assert hash_of([*PARTS, "persistent://public/default/partsnew"]) == "29bc2f0f"
    assert hash_of(["persistent://public/default/jgrp"]) == "b427ea32"


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("persistent://public/default/parts.*", True),
        ("^persistent://public/default/parts.*", True),
        ("public/default/parts", True),
        ("persistent://public/default/part", False),
        (".*parts-partition-0", False),
        ("persistent://public/default/(parts|other)", True),
    ],
)
def test_the_whole_name_is_matched_without_scheme_and_partition(pattern: str, matches: bool) -> None:
    assert finish(filter_by_pattern(PARTS, pattern, 50)) == (PARTS if matches else [])


@pytest.mark.parametrize(
    "pattern",
    [
        "p" * 51,
        r"public/default/\p{Alpha}+",
        "(a+)+b",
        "(a|aa)*b",
        r"(a)\1",
        "(?=a).*",
        "a*a*a*a*a*a*a*b",
        r"public/default/(a+|\\)*b",
        r"a/b/a\\*a*\\*a*\\*a*\\*a*\\*a*b",
        "public/default/" + "a?" * 17,
        "public/default/a*a*a*b",
    ],
)
def test_what_is_too_long_too_costly_or_of_another_dialect_is_left_to_the_client(pattern: str) -> None:
    names = [f"persistent://public/default/{'a' * 60}"] * 1_000
    assert finish(filter_by_pattern(names, pattern, 50)) is None


def test_what_is_no_expression_is_an_invalid_name() -> None:
    with pytest.raises(InvalidTopicName, match="Invalid topics pattern: "):
        finish(filter_by_pattern(PARTS, "persistent://public/default/(", 50))
