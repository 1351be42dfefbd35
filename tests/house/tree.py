"""Our Python files, and which of them imports which."""

import ast
import gc
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "pulsar_proto",
    "metadata",
    "storage",
    "server",
    "spark",
    "magnetar",
    "bench",
    "compat_tests",
    "tests",
)
TEST_PACKAGES = ("tests", "compat_tests")
LINKED = ("metadata", "storage", "server", "spark")
"""Top-level folders whose modules are imported as `magnetar.…`; links in `magnetar/` lead to these folders."""
GENERATED = re.compile(r"_pb2(_grpc)?\.pyi?$")


@cache
def sources() -> tuple[Path, ...]:
    """Returns our Python files, without those that protoc wrote. Links are not followed, so every file comes once."""
    found = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return tuple(sorted(path for path in found if not GENERATED.search(path.name)))


def compiled_modules() -> list[str]:
    """Returns the modules that pyproject.toml lists for the compiler, as paths in a wheel, which are paths of the tree
    by the links in `magnetar/`."""
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    modules: list[str] = targets["wheel"]["hooks"]["custom"]["modules"]
    return modules


def pages() -> list[Path]:
    """Returns the pages of the project: Markdown files at the top, in docs/ and in compat_tests/."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "compat_tests").glob("*.md")])


@cache
def parsed(path: Path) -> ast.Module:
    """Returns the syntax tree of a file. The trees stay for ever, so the garbage collector is kept from looking through
    them again and again, which would take three times as long as parsing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        tree = ast.parse(path.read_text(), str(path))
        gc.freeze()
    finally:
        if was_on:
            gc.enable()
    return tree


def name_of(path: Path) -> str:
    """Returns the file's path within the tree."""
    return path.relative_to(ROOT).as_posix()


def is_test(path: Path) -> bool:
    return name_of(path).startswith(TEST_PACKAGES)


def report(violations: list[str]) -> None:
    """Fails with one line for each violation: where, what, and what to do instead."""
    assert not violations, "\n" + "\n".join(violations)


def imports_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields (line, module or name in a module) for each import, including those inside functions and those for types
    alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def file_of(module: str, files: frozenset[str]) -> str | None:
    """Returns the file (its path within the tree) that defines an imported name, or None when the name is not ours."""
    parts = module.split(".")
    if parts[0] == "magnetar" and len(parts) > 1 and parts[1] in LINKED:
        parts = parts[1:]
    for length in (len(parts), len(parts) - 1):
        base = "/".join(parts[:length])
        for path in (f"{base}.py", f"{base}/__init__.py"):
            if base and path in files:
                return path
    return None


@cache
def imports_in(path: Path) -> tuple[tuple[int, str], ...]:
    """Returns the imports of one of our files, as `imports_of` yields them."""
    return tuple(imports_of(parsed(path)))


@cache
def arrows() -> dict[str, dict[str, int]]:
    """Returns, for each of our files, the files that it imports with the line of the first import."""
    files = frozenset(name_of(path) for path in sources())
    found: dict[str, dict[str, int]] = {}
    for path in sources():
        name = name_of(path)
        targets = found[name] = {}
        for line, module in imports_in(path):
            target = file_of(module, files)
            if target not in (None, name):
                targets.setdefault(str(target), line)
    return found
