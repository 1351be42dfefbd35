"""Positions in a topic as a person writes them."""

import contextlib
from datetime import UTC, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.tools.messages.position_rules import End, Moment, Place, Position, parse_position, time_text

NOW_MS = 1_763_966_400_000
I64 = st.integers(0, 2**63 - 1)
PLACES = st.builds(Place, I64, I64, st.integers(-1, 999_999_999), st.integers(-1, 999_999_999))


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", End.EARLIEST),
        ("latest", End.LATEST),
        ("now", Moment(NOW_MS)),
        ("12:34", Place(12, 34)),
        ("12:34:2", Place(12, 34, 2)),
        ("12:34:-1:5", Place(12, 34, -1, 5)),
        ("(12,34,-1,0)", Place(12, 34, -1, 0)),
        ("2025-11-24T06:40:00Z", Moment(NOW_MS)),
        ("2025-11-24T07:40+01:00", Moment(NOW_MS)),
        ("2025-11-24T06:40", Moment(NOW_MS)),
        ("2025-11-24", Moment(NOW_MS - 24_000_000)),
        ("2025-11-24T06:40:00.250Z", Moment(NOW_MS + 250)),
        ("@1763966400", Moment(NOW_MS)),
        ("@1763966400000", Moment(NOW_MS)),
        ("-1h", Moment(NOW_MS - 3_600_000)),
        ("1h", Moment(NOW_MS - 3_600_000)),
        ("-1.5s", Moment(NOW_MS - 1500)),
        ("-9999w", Moment(0)),
    ],
)
def test_positions(text: str, position: Position) -> None:
    assert parse_position(text, NOW_MS, UTC) == position


def test_a_time_without_a_zone_is_in_the_zone_of_the_machine() -> None:
    east = timezone(timedelta(hours=2))
    assert parse_position("2025-11-24T08:40", NOW_MS, east) == Moment(NOW_MS)


@pytest.mark.parametrize(
    "text", ["", "sometime", "12:", "12:34:5:6:7", "1:2:-2", "2026-13-01", "@", "@x", "--1h", "99999999999999999999:1"]
)
def test_what_is_no_position_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' is no"):
        parse_position(text, NOW_MS, UTC)


@given(st.text())
def test_any_text_is_a_position_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(parse_position(text, NOW_MS, UTC), Position)


@given(PLACES)
def test_a_printed_id_is_read_as_the_same_id(place: Place) -> None:
    assert parse_position(str(place), NOW_MS, UTC) == place


@given(st.integers(0, 253_402_300_799_999))
def test_a_printed_time_is_read_as_the_same_time(moment_ms: int) -> None:
    assert parse_position(time_text(moment_ms), NOW_MS, UTC) == Moment(moment_ms)


@given(st.integers(0, 2**64 - 1))
def test_every_time_that_a_client_may_send_can_be_printed(moment_ms: int) -> None:
    assert time_text(moment_ms)


def test_the_order_of_ids() -> None:
    ordered = [Place(1, 9), Place(2, 0, -1, 0), Place(2, 0, -1, 1), Place(2, 1), Place(10, 0)]
    for index, place in enumerate(ordered):
        assert [place.is_before(other) for other in ordered] == [other > index for other in range(len(ordered))]


def test_the_partition_does_not_tell_messages_of_one_topic_apart() -> None:
    assert Place(2, 0, 0, 1).is_at(Place(2, 0, -1, 1))
    assert not Place(2, 0, 0, 1).is_at(Place(2, 0, 0))


def test_an_id_without_batch_index_stands_for_its_whole_entry() -> None:
    assert not Place(2, 0, -1, 3).is_before(Place(2, 0))
    assert not Place(2, 0, -1, 3).is_before(Place(2, 0))
