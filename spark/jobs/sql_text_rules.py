"""What can be said about SQL in a job's options before Java starts: only whether its quotes and brackets are closed.

Everything else is left to Spark's parser, which runs in Java. A shell that took the quotes for its own is the usual
reason of such errors.
"""

import re

_QUIET = re.compile(
    r"""
    (?<!\w)[rR](?:'[^']*' | "[^"]*")            # raw texts, without escapes
    | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*`
    | --[^\n]* | /\*.*?\*/               # comments
    """,
    re.DOTALL | re.VERBOSE,
)
_PAIRS = {"(": ")", "[": "]"}


def unclosed(sql: str) -> str:
    """Returns what is wrong with the quotes or brackets of an SQL expression, or an empty text."""
    rest = _QUIET.sub(" ", sql)
    expected: list[str] = []
    for char in rest:
        if char in "'\"`":
            return f"a {char} has no end"
        if char in _PAIRS:
            expected.append(_PAIRS[char])
        elif char in _PAIRS.values() and (not expected or expected.pop() != char):
            return f"a {char} closes nothing"
    return f"a {expected[-1]} is missing" if expected else ""
