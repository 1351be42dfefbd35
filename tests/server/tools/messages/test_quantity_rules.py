"""Durations, sizes, counts and pairs of the command line."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.tools.messages.quantity_rules import (
    count,
    duration_seconds,
    duration_text,
    number,
    pair,
    size_bytes,
    size_text,
)


def test_durations() -> None:
    texts = {"500ms": 0.5, "10": 10.0, "10s": 10.0, "1.5h": 5400.0, "2d": 172800.0, "1w": 604800.0, "0": 0.0}
    assert {text: duration_seconds(text) for text in texts} == texts


def test_sizes_are_in_powers_of_1024() -> None:
    texts = {"100": 100, "1k": 1024, "1.5K": 1536, "10M": 10 << 20, "2GiB": 2 << 30, "7B": 7, "1TB": 1 << 40}
    assert {text: size_bytes(text) for text in texts} == texts


def test_counts_are_in_powers_of_1000() -> None:
    texts = {"1": 1, "10k": 10_000, "1.5M": 1_500_000, "1_000": 1000, "1,000": 1000}
    assert {text: count(text) for text in texts} == texts
    assert number("0.5") == 0.5


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (duration_seconds, ""),
        (duration_seconds, "-1s"),
        (duration_seconds, "1y"),
        (duration_seconds, "1" * 30),
        (size_bytes, "1x"),
        (size_bytes, "-1"),
        (count, "0"),
        (count, "0.5"),
        (count, "many"),
        (pair, "novalue"),
        (pair, "=value"),
    ],
)
def test_what_is_wrong_is_named(parse: object, text: str) -> None:
    assert callable(parse)
    with pytest.raises(ValueError, match=text or "''"):
        parse(text)


def test_a_pair_may_have_an_empty_value_and_more_signs_of_equality() -> None:
    assert pair("a=") == ("a", "")
    assert pair("a=b=c") == ("a", "b=c")


@given(st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for parse in (duration_seconds, size_bytes, count, number):
        with contextlib.suppress(ValueError):
            assert parse(text) >= 0


def test_what_people_read() -> None:
    assert [duration_text(each) for each in (0.00005, 0.0123, 3.5, 600, 86400, 864000)] == [
        "50 µs",
        "12.3 ms",
        "3.5 s",
        "10 min",
        "24 h",
        "10 d",
    ]
    assert [size_text(each) for each in (12, 2048, 5 << 20, 3 << 40)] == ["12 B", "2.0 KiB", "5.0 MiB", "3.0 TiB"]
