"""Patterns of topics: a namespace, and a regular expression for the topics in it. This module does no I/O.

As for Pulsar's clients, the expression has to match the whole name without its domain, `tenant/namespace/topic`. The
name of a partitioned topic counts, not those of its partitions (TopicList.filterTopics).
"""

import re
from collections.abc import Iterable

from pulsar_proto.errors import InvalidTopicName
from pulsar_proto.names import DEFAULT_NAMESPACE, NamespaceName, TopicName

PATTERN_CHARACTERS_MAX = 1000


def parse_pattern(text: str) -> tuple[NamespaceName, str]:
    """Returns the namespace of a pattern, and the pattern in full but without a domain. Raises ValueError for a pattern
    that is no regular expression, or whose tenant and namespace are not plain names."""
    if len(text) > PATTERN_CHARACTERS_MAX:
        raise ValueError(f"the pattern has more than {PATTERN_CHARACTERS_MAX} characters")
    bare = re.sub(r"^(non-)?persistent://", "", text)
    if bare.count("/") == 0:
        bare = f"{DEFAULT_NAMESPACE}/{bare}"
    tenant, _, rest = bare.partition("/")
    name, slash, local = rest.partition("/")
    try:
        namespace = NamespaceName.parse(f"{tenant}/{name}")
        if not slash or not local:
            raise ValueError
        re.compile(bare)
    except (InvalidTopicName, ValueError):
        raise ValueError(f"'{text}' is no pattern such as orders-.* or tenant/namespace/orders-.*") from None
    except re.error as error:
        raise ValueError(f"'{text}' is no regular expression: {error}") from None
    return namespace, bare


def matching(pattern: str, topics: Iterable[str]) -> list[str]:
    """Returns the topics that match, sorted, each partitioned topic once. `pattern` is one that `parse_pattern` has
    returned."""
    expression = re.compile(pattern)
    bases = {TopicName.parse(topic).base for topic in topics}
    return sorted(base.full for base in bases if expression.fullmatch(base.full.partition("://")[2]))
