"""The page of performance shows the figures of one run, and commands that the bench understands."""

import re

from bench.__main__ import build_parser
from bench.page import Run, page, table
from bench.rows import PAGE, SCENARIOS, Row
from bench.sizes import QUICK, Sizes

RATE = Row("r", "s", "a rate", "k msg/s", goal=60, apache=40, more_is_better=True)
COST = Row("c", "s", "a cost", "s", goal=None, apache=6, goal_ratio=2.0)
UNKNOWN = Row("u", "s", "never measured by Apache", "MB", goal=5, apache=None)


def test_a_row_of_the_page_has_the_figures_of_the_run() -> None:
    lines = table([RATE, COST], {"r": 80, "c": 1.5}, {"r": 20, "c": 3}).splitlines()
    assert "| a rate | k msg/s | ≥ 60.0 | 80.0 | 20.0 | 4.00 |" in lines
    assert "| a cost | s | ≥ 2 × Apache | 1.50 | 3.00 | 2.00 |" in lines


def test_older_figures_of_apache_have_a_star() -> None:
    assert r"| 80.0 | 40.0\* | 2.00 |" in table([RATE], {"r": 80}, None)


def test_a_row_without_figures_is_left_out_and_one_without_apaches_has_empty_cells() -> None:
    text = table([RATE, UNKNOWN], {"u": 4}, None)
    assert "a rate" not in text
    assert "| never measured by Apache | MB | ≤ 5.00 | 4.00 |  |  |" in text


def test_the_page_names_the_machine_and_the_form_of_the_server() -> None:
    quick = page([RATE], {"r": 80}, None, Run("2 cores, quiet", QUICK, compiled=False, peer_measured=False))
    assert "2 cores, quiet" in quick
    assert "from the sources" in quick
    assert f"{QUICK.topics} topics where a row says 1,000" in quick
    compiled = page([RATE], {"r": 80}, {"r": 3}, Run("m", Sizes(), compiled=True, peer_measured=True))
    assert "Magnetar with compiled modules; Apache Pulsar 4.0.7 standalone, in the same run" in compiled
    assert "quick run" not in compiled


def test_the_command_on_the_page_is_understood() -> None:
    text = page([RATE], {"r": 80}, None, Run("m", Sizes(), compiled=True, peer_measured=False))
    command = re.search(r"python -m bench (--page .*--peer FOLDER)$", text, re.MULTILINE)
    assert command is not None
    arguments = build_parser().parse_args(command.group(1).split())
    assert arguments.compiled
    assert str(arguments.page) == "docs/PERFORMANCE.md"


def test_the_scenarios_of_the_page_exist() -> None:
    assert set(PAGE) <= set(SCENARIOS)
