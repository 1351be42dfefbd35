"""JSON of callers is read as Jackson reads it, or refused with the name of the fault, and never makes a call crash."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.admin import bodies
from magnetar.server.admin.policy_rows import NAMESPACE_ROWS, TOPIC_ROWS
from magnetar.server.web.calls import Refusal

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(3, 3), ("3", 3), (None, 0), (1.9, 1), ("-1", -1), (2**31 - 1, 2**31 - 1)],
)
def test_numbers_are_read_leniently(value: Any, expected: int) -> None:
    assert bodies.integer(value) == expected


@pytest.mark.parametrize("value", ["x", "", True, [], {}, 2**31, "1e99", "0x10", "٣", float("inf")])
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(Refusal) as refused:
        bodies.integer(value)
    assert refused.value.status == 400


def test_truth_may_stand_in_a_string() -> None:
    assert bodies.boolean("TRUE")
    assert not bodies.boolean(None)
    with pytest.raises(Refusal, match="true or false"):
        bodies.boolean(1)


@pytest.mark.parametrize("body", [b"{bad", b"\xff", b"NaN", b"[" * 100_000, b"1 2"])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        bodies.parse(body)
    assert refused.value.status == 400


def test_no_body_is_not_null() -> None:
    assert bodies.parse(b" ") is bodies.ABSENT
    assert bodies.parse(b"null") is None
    with pytest.raises(Refusal, match="The request entity cannot be empty"):
        bodies.present(bodies.ABSENT)


@given(ANY_JSON)
def test_no_policy_can_be_broken_by_a_value(value: Any) -> None:
    """A value is refused, or it is accepted and can be stored as JSON."""
    statuses = set()
    for row in (*NAMESPACE_ROWS, *TOPIC_ROWS):
        try:
            read = row.read(value)
            row.check(read)
        except Refusal as refusal:
            statuses.add(refusal.status)
        else:
            json.dumps(read)
    assert statuses <= {400, 412}


@pytest.mark.parametrize("body", [rb'{"a":"\ud800"}', rb'{"\udc00":1}', b'{"a":"\xed\xa0\x80"}'])
def test_half_of_a_surrogate_pair_is_refused(body: bytes) -> None:
    with pytest.raises(Refusal, match="surrogates not allowed") as caught:
        bodies.parse(body)
    assert caught.value.status == 400


def test_escaped_characters_are_read() -> None:
    assert bodies.parse(rb'{"a":"\u00e9 \ud83d\ude00"}') == {"a": "\u00e9 \U0001f600"}
