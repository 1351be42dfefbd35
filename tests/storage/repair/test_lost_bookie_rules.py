"""When lost bookies make an audit due."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage.repair.lost_bookie_rules import LostBookies

NAMES = st.frozensets(st.sampled_from("abcd"))


def test_a_lost_bookie_is_audited_at_once_without_a_delay() -> None:
    rules = LostBookies({"a", "b"}, delay=0)
    rules.look({"a"}, now=2)
    assert (rules.due, rules.lost) == (2, {"b"})


def test_a_single_lost_bookie_has_the_delay_to_come_back() -> None:
    rules = LostBookies({"a", "b"}, delay=60)
    rules.look({"a"}, now=2)
    assert rules.due == 62
    rules.look({"a"}, now=30)
    assert rules.due == 62, "the delay runs from the loss"
    rules.look({"a", "b"}, now=61)
    assert not rules.lost
    rules.look({"a", "b"}, now=62)
    assert rules.due is None


def test_a_second_lost_bookie_ends_the_delay() -> None:
    rules = LostBookies({"a", "b", "c"}, delay=60)
    rules.look({"a", "b"}, now=2)
    rules.look({"a"}, now=5)
    assert (rules.due, rules.lost) == (5, {"b", "c"})


def test_a_bookie_is_asked_for_once_and_again_when_it_is_lost_again() -> None:
    rules = LostBookies({"a", "b"}, delay=0)
    rules.look({"a"}, now=1)
    rules.audited()
    rules.look({"a"}, now=2)
    assert rules.due is None
    rules.look({"a", "b"}, now=3)
    rules.look({"a"}, now=4)
    assert rules.due == 4


def test_writing_the_delay_that_is_set_asks_for_an_audit() -> None:
    rules = LostBookies({"a"}, delay=60)
    rules.delay_written(60, now=5)
    assert rules.due == 5


def test_another_delay_counts_from_when_it_is_written() -> None:
    rules = LostBookies({"a", "b"}, delay=60)
    rules.delay_written(90, now=1)
    assert rules.due is None
    rules.look({"a"}, now=2)
    assert rules.due == 92
    rules.delay_written(10, now=50)
    assert rules.due == 60
    rules.delay_written(0, now=51)
    assert rules.due == 51


def test_the_periodic_check_does_not_cut_a_delay_short() -> None:
    rules = LostBookies({"a", "b"}, delay=60)
    rules.look({"a"}, now=0)
    rules.ask(now=1)
    assert rules.due == 60
    rules.audited()
    rules.ask(now=70)
    assert rules.due == 70


@given(st.floats(0, 100), st.lists(NAMES, min_size=1))
def test_every_bookie_that_stays_away_gets_an_audit(delay: float, looks: list[frozenset[str]]) -> None:
    """The model: for every bookie that was seen and is gone, an audit was made or is due."""
    rules = LostBookies((), delay)
    seen: set[str] = set()
    audited: set[str] = set()
    for now, registered in enumerate(looks):
        rules.look(registered, now)
        seen |= registered
        audited -= registered
        if rules.due is not None and rules.due <= now:
            audited |= seen - registered
            rules.audited()
        for bookie in seen - registered - audited:
            assert bookie in rules.lost
            assert rules.due is not None
            assert rules.due <= now + delay
        if not seen - registered:
            assert rules.due is None
