"""Pages and docstrings only name files that are in the tree, and no document that only its author has."""

import re
from functools import cache
from pathlib import Path

from tests.house.tree import LINKED, ROOT, is_test, name_of, pages, report, sources

PATH = re.compile(r"(?<![\w./*-])(?:[a-z_]+/)*[a-z_0-9]+\.py\b")
"""Matches a path such as `server/web/calls.py`, or only the name of a file."""
PAGE = re.compile(r"\]\(([\w./-]+\.md)\)")
ELSEWHERE = re.compile(
    r"\b[Ff]acts? \d|\(facts\)|(?<![\w/])(?:bookkeeper|pulsar|zookeeper|spark|cluster|peers|design)\.md\b"
)
"""Matches references to notes that were at hand when the code was written but are not in the tree."""
USERS_OWN = ("docs/SPARK.md", "docs/spark/", "docs/TESTING.md")
"""Pages whose examples name files of the reader's own."""


@cache
def files() -> frozenset[str]:
    return frozenset(name_of(path) for path in [*sources(), *ROOT.glob("*.py")])


def leads_somewhere(path: str) -> bool:
    """Returns whether the path of one of our files ends like this; a page about one room leaves the first folders
    out."""
    return path in files() or any(file.endswith(f"/{path}") for file in files())


def test_pages_name_files_that_are_there() -> None:
    report(
        [
            f"{name_of(page)}:{number}: {path} is not there"
            for page in pages()
            for number, line in enumerate(page.read_text().splitlines(), start=1)
            for path in PATH.findall(line)
            if not leads_somewhere(path) and not ("/" not in path and name_of(page).startswith(USERS_OWN))
        ]
    )


def test_docstrings_name_files_that_are_there() -> None:
    report(
        [
            f"{name_of(source)}:{number}: {path} is not there"
            for source in sources()
            if not is_test(source)
            for number, line in enumerate(source.read_text().splitlines(), start=1)
            for path in PATH.findall(line)
            if path.split("/")[0] in (*LINKED, "pulsar_proto", "tests") and not leads_somewhere(path)
        ]
    )


def test_pages_link_to_pages_that_are_there() -> None:
    report(
        [
            f"{name_of(page)}: {link} is not there"
            for page in pages()
            for link in PAGE.findall(page.read_text())
            if not (page.parent / link).exists()
        ]
    )


def test_nobody_is_sent_to_a_document_that_is_not_here() -> None:
    report(
        [
            f"{name_of(path)}:{number}: '{match[0]}': name Apache's class and method, the PIP or a page of docs/"
            for path in (*sources(), *pages())
            if path != Path(__file__).resolve()
            for number, line in enumerate(path.read_text().splitlines(), start=1)
            for match in ELSEWHERE.finditer(line)
        ]
    )
