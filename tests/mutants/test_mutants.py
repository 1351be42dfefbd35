"""The runner of mutants: which bugs it plants, which code it leaves alone, which tests it takes, and that it tells a
survivor from a catch."""

import subprocess
from pathlib import Path

import pytest

from tests.mutants import judged, report
from tests.mutants.areas import AREAS, sample, sources
from tests.mutants.operators import Mutant, mutants_of
from tests.mutants.recording import Recording
from tests.mutants.trial import Copy, Outcome

ROOT = Path(__file__).resolve().parents[2]
SECONDS_RECORDED = 1.0

MODULE = """\
def f(a):
    return a + 1


def g(a):
    while a > 0:
        a -= 1
"""
TESTS = """\
from metadata.m import f, g

def test_f(): assert f(1) == 2
def test_g(): g(3)
"""


def changes(source: str) -> set[tuple[str, str]]:
    return {(each.operator, each.text) for each in mutants_of("m.py", source.encode())}


@pytest.mark.parametrize(
    ("source", "operator", "text"),
    [
        ("a = b < c", "comparison", "(b <= c)"),
        ("a = b in c", "comparison", "(b not in c)"),
        ("a = b + c", "arithmetic", "(b - c)"),
        ("a = b and c", "and, or", "(b or c)"),
        ("a = not b", "negation", "(b)"),
        ("if a:\n  b = c", "negation", "(not a)"),
        ("a = 3", "constant", "4"),
        ("a = 3", "constant", "2"),
        ("a = True", "constant", "False"),
        ("f(a, b)", "arguments swapped", "(f(b, a))"),
        ("def f():\n  raise E", "raise dropped", "pass"),
        ("def f():\n  return a", "return None", "return None"),
        ("async def f():\n  await g()", "await dropped", "pass"),
        ("def f():\n  g()", "call dropped", "pass"),
        ("def f(self):\n  self.a = b", "assignment dropped", "pass"),
        ("def f(self):\n  self.a += b", "arithmetic", "self.a -= b"),
        ("for a in b:\n  break", "break", "continue"),
    ],
)
def test_each_operator_changes_what_it_is_for(source: str, operator: str, text: str) -> None:
    assert (operator, text) in changes(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""1 < 2"""',
        "log.info('%d', 1)",
        "def f() -> A[1]: ...",
        "a: A[1]",
        "@d(1, 2)\nclass C: ...",
        "assert a < 1",
        "__slots__ = a + b",
        "a = f'{b + 1}'",
        "def __repr__(self):\n  return a",
        "if TYPE_CHECKING:\n  a = 1",
        "a = cast(1, b)",
        "a = max(b, c)",
    ],
)
def test_what_no_test_should_pin_is_left_alone(source: str) -> None:
    assert changes(source) == set()


@pytest.mark.slow
def test_every_mutant_of_the_product_is_a_program_with_a_change_of_its_own() -> None:
    paths = sources(ROOT)
    assert {next(area for area in AREAS if path.startswith(area)) for path in paths} == set(AREAS)
    for mutant in sample(ROOT, paths, 300, seed=1):
        source = (ROOT / mutant.path).read_bytes()
        changed = mutant.applied(source)
        assert changed != source
        compile(changed, mutant.path, "exec")


def test_the_same_seed_is_the_same_sample() -> None:
    paths = sources(ROOT, ("server/schema",))
    assert sample(ROOT, paths, 5, seed=7) == sample(ROOT, paths, 5, seed=7)
    assert sample(ROOT, paths, 5, seed=7) != sample(ROOT, paths, 5, seed=8)


def test_the_nearest_tests_of_a_line_come_first_and_imports_have_those_of_their_file() -> None:
    path = "server/topics/publishing/dedup_rules.py"
    far, near = "tests/storage/ledger/test_far.py::t", "tests/server/topics/publishing/test_dedup_table.py::t"
    recording = Recording(seconds={far: 0.1, near: 9.0})
    recording.lines[path] = {5: {far, near}}
    source = b"a = True\n\n\ndef f():\n    g(True)\n    return True"
    of_line = {each.line: each for each in mutants_of(path, source)}
    imported, run, never_run = of_line[1], of_line[5], of_line[6]
    assert recording.tests_of(run) == [near, far]
    assert recording.tests_of(imported) == [near, far]
    assert recording.tests_of(never_run) == []
    recording.keep([far])
    assert recording.tests_of(run) == [far]


@pytest.fixture
def copied(tmp_path: Path) -> Copy:
    """Copies a small tree: one module, and tests that pin half of its behaviour."""
    tree = tmp_path / "tree"
    (tree / "tests").mkdir(parents=True)
    (tree / "metadata").mkdir()
    (tree / "metadata" / "__init__.py").touch()
    (tree / "metadata" / "m.py").write_text(MODULE)
    (tree / "tests" / "test_m.py").write_text(TESTS)
    subprocess.run(["git", "init", "-q"], cwd=tree, check=True)
    subprocess.run(["git", "add", "."], cwd=tree, check=True)
    return Copy(tree, tmp_path / "copy")


def planted(copied: Copy, text: str) -> Mutant:
    source = (copied.folder / "metadata/m.py").read_bytes()
    return next(each for each in mutants_of("metadata/m.py", source) if each.text == text)


@pytest.mark.process
def test_a_mutant_is_caught_or_survives_or_hangs_and_leaves_no_trace(
    copied: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (copied.folder / "metadata/m.py").read_bytes()
    caught = copied.judge(planted(copied, "(a - 1)"), ["tests/test_m.py::test_f"], SECONDS_RECORDED)
    assert (caught.outcome, caught.is_caught) == (Outcome.CAUGHT, True)
    assert "test_f" in caught.by
    survived = copied.judge(planted(copied, "(a >= 0)"), ["tests/test_m.py::test_g"], SECONDS_RECORDED)
    assert (survived.outcome, survived.is_caught) == (Outcome.SURVIVED, False)
    assert copied.judge(planted(copied, "(a >= 0)"), [], 0.0).outcome is Outcome.NOT_RUN
    monkeypatch.setattr("tests.mutants.trial.SECONDS_LEAST", 5.0)
    hangs = copied.judge(planted(copied, "a += 1"), ["tests/test_m.py::test_g"], 0.0)
    assert hangs.outcome is Outcome.TOO_SLOW
    assert (copied.folder / "metadata/m.py").read_bytes() == before


@pytest.mark.process
def test_judged_survivors_do_not_count_and_are_told_with_their_reason(copied: Copy) -> None:
    verdict = copied.judge(planted(copied, "(a >= 0)"), [], 0.0)
    name = "metadata/m.py g: a > 0 -> (a >= 0)"
    known = judged.read(f"# Comment.\n\n{name}\nreason: one turn more\nchanges nothing\n")
    assert known == {name: "one turn more changes nothing"}
    said = report.text([verdict], known, copied.folder)
    assert "judged: one turn more changes nothing" in said
    assert report.figures([verdict], {verdict: name}, known)[-1] == ["all", "1", "0", "1", "0", "-"]
    assert report.figures([verdict], {verdict: name}, {})[-1] == ["all", "1", "0", "0", "1", "0.0 %"]


def test_a_judgement_without_a_reason_is_refused_and_each_in_the_file_is_of_a_file_that_exists() -> None:
    with pytest.raises(ValueError, match="reason:"):
        judged.read("metadata/m.py g: a -> b\n")
    known = judged.read(judged.FILE.read_text())
    assert [name for name in known if not (ROOT / name.partition(" ")[0]).exists()] == []
