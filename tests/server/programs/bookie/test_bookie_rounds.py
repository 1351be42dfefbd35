"""A few rounds of killed and paused bookies under load; `bookie_rounds` runs as many as one likes."""

from pathlib import Path

import pytest

from tests.server.programs.bookie.bookie_rounds import GROUP, run_rounds

pytestmark = [pytest.mark.process, pytest.mark.slow]


def test_nothing_acknowledged_is_lost_while_bookies_are_killed_and_paused(tmp_path: Path) -> None:
    verdict = run_rounds(tmp_path, rounds=3, seed=5)
    assert verdict.faults == []
    assert verdict.acknowledged > 10 * GROUP
