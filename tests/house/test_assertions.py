"""Every test asserts something, itself or through what it calls: a test that only runs code holds after any bug that
raises nothing."""

import ast
import re
from functools import cache
from typing import NamedTuple

from tests.house.tree import arrows, is_test, name_of, parsed, report, sources

FAILS = re.compile(r"raises|fail|warns|timeout|assert_\w+")
"""Matches the names of pytest's, asyncio's and mocks' functions that fail a test."""
SHOW_BY_RAISING_NOTHING = {
    "test_a_path_that_java_takes_is_taken",
    "test_that_of_brokers_is_used",
    "test_what_is_said_to_be_readable_is_read_by_fastavro",
    "test_a_default_can_be_written_into_the_file",
}
"""The tests of functions that return nothing, or nothing of interest, and raise an error for what they refuse."""


class Function(NamedTuple):
    """What a function of the tests, or a method, is made of."""

    name: str
    line: int
    asserts: bool
    """Whether its own code fails a test. Code that names the errors which may come asserts that no others do."""
    names: frozenset[str]
    """The names and attributes that it mentions."""


def test_every_test_asserts_something() -> None:
    silent = [
        (file, each)
        for file, found in functions().items()
        for each in found
        if file.rpartition("/")[2].startswith("test_") and each.name.startswith("test_") and is_silent(file, each)
    ]
    violations = [
        f"{file}:{each.line}: {each.name} asserts nothing; say what has to come out"
        for file, each in silent
        if each.name not in SHOW_BY_RAISING_NOTHING
    ]
    gone = SHOW_BY_RAISING_NOTHING - {each.name for _, each in silent}
    report(violations + [f"{name} is no such test; take it off the list" for name in sorted(gone)])


def is_silent(file: str, test: Function) -> bool:
    return not test.asserts and not test.names & helpers_seen_by(file)


@cache
def helpers_seen_by(file: str) -> frozenset[str]:
    """Returns the names of the functions that fail a test, in a file of tests and in those that it imports."""
    return _seen_by(file, helpers())


def _seen_by(file: str, found: dict[str, set[str]]) -> frozenset[str]:
    return frozenset(found[file].union(*(found.get(other, ()) for other in arrows()[file])))


@cache
def helpers() -> dict[str, set[str]]:
    """Returns, for each file of tests, the names of its functions that fail a test, themselves or through others."""
    others = {
        file: [each for each in found if not each.name.startswith("test_")] for file, found in functions().items()
    }
    found = {file: {each.name for each in of_file if each.asserts} for file, of_file in others.items()}
    grows = True
    while grows:
        grows = False
        for file, of_file in others.items():
            seen = _seen_by(file, found)
            more = {each.name for each in of_file if each.names & seen} - found[file]
            found[file] |= more
            grows = grows or bool(more)
    return found


@cache
def functions() -> dict[str, list[Function]]:
    """Returns the functions and methods of each file of tests."""
    return {
        name_of(path): [
            function_of(node)
            for node in ast.walk(parsed(path))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        for path in sources()
        if is_test(path)
    }


def function_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    names: set[str] = set()
    asserts = False
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            names.add(each.id)
        elif isinstance(each, ast.Attribute):
            names.add(each.attr)
        elif not asserts:
            asserts = fails(each)
    return Function(node.name, node.lineno, asserts or "suppress" in names, frozenset(names))


def fails(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return FAILS.fullmatch(name) is not None
    if isinstance(node, ast.keyword):
        return node.arg == "check" and ast.unparse(node.value) == "True"  # of subprocess.run
    return isinstance(node, ast.Assert | ast.Raise | ast.ExceptHandler)


def test_a_test_that_only_runs_code_is_told_from_one_that_asserts() -> None:
    bodies = {
        "parse(b'')": False,
        "assert parse(b'')": True,
        "with pytest.raises(ValueError):\n  parse(b'')": True,
        "with suppress(ValueError):\n  parse(b'')": True,
        "try:\n  parse(b'')\n except ValueError:\n  pass": True,
        "subprocess.run(command)": False,
        "subprocess.run(command, check=True)": True,
        "reply.assert_sound()": True,
    }
    for body, expected in bodies.items():
        (node,) = ast.parse(f"def test_it():\n {body}").body
        assert isinstance(node, ast.FunctionDef)
        assert function_of(node).asserts is expected, body
