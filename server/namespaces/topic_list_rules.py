"""The topics of a namespace as clients with a topic pattern ask for them: filter and hash, without I/O.

Source: TopicList (pulsar-common). A pattern comes from the network and Python's matcher backtracks, so what matching
may cost is bounded beforehand; a list that is not filtered is a legal answer, the client then filters by itself.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from magnetar.server.process.turns import Steps
from pulsar_proto.checksum import crc32c
from pulsar_proto.errors import InvalidTopicName

MATCH_COST_MAX = 20_000_000
"""Upper bound of the matcher's steps for one list: the sum of len(name) ** repeats, times the ways to choose."""
NAME_COST_MAX = 400_000
"""Of one name: some milliseconds, which nobody can interrupt."""
STEP_COST = 100_000
"""Of names between two moments when others may run."""

_ESCAPED = re.compile(r"\\.", re.DOTALL)
_REPEAT = re.compile(r"[*+{]")
_REPEATED_GROUP = re.compile(r"\)\s*[*+{]")
_BACK_REFERENCE = re.compile(r"\\[1-9]|\\k|\(\?")
_JAVA_ONLY = re.compile(r"\\[pPQEGRhHvVXz]|&&")


def hash_of(topics: Sequence[str]) -> str:
    """CRC32C of the sorted names joined with commas; 8 hex digits, least significant byte first (Guava's HashCode)."""
    return crc32c(",".join(sorted(topics)).encode()).to_bytes(4, "little").hex()


class TopicListChange(NamedTuple):
    """How a list of topics became another one."""

    new: list[str]
    deleted: list[str]
    topics_hash: str
    """Of the list as it is now."""


def change_between(old: Sequence[str], new: Sequence[str]) -> TopicListChange | None:
    """None: nothing changed. Names sorted."""
    before, after = set(old), set(new)
    if before == after:
        return None
    return TopicListChange(sorted(after - before), sorted(before - after), hash_of(new))


def filter_by_pattern(topics: Sequence[str], pattern: str, max_length: int) -> Steps[list[str] | None]:
    """The topics that the pattern matches wholly, without scheme and without partition suffix; None where this broker
    does not filter: pattern longer than `max_length`, too costly, or in a dialect of Java alone. Works in steps.

    Raises InvalidTopicName for what is no regular expression.
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
    """How many ways through its alternatives and optional parts an expression without escapes has at most."""
    ways = 1 << bare.count("?")
    for group in bare.split(")"):
        ways *= group.count("|") + 1
    return ways


def without_scheme(text: str) -> str:
    scheme, separator, rest = text.partition("://")
    if not separator:
        return text
    return ("^" if scheme.startswith("^") else "") + rest


def _without_partition(topic: str) -> str:
    name, separator, index = topic.rpartition("-partition-")
    return name if separator and index.isdecimal() else topic
