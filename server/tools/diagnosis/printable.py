"""Lines that may be printed: clients choose names, and a name must not move the cursor of somebody's terminal."""

from collections.abc import Iterable


def printable(text: str) -> str:
    """Returns the text as one line, with every character that is not printable written as its escape sequence."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def joined(lines: Iterable[str]) -> str:
    """Returns the lines, each of them printable, as one text."""
    return "\n".join(map(printable, lines))
