"""A few rounds of SIGKILL under load; `python -m bench --only sigkill --rounds 50` runs as many as asked."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.python.crash_rounds import CrashRounds

ROUNDS = 4


@pytest.fixture
def rounds(tmp_path: Path) -> Iterator[CrashRounds]:
    made = CrashRounds(tmp_path, seed=random.SystemRandom().randrange(1 << 32))
    yield made
    made.server.close()
    made.server.assert_no_errors()


@pytest.mark.slow
def test_nothing_receipted_is_lost_by_kills_under_load(rounds: CrashRounds) -> None:
    results = [rounds.run_round() for _ in range(ROUNDS)]
    assert min(result.receipted for result in results) > 0
    assert sum(result.acknowledged for result in results) > 0
    assert rounds.verify_all_again() == sum(result.stored for result in results)
