"""Reads the command lines of a page: the lines of its ```sh blocks, and the programs that a line starts."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from tests.spark.pages import commands_of

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
OURS = {"magnetar": (), "pulsar-admin": ("admin",)}
"""The programs that are ours, each with the words that stand for its name. `pulsar-admin` is the alias of ADMIN.md."""
OPERATORS = re.compile(r"[|&;<>()]+")
VARIABLE = re.compile(r"\$[A-Z]+")
"""A word that the shell replaces by options."""
ASSIGNMENT = re.compile(r"[A-Z_]+=.*")
"""A word in front of a program that sets a variable of its environment."""


def pages() -> list[Path]:
    """Returns the pages that have commands for a shell."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if BLOCK.search(page.read_text())]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT)).removeprefix("docs/")


def lines_of(page: Path, *, after: str = "") -> list[str]:
    """Returns the command lines of the page, or of what follows the text `after`; each is one line."""
    text = page.read_text().partition(after)[2] if after else page.read_text()
    return [line.strip() for script in BLOCK.findall(text) for line in commands_of(script)]


def calls_of(line: str) -> Iterator[list[str]]:
    """Yields the words of each of our programs that a line starts, without the program's name and redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if not OPERATORS.fullmatch(word):
            is_program = not words and not ASSIGNMENT.fullmatch(word)
            words += [word] if is_program or (words and not VARIABLE.fullmatch(word)) else []
            continue
        if words and words[0].rpartition("/")[2] in OURS:
            yield [*OURS[words[0].rpartition("/")[2]], *words[1:]]
        # The word after a redirection is a file and no command.
        words = [word] if word in (">", "<", ">>", "2>>") else []
