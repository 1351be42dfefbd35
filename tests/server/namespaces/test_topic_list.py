"""Filtering and hashing the topics of a namespace."""

import random

import pytest

from magnetar.server.namespaces.topic_list_rules import (
    NAMES_AT_ONCE,
    difference,
    digest_of,
    filter_by_pattern,
    hash_of,
)
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


@pytest.mark.parametrize("count", [0, 1, NAMES_AT_ONCE, NAMES_AT_ONCE + 1, 5 * NAMES_AT_ONCE + 7])
def test_the_digest_of_a_long_list_is_made_in_steps_and_has_its_hash(count: int) -> None:
    names = sorted(f"persistent://public/default/ä-{number}" for number in range(count))
    digest = finish(digest_of(names))
    assert digest.topics_hash == hash_of(names)
    assert digest.name_bytes == sum(len(name.encode()) for name in names)


@pytest.mark.parametrize("seed", range(20))
def test_the_difference_of_two_lists_is_what_only_one_of_them_has(seed: int) -> None:
    chance = random.Random(seed)
    names = [f"{number:06}" for number in range(4 * NAMES_AT_ONCE)]
    old = sorted(chance.sample(names, chance.choice([0, 10, NAMES_AT_ONCE, 3 * NAMES_AT_ONCE])))
    new = sorted(chance.sample(names, chance.choice([0, 10, NAMES_AT_ONCE, 3 * NAMES_AT_ONCE])))
    added, removed = finish(difference(old, new))
    assert (added, removed) == (sorted({*new} - {*old}), sorted({*old} - {*new}))


def test_the_list_of_a_large_namespace_is_filtered_by_patterns_with_two_repeats() -> None:
    names = [f"persistent://public/default/single-{number}" for number in range(50_000)]
    matching = finish(filter_by_pattern(names, "persistent://public/default/s.*-4999.*", 50))
    assert matching == [name for name in names if name.split("-")[1].startswith("4999")]
