"""Filters and hashes lists of topics, for clients that subscribe by a pattern.

A pattern comes from a client and Python's matcher backtracks, so the cost of matching is estimated beforehand and
bounded. When a pattern would cost too much, the list is not filtered; that is a legal answer, after which the client
filters by itself. Source: TopicList (pulsar-common)."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from magnetar.server.process.turns import Steps
from pulsar_proto.checksum import crc32c
from pulsar_proto.errors import InvalidTopicName

MATCH_COST_MAX = 20_000_000
"""The highest cost of matching one list. The cost of a name is an upper bound of the matcher's steps: the length of the
name to the power of the pattern's repeats, times the number of ways through the pattern's alternatives."""
NAME_COST_MAX = 400_000
"""The highest cost of matching one name, which takes some milliseconds in which no other task can run."""
STEP_COST = 100_000
"""After matching names of this total cost, other work of the event loop may run."""

_ESCAPED = re.compile(r"\\.", re.DOTALL)
_REPEAT = re.compile(r"[*+{]")
_REPEATED_GROUP = re.compile(r"\)\s*[*+{]")
_BACK_REFERENCE = re.compile(r"\\[1-9]|\\k|\(\?")
_JAVA_ONLY = re.compile(r"\\[pPQEGRhHvVXz]|&&")


def hash_of(topics: Sequence[str]) -> str:
    """Returns the CRC32C of the sorted names joined with commas, as 8 hex digits with the least significant byte first
    (the toString of Guava's HashCode)."""
    return crc32c(",".join(sorted(topics)).encode()).to_bytes(4, "little").hex()


class TopicListChange(NamedTuple):
    """The difference between two lists of topics."""

    new: list[str]
    deleted: list[str]
    topics_hash: str
    """The `hash_of` the new list."""


def change_between(old: Sequence[str], new: Sequence[str]) -> TopicListChange | None:
    """Returns the difference, with names sorted, or None when the lists do not differ."""
    before, after = set(old), set(new)
    if before == after:
        return None
    return TopicListChange(sorted(after - before), sorted(before - after), hash_of(new))


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
    names = [without_scheme(_without_partition(topic)) for topic in topics]
    repeats, ways = len(_REPEAT.findall(bare)), _ways(bare)
    costs = [len(name) ** repeats * ways for name in names]
    if sum(costs) > MATCH_COST_MAX or max(costs, default=0) > NAME_COST_MAX:
        return None
    matching: list[str] = []
    spent = 0
    for topic, name, cost in zip(topics, names, costs, strict=True):
        spent += cost
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
