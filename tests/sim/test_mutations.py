"""The simulation notices bugs: with each bug of `mutations` some history breaks a claim.

`KNOWN` are seeds whose histories did so when this was written, which keeps the search short. When one of them no longer
does, the search goes on with other seeds.
"""

import pytest

from tests.sim.mutations import MUTATIONS
from tests.sim.sim_history import tell

SEEDS_MAX = 600
KNOWN = {
    "recovery_reads_do_not_fence": 452,
    "lac_has_no_floor": 20,
    "acks_of_a_replaced_bookie_count": 1324,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_bug_breaks_a_claim(name: str) -> None:
    known = [KNOWN[name]] if name in KNOWN else []
    broken = None
    with MUTATIONS[name]():
        for seed in [*known, *range(SEEDS_MAX)]:
            try:
                tell(seed)
            except Exception:
                broken = seed
                break
    assert broken is not None, f"{name}: none of {SEEDS_MAX} histories noticed"
    tell(broken)  # the same history breaks no claim without the bug
