"""A few rounds of the bank; `make bank` runs as many as asked, also on a cluster."""

import random
import shlex
import sys
from pathlib import Path

import pytest

from compat_tests.bank.campaign import Campaign
from compat_tests.bank.site import Standalone
from compat_tests.products import INTERPRETER_VARIABLE

pytestmark = pytest.mark.slow

ROUNDS = 3


def test_kills_neither_lose_nor_double_money_nor_show_half_a_transfer(tmp_path: Path) -> None:
    with Standalone(tmp_path) as site:
        done = Campaign(site, tmp_path, random.SystemRandom().randrange(1 << 32)).run(ROUNDS, print)
    assert [each.complaints for each in done] == [[]] * ROUNDS


def test_a_transaction_that_ends_on_one_of_its_topics_only_breaks_a_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = shlex.join([sys.executable, "-m", "tests.sim.planted", "only_one_topic_is_told"])
    monkeypatch.setenv(INTERPRETER_VARIABLE, planted)
    with Standalone(tmp_path) as site:
        done = Campaign(site, tmp_path, random.SystemRandom().randrange(1 << 32)).run(ROUNDS, print)
    assert done[-1].complaints
