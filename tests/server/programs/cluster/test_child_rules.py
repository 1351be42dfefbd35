"""The life of a supervised child: it is always started again, ever more rarely while it keeps dying, until it is
stopped."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.programs.cluster.child_rules import (
    HUNG_SECONDS,
    LOOK_SECONDS,
    OWN_GAP_SECONDS,
    PAUSE_FIRST_SECONDS,
    PAUSE_SECONDS_MAX,
    STEADY_SECONDS,
    ChildLife,
    ChildState,
    IllegalChildEventError,
    SignsOfLife,
    pause_seconds,
)


def lived(life: ChildLife, now: float, seconds: float | None) -> float:
    """Lets the child live for so long after it was ready, or die before it was ready if `seconds` is None; returns the
    pause that follows."""
    life.start()
    if seconds is not None:
        life.ready(now)
    life.end(now + (seconds or 0))
    life.clear()
    return life.pause_seconds


def happen(life: ChildLife, event: str, now: float) -> None:
    if event in ("ready", "end"):
        getattr(life, event)(now)
    else:
        getattr(life, event)()


def test_a_steady_child_is_started_again_at_once() -> None:
    life = ChildLife()
    assert lived(life, 5.0, STEADY_SECONDS) == 0
    assert lived(life, 50.0, STEADY_SECONDS) == 0
    assert life.starts == 2


def test_pauses_grow_while_it_keeps_dying_and_a_steady_time_forgives_all() -> None:
    life = ChildLife()
    pauses = [lived(life, 10.0 * number, None if number % 2 else 1.0) for number in range(12)]
    assert pauses[:4] == [0, PAUSE_FIRST_SECONDS, 2 * PAUSE_FIRST_SECONDS, 4 * PAUSE_FIRST_SECONDS]
    assert pauses == sorted(pauses)
    assert pauses[-1] == PAUSE_SECONDS_MAX
    assert lived(life, 1000.0, STEADY_SECONDS) == 0


@given(st.integers(0, 10_000))
def test_no_pause_is_longer_than_the_longest(failures: int) -> None:
    assert 0 <= pause_seconds(failures) <= PAUSE_SECONDS_MAX


def test_a_child_that_is_stopped_is_never_started_again() -> None:
    for steps in ("", "start", "start ready", "start end"):
        life = ChildLife()
        for step in steps.split():
            happen(life, step, 1.0)
        life.stop()
        life.stop()
        if life.state is ChildState.STOPPING:
            life.end(3.0)
        assert life.state is ChildState.STOPPED
        with pytest.raises(IllegalChildEventError):
            life.start()


EVENTS = st.sampled_from(["start", "ready", "end", "clear", "stop"])


@given(st.lists(EVENTS, max_size=60))
def test_an_illegal_event_raises_and_changes_nothing(events: list[str]) -> None:
    life = ChildLife()
    stopped = False
    for number, event in enumerate(events):
        before = (life.state, life.starts, life.pause_seconds)
        try:
            happen(life, event, float(number))
        except IllegalChildEventError:
            assert (life.state, life.starts, life.pause_seconds) == before
        else:
            stopped = stopped or event == "stop"
            if stopped:
                assert life.state in (ChildState.STOPPING, ChildState.STOPPED)


def looks(signs: SignsOfLife, since: float, seconds: float) -> bool:
    """Looks at the usual pace for so many seconds. Returns whether the child was found to hang."""
    count = int(seconds / LOOK_SECONDS)
    return True in [signs.hangs(since + number * LOOK_SECONDS) for number in range(count + 1)]


def test_a_child_that_falls_silent_hangs_after_a_long_time() -> None:
    signs = SignsOfLife()
    signs.beat()
    assert not looks(signs, 0, HUNG_SECONDS - 1)
    signs.beat()
    assert not looks(signs, HUNG_SECONDS, HUNG_SECONDS - 2)
    assert looks(signs, 2 * HUNG_SECONDS, HUNG_SECONDS)


def test_a_child_that_never_gave_a_sign_is_not_judged() -> None:
    assert not looks(SignsOfLife(), 0, 3 * HUNG_SECONDS)


def test_a_pause_of_the_supervisor_itself_is_nobodys_silence() -> None:
    """Ctrl-Z, a sleeping laptop or an overloaded machine stop the supervisor together with its children."""
    signs = SignsOfLife()
    signs.beat()
    assert not looks(signs, 0, HUNG_SECONDS - 1)
    resumed = HUNG_SECONDS + OWN_GAP_SECONDS
    assert not looks(signs, resumed, HUNG_SECONDS - 1), "the patience begins anew"
    assert looks(signs, resumed + HUNG_SECONDS, 1)
