"""Every topic is in exactly one bundle, also after splits."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.metadata.cluster_init import bundles_data
from magnetar.server.namespaces.bundle_ranges import (
    FULL_RANGE,
    bundle_of,
    fault_of_boundaries,
    fault_of_range,
    parse_range,
    ranges_of,
    split,
)

FOUR = ["0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff"]


@given(st.integers(1, 300), st.text(min_size=1))
def test_a_topic_is_in_the_one_bundle_that_holds_its_hash(count: int, local: str) -> None:
    boundaries = bundles_data(count)["boundaries"]
    topic = f"persistent://a/b/{local}"
    hashed = crc32(topic.encode())
    lower, upper = parse_range(bundle_of(boundaries, topic)) or (0, 0)
    assert lower <= hashed < upper or (hashed == upper == 0xFFFFFFFF)
    assert bundle_of(boundaries, topic) in ranges_of(boundaries)


def test_apache_puts_these_topics_there() -> None:
    """The pairs come from captures of 4.0.7."""
    assert bundle_of(FOUR, "persistent://v1/n1/t1") == "0x00000000_0x40000000"
    assert bundle_of(FOUR, "persistent://v1/n1/pt-partition-0") == "0x00000000_0x40000000"
    assert bundle_of(FULL_RANGE, "persistent://v1/nope/t1") == "0x00000000_0xffffffff"


@given(st.lists(st.integers(0, 40), max_size=8))
def test_splitting_keeps_the_whole_range(choices: list[int]) -> None:
    boundaries = FOUR
    for choice in choices:
        ranges = ranges_of(boundaries)
        boundaries = split(boundaries, ranges[choice % len(ranges)])
    assert fault_of_boundaries(boundaries) is None
    assert len(ranges_of(boundaries)) == 4 + len(choices)


def test_a_bundle_is_split_where_it_is_told_or_in_half() -> None:
    assert split(FOUR, "0x00000000_0x40000000") == ["0x00000000", "0x20000000", *FOUR[1:]]
    assert split(FOUR, "0x00000000_0x40000000", [0x10, 0x10]) == ["0x00000000", "0x00000010", *FOUR[1:]]
    with pytest.raises(ValueError, match="cannot be split at 0x50000000"):
        split(FOUR, "0x00000000_0x40000000", [0x50000000])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("0x00000000_0x40000000", None),
        ("bad", "Invalid bundle range: bad"),
        ("0x40000000_0x00000000", "Invalid bundle range: 0x40000000_0x00000000"),
        ("0x10000000_0x40000000", "Invalid lower boundary for bundle a/b/0x10000000_0x40000000"),
        (
            "0x00000000_0x10000000",
            "Invalid upper boundary for bundle a/b/0x00000000_0x10000000. "
            "Expected upper boundary of a/b/0x00000000_0x40000000",
        ),
    ],
)
def test_what_is_no_bundle_is_told_as_apache_tells_it(text: str, fault: str | None) -> None:
    assert fault_of_range(FOUR, "a/b", text) == fault


@pytest.mark.parametrize("boundaries", [[], ["0x00000000"], ["0x0", "x"], ["0x1", "0xffffffff"], FOUR[:-1]])
def test_boundaries_must_cover_everything(boundaries: list[str]) -> None:
    assert fault_of_boundaries(boundaries) is not None


def test_boundaries_must_ascend() -> None:
    assert fault_of_boundaries(["0x00000000", "0x80000000", "0x40000000", "0xffffffff"]) is not None
