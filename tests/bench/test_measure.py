"""A scenario that ends with an error loses neither the figures of the others nor the exit code."""

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench import __main__ as program
from bench.rows import BATCHES, TAIL
from bench.sizes import Sizes
from compat_tests.products import Product

FIGURES = {"batch_rate": 500.0}


def works(product: Product, sizes: Sizes) -> Mapping[str, float]:
    return FIGURES


def fails(product: Product, sizes: Sizes) -> Mapping[str, float]:
    raise TimeoutError("no answer")


@pytest.mark.parametrize(("first", "second", "code"), [(works, works, 0), (works, fails, 1), (fails, works, 1)])
def test_what_was_measured_is_kept_and_what_was_not_is_named(
    first: object,
    second: object,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page, figures = tmp_path / "page.md", tmp_path / "figures.json"
    monkeypatch.setattr(program, "SCENARIOS", {BATCHES: first, TAIL: second})
    monkeypatch.setattr(program, "compile_modules", lambda: None)
    options = ["--only", f"{BATCHES},{TAIL}", "--page", str(page), "--json", str(figures)]
    monkeypatch.setattr(sys, "argv", ["bench", *options])
    assert program.main() == code
    printed = capsys.readouterr().out
    assert '"magnetar": 500.0' in figures.read_text()
    assert page.exists() == (code == 0)
    assert ("NOT MEASURED" in printed) == (code == 1)
    assert [name for name in (BATCHES, TAIL) if f"magnetar {name}" in printed] == [
        name for name, scenario in ((BATCHES, first), (TAIL, second)) if scenario is fails
    ]
