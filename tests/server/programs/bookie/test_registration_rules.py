"""Whatever stands in ZooKeeper, the steps lead to one record as wanted, and a bookie in the list never drops out."""

from itertools import product

import pytest

from magnetar.server.programs.bookie.registration_rules import Seen, Step, next_step

STEPS_MAX = 5


@pytest.mark.parametrize(("wanted", "other"), list(product(Seen, Seen)))
def test_the_steps_end_with_the_wanted_record_alone(wanted: Seen, other: Seen) -> None:
    for _ in range(STEPS_MAX):
        match next_step(wanted, other):
            case Step.REGISTERED:
                break
            case Step.CREATE:
                assert wanted is Seen.ABSENT
                wanted = Seen.OURS
            case Step.AWAIT_END:
                assert wanted is Seen.FORMER, "nothing else ends by itself"
                wanted = Seen.ABSENT
            case Step.DELETE_OTHER:
                assert wanted is Seen.OURS, "the new record is there before the old one goes"
                other = Seen.ABSENT
    assert (wanted, other) == (Seen.OURS, Seen.ABSENT)


def test_a_former_sessions_record_is_never_deleted_where_ours_must_stand() -> None:
    """It might be deleted after ZooKeeper ended that session and we made ours."""
    for other in Seen:
        assert next_step(Seen.FORMER, other) is Step.AWAIT_END
