"""A few rounds of the bank; `make bank` runs as many as asked, also on a cluster."""

import random
from pathlib import Path

import pytest

from compat_tests.bank.campaign import Campaign
from compat_tests.bank.site import Standalone

pytestmark = pytest.mark.slow

ROUNDS = 3


def test_kills_neither_lose_nor_double_money_nor_show_half_a_transfer(tmp_path: Path) -> None:
    with Standalone(tmp_path) as site:
        done = Campaign(site, tmp_path, random.SystemRandom().randrange(1 << 32)).run(ROUNDS, print)
    assert [each.complaints for each in done] == [[]] * ROUNDS
