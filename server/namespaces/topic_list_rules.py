"""Filters and hashes lists of topics, for clients that subscribe by a pattern.

A pattern comes from a client and Python's matcher backtracks, so the cost of matching is estimated beforehand and
bounded. When a pattern would cost too much, the list is not filtered; that is a legal answer, after which the client
filters by itself. Source: TopicList (pulsar-common)."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from magnetar.server.process.turns import Steps
from pulsar_proto.checksum import crc32c
from pulsar_proto.errors import InvalidTopicName

MATCH_COST_MAX = 20_000_000
"""The highest cost of matching one list, unless the list is so long that MEAN_COST_MAX allows more. The cost of a name
is an upper bound of the matcher's steps: the length of the name to the power of the pattern's repeats, times the number
of ways through the pattern's alternatives."""
NAME_COST_MAX = 400_000
"""The highest cost of matching one name, which takes some milliseconds in which no other task can run."""
NAME_COST_MIN = 100
"""The cost of a name besides the matching itself."""
MEAN_COST_MAX = 2_000
"""The highest mean cost of a name in a long list. Patterns with two repeats stay below it, as long as the names have no
more than forty characters. The list of a namespace with hundreds of thousands of topics does not fit into a frame
unless it is filtered."""
NAMES_AT_ONCE = 2_000
"""How many names are hashed or compared before other tasks may run; this takes less than a millisecond."""
STEP_COST = 100_000
"""After matching names of this total cost, other work of the event loop may run."""

_ESCAPED = re.compile(r"\\.", re.DOTALL)
_REPEAT = re.compile(r"[*+{]")
_REPEATED_GROUP = re.compile(r"\)\s*[*+{]")
_BACK_REFERENCE = re.compile(r"\\[1-9]|\\k|\(\?")
_JAVA_ONLY = re.compile(r"\\[pPQEGRhHvVXz]|&&")


class TopicListDigest(NamedTuple):
    """The hash and the size of a list of topics, for the answer that holds the list."""

    topics_hash: str
    """The `hash_of` the list."""
    name_bytes: int
    """How many bytes the names have in UTF-8, without separators."""


def hash_of(topics: Sequence[str]) -> str:
    """Returns the CRC32C of the sorted names joined with commas, as 8 hex digits with the least significant byte first
    (the toString of Guava's HashCode)."""
    return _as_hex(crc32c(",".join(sorted(topics)).encode()))


def digest_of(topics: Sequence[str]) -> Steps[TopicListDigest]:
    """Returns the digest of a list that is sorted. This is a generator, which yields where other work of the event loop
    may run."""
    checksum = size = 0
    for start in range(0, len(topics), NAMES_AT_ONCE):
        text = ",".join(topics[start : start + NAMES_AT_ONCE])
        data = (text if start == 0 else f",{text}").encode()
        checksum = crc32c(data, checksum)
        size += len(data)
        yield
    separators = max(0, len(topics) - 1)
    return TopicListDigest(_as_hex(checksum), size - separators)


def _as_hex(checksum: int) -> str:
    return checksum.to_bytes(4, "little").hex()


class TopicListChange(NamedTuple):
    """The difference between two lists of topics."""

    new: list[str]
    deleted: list[str]
    topics_hash: str
    """The `hash_of` the new list."""


def difference(old: Sequence[str], new: Sequence[str]) -> Steps[tuple[list[str], list[str]]]:
    """Returns the names that only `new` has, and those that only `old` has. Both lists are sorted. This is a generator,
    which yields where other work of the event loop may run."""
    added: list[str] = []
    removed: list[str] = []
    at_old = at_new = 0
    while at_old < len(old) or at_new < len(new):
        # Both slices end at the same name, so a name that is in only one of the slices is in only one of the lists.
        some_old, some_new = old[at_old : at_old + NAMES_AT_ONCE], new[at_new : at_new + NAMES_AT_ONCE]
        ends = [some[-1] for some in (some_old, some_new) if len(some) == NAMES_AT_ONCE]
        if ends:
            last = min(ends)
            some_old = some_old[: bisect_right(some_old, last)]
            some_new = some_new[: bisect_right(some_new, last)]
        at_old += len(some_old)
        at_new += len(some_new)
        before, after = set(some_old), set(some_new)
        if before != after:
            added += sorted(after - before)
            removed += sorted(before - after)
        yield
    return added, removed


def filter_by_pattern(topics: Sequence[str], pattern: str, max_length: int) -> Steps[list[str] | None]:
    """Returns the topics whose names, without scheme and partition suffix, match the whole pattern. Returns None when
    this broker does not filter by the pattern, because the pattern is longer than `max_length`, is too costly, or has
    syntax that only Java's regular expressions have. This is a generator, which yields where other work of the event
    loop may run.

    Raises InvalidTopicName when the pattern is not a regular expression.
    """
    if len(pattern) > max_length or _JAVA_ONLY.search(pattern):
        return None
    expression = without_scheme(pattern)
    try:
        matcher = re.compile(expression)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidTopicName(f"Invalid topics pattern: {error}") from None
    bare = _ESCAPED.sub("e", expression)
    if _REPEATED_GROUP.search(bare) or _BACK_REFERENCE.search(expression):
        return None
    repeats, ways = len(_REPEAT.findall(bare)), _ways(bare)
    left = max(MATCH_COST_MAX, len(topics) * MEAN_COST_MAX)
    matching: list[str] = []
    spent = 0
    for topic in topics:
        name = without_scheme(_without_partition(topic))
        cost = len(name) ** repeats * ways
        left -= cost
        if cost > NAME_COST_MAX or left < 0:
            return None
        spent += cost + NAME_COST_MIN
        if spent > STEP_COST:
            spent = 0
            yield
        if matcher.fullmatch(name):
            matching.append(topic)
    return matching


def _ways(bare: str) -> int:
    """Returns an upper bound of the number of ways through an expression's alternatives and optional parts. The escapes
    have been replaced before."""
    ways = 1 << bare.count("?")
    for group in bare.split(")"):
        ways *= group.count("|") + 1
    return ways


def without_scheme(text: str) -> str:
    """Returns a topic name or pattern without `persistent://` or the like; a leading `^` of a pattern stays."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return text
    return ("^" if scheme.startswith("^") else "") + rest


def _without_partition(topic: str) -> str:
    name, separator, index = topic.rpartition("-partition-")
    return name if separator and index.isdecimal() else topic
