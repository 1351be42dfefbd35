"""Durations, sizes, counts and pairs as a person writes them on a command line. Each function raises ValueError with a
sentence that names the text and shows a right one. This module does no I/O."""

import re

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)?")
_SECONDS = {"ms": 0.001, None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kKmMgGtT]?)(?:i?[bB])?")
_COUNT = re.compile(r"([0-9][0-9_,]*(?:\.[0-9]+)?)([kKmM]?)")
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
NUMBER_CHARACTERS_MAX = 20
"""A longer text is no number of this world, and would be parsed for long."""


def duration_seconds(text: str) -> float:
    """Parses `500ms`, `10s`, `1.5h`, `2d`; a number without a unit is in seconds."""
    found = _DURATION.fullmatch(text) if len(text) <= NUMBER_CHARACTERS_MAX else None
    if found is None:
        raise ValueError(f"'{text}' is no duration such as 500ms, 10s, 5m, 2h or 1d")
    return float(found[1]) * _SECONDS[found[2]]


def size_bytes(text: str) -> int:
    """Parses `100`, `1k`, `1.5M`, `2GiB`: k is 1024, as in pulsar-admin."""
    found = _SIZE.fullmatch(text) if len(text) <= NUMBER_CHARACTERS_MAX else None
    if found is None:
        raise ValueError(f"'{text}' is no size such as 100, 1k, 10M or 2G")
    return int(float(found[1]) * 1024 ** _POWERS[found[2].lower()])


def number(text: str) -> float:
    """Parses `0`, `0.5`, `1000`, `1_000`, `10k`, `1.5M`: k is 1000."""
    found = _COUNT.fullmatch(text) if len(text) <= NUMBER_CHARACTERS_MAX else None
    if found is None:
        raise ValueError(f"'{text}' is no number such as 1, 5000, 10k or 1M")
    return float(re.sub("[_,]", "", found[1])) * float(1000 ** _POWERS[found[2].lower()])


def count(text: str) -> int:
    """Parses a number of at least 1."""
    found = int(number(text))
    if found < 1:
        raise ValueError(f"'{text}' is no count: it is at least 1")
    return found


def pair(text: str) -> tuple[str, str]:
    """Parses `KEY=VALUE`. The value may be empty and may hold more signs of equality."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"'{text}' is not KEY=VALUE")
    return key, value


def whole(value: int) -> str:
    """Returns a number with commas between its thousands, for people."""
    return f"{value:,}"


def size_text(size: float) -> str:
    """Returns a size for people, such as `512 B` or `1.5 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def duration_text(seconds: float) -> str:
    """Returns a duration for people: in µs, ms, s, or in hours and days when it is long."""
    if seconds < 0.001:
        return f"{seconds * 1_000_000:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172800 else f"{seconds / 86400:.0f} d"
