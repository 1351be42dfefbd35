"""The modules that `hatch_build.py` compiles keep the rules that mypyc does not check (CONTRIBUTING.md)."""

import ast
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


def test_a_wait_in_a_handler_is_found() -> None:
    handled = "async def f():\n try:\n  pass\n except ValueError:\n  if 1:\n   await g()\n"
    at_the_end = "async def f():\n try:\n  await g()\n finally:\n  async with g():\n   pass\n"
    sound = "async def f():\n try:\n  await g()\n except ValueError:\n  pass\n await g()\n"
    assert [list(waits_in_handlers(ast.parse(text))) for text in (handled, at_the_end, sound)] == [[6], [5], []]
