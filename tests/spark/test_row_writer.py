"""What a task of the sink counts, and its pace."""

from spark.source.row_writer import Pace, Written


def test_nothing_is_written_at_first() -> None:
    assert (Written().rows, Written().skipped, Written().topics) == (0, 0, [])


def test_a_pace_asks_for_a_pause_ten_times_a_second() -> None:
    pace = Pace(50)
    assert [number for number in range(1, 21) if pace.is_due()] == [5, 10, 15, 20]


def test_the_slowest_pace_asks_after_every_message_and_none_never_does() -> None:
    slow, free = Pace(3), Pace(0)
    assert all(slow.is_due() for _ in range(5))
    assert not any(free.is_due() for _ in range(5))
