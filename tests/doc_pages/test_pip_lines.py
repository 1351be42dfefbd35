"""What README, pages, help and error texts tell people to install is there: the extras of pyproject.toml."""

import re
import shlex
import tomllib
from collections.abc import Iterator

from tests.doc_pages.command_lines import ROOT
from tests.house.tree import is_test, name_of, pages, report, sources

LINE = re.compile(r"pip install ((?:'[^'\n]*'|[\w./=<>\[\]+-]+|[ ](?! ))+)")
"""Matches an installation in a text. Its words end at a comment, which stands after several spaces, or at the end of
the quotation."""
OURS = re.compile(r"(?:(?:\./)?magnetar|\.)(?:\[([\w,]+)\])?")
"""Matches the project, by its name or as a folder, with its extras."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = set(PROJECT["optional-dependencies"])
WANTED_BY = {"client": "pulsar-client", "spark": "pyspark", "lake": "pyiceberg"}
"""The extras that users are sent to, each with a package that it brings."""


def installations() -> Iterator[tuple[str, list[str]]]:
    """Yields every `pip install` of a page or of the code that users run, with its place and its words."""
    for path in (*pages(), *(each for each in sources() if not is_test(each))):
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            for match in LINE.finditer(line):
                yield f"{name_of(path)}:{number}", shlex.split(match[1])


def extras_of(words: list[str]) -> list[str]:
    """Returns the extras of ours that an installation names."""
    return [extra for word in words if (ours := OURS.fullmatch(word)) and ours[1] for extra in ours[1].split(",")]


def test_extras_that_people_are_told_to_install_are_there() -> None:
    found = list(installations())
    assert len(found) >= 15
    report(
        [
            f"{place}: pyproject.toml has no extra {extra}"
            for place, words in found
            for extra in extras_of(words)
            if extra not in EXTRAS
        ]
    )


def test_the_extras_that_texts_name_bring_the_packages_that_they_are_for() -> None:
    named = {extra for _, words in installations() for extra in extras_of(words)}
    assert named >= set(WANTED_BY)
    for extra, package in WANTED_BY.items():
        assert any(each.startswith(package) for each in PROJECT["optional-dependencies"][extra]), extra


def test_a_version_that_a_page_names_is_one_that_the_extras_take() -> None:
    """A page installs the official client beside an extra of ours, and pip has to find one version for both."""
    pinned = {word for _, words in installations() for word in words if word.startswith("pulsar-client==")}
    assert pinned == {"pulsar-client==3.13.0"}
    assert "pulsar-client>=3.13,<4" in PROJECT["optional-dependencies"]["client"]


def test_a_planted_line_is_read() -> None:
    match = LINE.search("run: pip install './magnetar[lake,spark]' pyspark==3.4.4    # Java 17")
    assert match is not None
    words = shlex.split(match[1])
    assert words == ["./magnetar[lake,spark]", "pyspark==3.4.4"]
    assert extras_of(words) == ["lake", "spark"]
