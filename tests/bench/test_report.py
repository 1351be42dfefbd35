"""The bench's table shows verdicts and ratios the right way round, and chooses rows by name."""

import os
import time
from pathlib import Path

import pytest

from bench.machine import describe
from bench.process_stats import cpu_clock_seconds, cpu_seconds, memory_mb, tree
from bench.report import cells, table, write_json
from bench.rows import ASKED_FOR, ROWS, SCENARIOS, Row, chosen_rows

RATE = Row("r", "s", "a rate", "k msg/s", goal=60, apache=40, more_is_better=True)
COST = Row("c", "s", "a cost", "s", goal=2, apache=6)


def lines_of(text: str) -> dict[str, str]:
    return {row.title: line for row in (RATE, COST) for line in text.splitlines() if line.startswith(row.title)}


def test_goals_are_met_from_the_right_side() -> None:
    good = lines_of(table([RATE, COST], {"r": 80, "c": 1.5}, None))
    assert all(" ok " in line for line in good.values())
    bad = lines_of(table([RATE, COST], {"r": 59, "c": 2.5}, None))
    assert all(" MISSED " in line for line in bad.values())


def test_the_last_column_is_how_many_times_better() -> None:
    lines = lines_of(table([RATE, COST], {"r": 80, "c": 1.5}, {"r": 20, "c": 3}))
    assert [line.split()[-1] for line in lines.values()] == ["4.00", "2.00"]


def test_documented_figures_are_marked() -> None:
    assert "40.0*" in table([RATE], {"r": 80}, None)
    assert "*" not in table([RATE], {"r": 80}, {"r": 20})


def test_rows_without_a_figure_are_left_out() -> None:
    assert "a cost" not in table([RATE, COST], {"r": 80}, None)


def test_rows_are_chosen_by_key_and_by_scenario() -> None:
    assert [row.key for row in chosen_rows("stop,batches")] == [
        "stop",
        "batch_rate",
        "batch_cpu",
        "wide_batch_rate",
        "wide_batch_cpu",
    ]
    without_names = chosen_rows(None)
    assert set(ROWS) - set(without_names) == set(chosen_rows(",".join(ASKED_FOR))), "these take many minutes"
    with pytest.raises(ValueError, match="nonsense"):
        chosen_rows("stop,nonsense")


def test_names_of_rows_and_scenarios_do_not_clash() -> None:
    keys = [row.key for row in ROWS]
    assert len(set(keys)) == len(keys)
    assert set(keys) & set(SCENARIOS) <= {"sigkill"}


def test_json_holds_every_row(tmp_path: Path) -> None:
    target = tmp_path / "new" / "figures.json"
    write_json(target, [RATE, COST], {"r": 80.0}, None)
    assert '"magnetar": 80.0' in target.read_text()


def test_work_of_this_process_shows_as_cpu_time() -> None:
    before, clock_before = cpu_seconds(os.getpid()), cpu_clock_seconds(os.getpid())
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert 0.03 <= cpu_seconds(os.getpid()) - before < 5  # counted in hundredths
    assert 0.05 <= cpu_clock_seconds(os.getpid()) - clock_before < 5


def test_a_process_has_memory_and_is_in_its_tree() -> None:
    assert 5 < memory_mb(os.getpid()) < 5000
    assert next(iter(tree(os.getpid()))) == os.getpid()


def test_the_machine_is_described_in_one_line() -> None:
    text = describe()
    assert "\n" not in text
    assert "fdatasync" in text


def test_a_goal_relative_to_apache_is_judged_by_this_runs_figure_or_the_documented_one() -> None:
    row = Row("r", "s", "rate", "k/s", None, 10.0, more_is_better=True, goal_ratio=1.5)
    assert cells(row, {"r": 16.0}, None)[2:4] == ("≥ 1.5 × Apache", "ok")
    assert cells(row, {"r": 16.0}, {"r": 11.0})[3] == "MISSED"
    assert cells(row, {"r": 16.0}, {})[3] == "", "nothing to judge by"
    latency = Row("r", "s", "p50", "ms", None, 2.0, goal_ratio=1.25)
    assert cells(latency, {"r": 1.6}, None)[3] == "ok"
    assert cells(latency, {"r": 1.7}, None)[3] == "MISSED"
