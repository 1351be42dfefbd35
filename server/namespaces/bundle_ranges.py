"""The bundles of a namespace: ranges of the 32-bit hashes of topic names, by which topics are spread over brokers. Does
no I/O.

A namespace stores the boundaries of its bundles as texts `0x%08x` in ascending order. A bundle includes its lower
boundary but not its upper boundary; only the last bundle includes both boundaries. Sources: NamespaceBundleFactory,
NamespaceBundles.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from zlib import crc32

FULL_RANGE = ("0x00000000", "0xffffffff")
LAST = 0xFFFFFFFF

_RANGE = re.compile(r"0x([0-9a-fA-F]{1,8})_0x([0-9a-fA-F]{1,8})")


def numbers_of(boundaries: Sequence[str]) -> list[int]:
    """Returns the boundaries as numbers. Raises ValueError for a text that is not a number."""
    return [int(boundary, 16) for boundary in boundaries]


def text_of(lower: int, upper: int) -> str:
    """Returns the range as Pulsar writes it: `0x00000000_0x40000000`."""
    return f"0x{lower:08x}_0x{upper:08x}"


def ranges_of(boundaries: Sequence[str]) -> list[str]:
    """Returns the ranges of all bundles, in ascending order."""
    numbers = numbers_of(boundaries)
    return [text_of(lower, upper) for lower, upper in pairwise(numbers)]


def hash_of(topic: str) -> int:
    """Returns the hash of a topic's full name, which includes the partition suffix."""
    return crc32(topic.encode())


def bundle_of(boundaries: Sequence[str], topic: str) -> str:
    """Returns the range of the bundle to which a topic belongs. `topic` is the full name, with the partition suffix."""
    numbers = numbers_of(boundaries)
    at = min(bisect_right(numbers, hash_of(topic)), len(numbers) - 1)
    return text_of(numbers[at - 1], numbers[at])


def parse_range(text: str) -> tuple[int, int] | None:
    """Returns the lower and the upper boundary, or None when the text is not a range."""
    match = _RANGE.fullmatch(text)
    if match is None or int(match[1], 16) >= int(match[2], 16):
        return None
    return int(match[1], 16), int(match[2], 16)


def fault_of_range(boundaries: Sequence[str], namespace: str, text: str) -> str | None:
    """Returns the reason why `text` is not the range of one of the namespace's bundles, or None when it is. The reasons
    have the wording of Apache's broker."""
    parsed = parse_range(text)
    if parsed is None:
        return f"Invalid bundle range: {text}"
    numbers = numbers_of(boundaries)
    lower, upper = parsed
    given = f"{namespace}/{text_of(lower, upper)}"
    if lower not in numbers[:-1]:
        return f"Invalid lower boundary for bundle {given}"
    expected = numbers[numbers.index(lower) + 1]
    if expected != upper:
        return f"Invalid upper boundary for bundle {given}. Expected upper boundary of {namespace}/" + text_of(
            lower, expected
        )
    return None


def fault_of_boundaries(boundaries: Sequence[str]) -> str | None:
    """Returns why these cannot be the boundaries of a namespace's bundles, or None when they can."""
    try:
        numbers = numbers_of(boundaries)
    except ValueError:
        return "Invalid bundle boundaries: expected 0x00000000, ..., 0xffffffff"
    if len(numbers) < 2 or numbers[0] != 0 or numbers[-1] != LAST:
        first, last = (boundaries[0], boundaries[-1]) if boundaries else ("", "")
        return f"Input bundles do not cover the whole hash range. first:{first}, last:{last}"
    if any(lower >= upper for lower, upper in pairwise(numbers)):
        return "Invalid bundle boundaries: they must ascend"
    return None


def split(boundaries: Sequence[str], bundle: str, at: Sequence[int] = ()) -> list[str]:
    """Returns the boundaries after `bundle` was split at the points `at`, or into two halves when `at` is empty. Raises
    ValueError when a point is not inside the bundle, or when the bundle is too small to be split."""
    lower, upper = parse_range(bundle) or (0, 0)
    points = sorted(set(at)) or [lower + (upper - lower) // 2]
    if not all(lower < point < upper for point in points):
        raise ValueError(f"{bundle} cannot be split at {', '.join(f'0x{point:08x}' for point in points)}")
    return [f"0x{number:08x}" for number in sorted({*numbers_of(boundaries), *points})]
