"""Reads single query parameters of a socket's URL. This module does no I/O.

Each function returns the parameter's value, or `default` when the query does not have it, and raises QueryFault for a
value that makes no sense. The error's text names the parameter and its fault.
"""

import re
from collections.abc import Iterable, Mapping

from magnetar.server.websocket.websocket_path_rules import QueryFault

Query = Mapping[str, str]

I32_MAX = 2**31 - 1
I64_MAX = 2**63 - 1

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")


def whole(query: Query, name: str, default: int, least: int = 0, most: int = I32_MAX) -> int:
    """Returns a whole number from `least` to `most`."""
    text = query.get(name)
    if text is None:
        return default
    if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
        raise QueryFault(f"Invalid {name} {shown(text)}: expected a whole number from {least} to {most}")
    return int(text)


def flag(query: Query, name: str, default: bool = False) -> bool:
    """Reads a parameter as Boolean.parseBoolean does: "true" in any case is true, everything else false."""
    text = query.get(name)
    return default if text is None else text.lower() == "true"


def one_of(query: Query, name: str, choices: Iterable[str], default: str) -> str:
    """Returns the member of `choices` that the parameter names."""
    text = query.get(name)
    if text is None:
        return default
    if text not in choices:
        raise QueryFault(f"Invalid {name} {shown(text)}: expected one of {', '.join(choices)}")
    return text


def shown(text: str) -> str:
    """Returns a text of the peer in the form in which a refusal quotes it: printable and short."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:100])
