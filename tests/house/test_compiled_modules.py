"""The modules that `hatch_build.py` compiles keep the rules that mypyc does not check (CONTRIBUTING.md)."""

import ast
import re
from collections.abc import Iterator

from tests.house.tree import ROOT, compiled_modules, parsed


def waits_in_handlers(tree: ast.Module) -> Iterator[int]:
    """Returns the lines of waits that stand in an `except` or `finally` clause of a coroutine."""
    for function in ast.walk(tree):
        if isinstance(function, ast.AsyncFunctionDef):
            for statement in ast.walk(function):
                if isinstance(statement, ast.Try):
                    for clause in (*statement.handlers, *statement.finalbody):
                        yield from (
                            each.lineno
                            for each in ast.walk(clause)
                            if isinstance(each, ast.Await | ast.AsyncFor | ast.AsyncWith)
                        )


def test_no_compiled_coroutine_waits_in_an_except_or_finally_clause() -> None:
    """All tasks share what a compiled coroutine keeps of an exception that is being handled, so a wait there lets one
    task raise the exception of another one, or none, which ends the process."""
    assert len(compiled_modules()) > 50
    waits = {
        f"{name}:{line}" for name in compiled_modules() for line in waits_in_handlers(parsed((ROOT / name).resolve()))
    }
    assert not waits, "wait behind the try statement instead"


def retyped_errors(tree: ast.Module, compiled: frozenset[str]) -> Iterator[int]:
    """Returns the lines of `except` clauses whose variable had an error of one of the `compiled` classes before, in the
    same function."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            clauses = [each for each in ast.walk(function) if isinstance(each, ast.ExceptHandler) and each.type]
            first: dict[str | None, str] = {}
            for clause in sorted(clauses, key=lambda each: each.lineno):
                caught = ast.unparse(clause.type) if clause.type else ""
                before = first.setdefault(clause.name, caught)
                if clause.name and before != caught and compiled & set(re.findall(r"\w+", before)):
                    yield clause.lineno


def test_no_variable_has_an_error_of_a_compiled_class_and_then_another_one() -> None:
    """The variable keeps the class of the first clause, so the later clause raises TypeError for its error."""
    trees = {name: parsed((ROOT / name).resolve()) for name in compiled_modules()}
    classes = frozenset(
        each.name for tree in trees.values() for each in ast.walk(tree) if isinstance(each, ast.ClassDef)
    )
    found = {f"{name}:{line}" for name, tree in trees.items() for line in retyped_errors(tree, classes)}
    assert not found, "give the variable of the second clause another name"
    text = "def f():\n try:\n  g()\n except Ours as error:\n  pass\n except Other as error:\n  pass\n"
    assert list(retyped_errors(ast.parse(text), frozenset({"Ours"}))) == [6]
    assert list(retyped_errors(ast.parse(text), frozenset({"Other"}))) == []


def test_a_wait_in_a_handler_is_found() -> None:
    handled = "async def f():\n try:\n  pass\n except ValueError:\n  if 1:\n   await g()\n"
    at_the_end = "async def f():\n try:\n  await g()\n finally:\n  async with g():\n   pass\n"
    sound = "async def f():\n try:\n  await g()\n except ValueError:\n  pass\n await g()\n"
    assert [list(waits_in_handlers(ast.parse(text))) for text in (handled, at_the_end, sound)] == [[6], [5], []]
