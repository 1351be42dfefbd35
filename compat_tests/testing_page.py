"""The programs of docs/TESTING.md in other languages, and the command that runs them beside a server."""

import re
from collections.abc import Sequence
from pathlib import Path

from compat_tests.products import interpreter

PAGE = Path(__file__).resolve().parent.parent / "docs" / "TESTING.md"


def program_of_page(name: str) -> str:
    """Returns the program that the page names in its first line."""
    found = re.search(rf"^(?://) {re.escape(name)}\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert found is not None, name
    return found[1]


def beside_a_server(command: Sequence[str]) -> list[str]:
    """Returns the command line that runs `command` as the page says."""
    return [*interpreter(), "-m", "magnetar", "testing", "run", "--", *command]
