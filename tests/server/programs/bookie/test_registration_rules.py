"""Whatever is in ZooKeeper, the steps lead to the one record that is wanted, and a bookie on the list never drops out
of it."""

from itertools import product

import pytest

from magnetar.server.programs.bookie.registration_rules import SeenRecord, Step, next_step

STEPS_MAX = 5


@pytest.mark.parametrize(("wanted", "other"), list(product(SeenRecord, SeenRecord)))
def test_the_steps_end_with_the_wanted_record_alone(wanted: SeenRecord, other: SeenRecord) -> None:
    for _ in range(STEPS_MAX):
        match next_step(wanted, other):
            case Step.REGISTERED:
                break
            case Step.CREATE:
                assert wanted is SeenRecord.ABSENT
                wanted = SeenRecord.OURS
            case Step.AWAIT_END:
                assert wanted is SeenRecord.FORMER, "nothing else ends by itself"
                wanted = SeenRecord.ABSENT
            case Step.DELETE_OTHER:
                assert wanted is SeenRecord.OURS, "the new record is there before the old one goes"
                other = SeenRecord.ABSENT
    assert (wanted, other) == (SeenRecord.OURS, SeenRecord.ABSENT)


def test_a_former_sessions_record_is_never_deleted_where_ours_must_stand() -> None:
    """The deletion might arrive after ZooKeeper ended that session and this one made its record."""
    for other in SeenRecord:
        assert next_step(SeenRecord.FORMER, other) is Step.AWAIT_END
