"""A scenario that ends with an error loses neither the figures of the others nor the exit code."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from bench import __main__ as program
from bench.rows import BATCHES, TAIL, chosen_rows
from bench.sizes import Sizes
from compat_tests.products import Magnetar, Product

Scenario = Callable[[Product, Sizes], Mapping[str, float]]
FIGURES = {"batch_rate": 500.0}


def works(product: Product, sizes: Sizes) -> Mapping[str, float]:
    return FIGURES


def fails(product: Product, sizes: Sizes) -> Mapping[str, float]:
    raise TimeoutError("no answer")


@pytest.mark.parametrize(
    ("first", "second", "failed"),
    [(works, works, ""), (works, fails, f"magnetar {TAIL}"), (fails, works, f"magnetar {BATCHES}")],
)
def test_what_was_measured_is_kept_and_what_was_not_is_named(
    first: Scenario,
    second: Scenario,
    failed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page, figures = tmp_path / "page.md", tmp_path / "figures.json"
    monkeypatch.setattr(program, "SCENARIOS", {BATCHES: first, TAIL: second})
    monkeypatch.setattr(program, "compile_modules", lambda: None)
    options = ["--only", f"{BATCHES},{TAIL}", "--page", str(page), "--json", str(figures)]
    monkeypatch.setattr(sys, "argv", ["bench", *options])
    assert program.main() == (1 if failed else 0)
    assert '"magnetar": 500.0' in figures.read_text()
    assert page.exists() == (not failed)
    assert capsys.readouterr().out.partition("NOT MEASURED, because of the errors above: ")[2].strip() == failed


def test_each_scenario_is_run_with_all_products_before_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[tuple[str, Product]] = []

    def scenario(name: str) -> Scenario:
        def run(product: Product, sizes: Sizes) -> Mapping[str, float]:
            runs.append((name, product))
            return FIGURES

        return run

    monkeypatch.setattr(program, "SCENARIOS", {BATCHES: scenario(BATCHES), TAIL: scenario(TAIL)})
    ours, theirs = Magnetar(("ours",)), Magnetar(("theirs",))
    rows = chosen_rows(f"{BATCHES},{TAIL}")
    assert [each.figures for each in program.measure([ours, theirs], rows, Sizes())] == [FIGURES, FIGURES]
    assert runs == [(BATCHES, ours), (BATCHES, theirs), (TAIL, ours), (TAIL, theirs)]
