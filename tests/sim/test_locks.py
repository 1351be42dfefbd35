"""Locks and elections keep their claims on random histories, and the histories find planted bugs."""

import pytest

from tests.rounds import rounds
from tests.sim.lock_history import tell
from tests.sim.lock_mutations import MUTATIONS

SEEDS = rounds(20)
SEEDS_OF_A_MUTATION = 150
KNOWN = {
    "a_lock_that_others_wrote_is_left_so": 90,
    "a_reconnected_follower_does_not_look_who_leads": 44,
    "a_failed_check_is_not_repeated": 17,
    "an_unfinished_release_is_forgotten": 9,
}
"""Seeds whose histories noticed when this was written, which keeps the search short."""


def test_no_history_of_locks_breaks_a_claim() -> None:
    for seed in range(SEEDS):
        try:
            tell(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_bug_of_locks_breaks_a_claim(name: str) -> None:
    broken = None
    with MUTATIONS[name]():
        for seed in (*([KNOWN[name]] if name in KNOWN else []), *range(SEEDS_OF_A_MUTATION)):
            try:
                tell(seed)
            except Exception:
                broken = seed
                break
    assert broken is not None, f"{name}: none of {SEEDS_OF_A_MUTATION} histories noticed"
    tell(broken)  # the same history breaks no claim without the bug
