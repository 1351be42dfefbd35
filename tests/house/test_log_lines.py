"""Pages quote log lines as the code writes them: in a block ```log, a line has the level, the logger and the text."""

import ast
import re
from collections.abc import Iterator

from tests.house.tree import ROOT, name_of, pages, parsed, report

BLOCK = re.compile(r"^```log\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"(INFO|WARNING|ERROR) magnetar\.([\w.]+) (.+)")
METHODS = {"INFO": ("info", "log"), "WARNING": ("warning", "log"), "ERROR": ("error", "exception", "log")}


def logged(tree: ast.Module, level: str) -> Iterator[str]:
    """Yields the texts that a module logs at this level. Calls of `log` count for all levels."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS[level]:
            for argument in node.args:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value


def fault(line: str) -> str | None:
    """Returns what is wrong with a quoted line, or None."""
    found = LINE.fullmatch(line)
    if found is None:
        return "no level, logger and text"
    level, logger, text = found.groups()
    path = ROOT / f"{logger.replace('.', '/')}.py"
    if not path.exists():
        return f"there is no module {logger}"
    return None if text in logged(parsed(path), level) else f"{name_of(path)} does not log this as {level}"


def test_quoted_log_lines_are_those_of_the_code() -> None:
    quoted = [
        (page, line) for page in pages() for block in BLOCK.findall(page.read_text()) for line in block.splitlines()
    ]
    assert quoted
    report([f"{name_of(page)}: {line!r}: {what}" for page, line in quoted if (what := fault(line)) is not None])


def test_a_planted_line_that_nobody_logs_is_found() -> None:
    line = "magnetar.server.namespaces.bundle_ownership %s: owned by this broker"
    assert fault(f"INFO {line}") is None
    assert fault(f"WARNING {line}") is not None
    assert fault(f"INFO {line} now") is not None
    assert fault("INFO magnetar.server.nowhere %s") is not None
