"""Names of topics and namespaces, and the spellings under which they are stored.

Source: Java's TopicName, NamespaceName, NamedEntity and Codec; docs/WIRE_FORMATS.md, "Names as stored". Names of Pulsar
1 with a cluster in the middle (tenant/cluster/namespace/topic) are refused, as Pulsar 5.0 does.
"""

import re
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Self
from urllib.parse import quote_plus, unquote_plus

from pulsar_proto.errors import InvalidTopicName

PERSISTENT = "persistent"
NON_PERSISTENT = "non-persistent"
DEFAULT_NAMESPACE = "public/default"
PARTITION_SUFFIX = "-partition-"
CACHED_NAMES_MAX = 10_000
"""How many parsed names are kept for the next parse of the same text. When there are more, the least recently used one
is dropped."""
CACHED_CHARACTERS_MAX = 1_024
"""A longer name is parsed but not kept: clients may ask for names of megabytes."""

_ENTITY = re.compile(r"[-=:.A-Za-z0-9_]+")
_PLAIN = re.compile(r"[-.*_A-Za-z0-9]*")
"""Matches the names that `encode_local` leaves as they are."""
_DOTS = (".", "..")
"""Names that no record can have, since a metadata store takes them for steps of a path."""
_I32_MAX = 2**31 - 1


def encode_local(text: str) -> str:
    """Encodes a local name as Java's URLEncoder does in UTF-8: space is `+`; only letters, digits and `.-*_` stay."""
    if _PLAIN.fullmatch(text):
        return text
    return quote_plus(text, safe="*", errors="replace").replace("~", "%7E")


def decode_local(text: str) -> str:
    """Decodes a local name that `encode_local` has encoded."""
    return text if _PLAIN.fullmatch(text) else unquote_plus(text)


def topic_of_managed_ledger(name: str) -> str:
    """Returns the full name of the topic whose managed ledger has this name (`TopicName.managed_ledger_name`)."""
    *namespace, domain, local = name.split("/")
    return f"{domain}://{'/'.join(namespace)}/{decode_local(local)}"


def topic_of_schema(schema_id: str) -> str:
    """Returns the full name of the topic that a schema id (`TopicName.schema_id`) belongs to. The id does not tell the
    domain, and the persistent topic and the non-persistent one of a name share a schema: the persistent one is named.
    """
    namespace, _, local = schema_id.rpartition("/")
    return f"{PERSISTENT}://{namespace}/{decode_local(local)}"


def partition_index(local_name: str) -> int:
    """Returns k of a name `…-partition-k`, or -1 for any other name. k is decimal without leading zeros, up to
    2^31-1."""
    _, suffix, digits = local_name.rpartition(PARTITION_SUFFIX)
    if not suffix or not digits.isascii() or not digits.isdigit() or (digits[0] == "0" and digits != "0"):
        return -1
    index = int(digits) if len(digits) <= 10 else _I32_MAX + 1
    return index if index <= _I32_MAX else -1


@dataclass(frozen=True, slots=True)
class NamespaceName:
    """A namespace's name in its parts, `tenant/name`."""

    tenant: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses a namespace's name. Raises InvalidTopicName unless `text` is two names of allowed characters with a
        slash between them."""
        tenant, slash, name = text.partition("/")
        if not slash or not all(_ENTITY.fullmatch(each) and each not in _DOTS for each in (tenant, name)):
            raise InvalidTopicName(f"Invalid namespace name {text!r}: expected <tenant>/<namespace>")
        return cls(tenant, name)

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}"


@dataclass(frozen=True, slots=True)
class TopicName:
    """A topic's name in its parts. Two names are equal when their full texts are equal."""

    full: str
    """The name in full: `persistent://tenant/namespace/local`. Bundles hash this text, and clients and listings show
    it."""
    domain: str = field(compare=False)
    tenant: str = field(compare=False)
    namespace_name: str = field(compare=False)
    namespace: str = field(compare=False)
    """`tenant/namespace`."""
    local_name: str = field(compare=False)
    partition_index: int = field(compare=False)
    """The number of the partition; -1 when the topic is not a partition."""

    @staticmethod
    def parse(text: str) -> "TopicName":
        """Parses a full name, or the short name of a persistent topic: `tenant/namespace/topic`, or `topic` for one in
        public/default.

        Raises InvalidTopicName for any other text.
        """
        return _kept(text) if len(text) <= CACHED_CHARACTERS_MAX else _parsed(text)

    @property
    def is_persistent(self) -> bool:
        return self.domain == PERSISTENT

    @property
    def is_partition(self) -> bool:
        return self.partition_index >= 0

    @property
    def base(self) -> "TopicName":
        """Returns the partitioned topic that a partition belongs to; for any other topic, the topic itself."""
        if self.partition_index < 0:
            return self
        return TopicName.parse(self.full.rpartition(PARTITION_SUFFIX)[0])

    def partition(self, index: int) -> "TopicName":
        """Returns the name of partition `index` of this topic."""
        return TopicName.parse(f"{self.full}{PARTITION_SUFFIX}{index}")

    @property
    def managed_ledger_name(self) -> str:
        """Returns `tenant/namespace/domain/encoded-local`, the path below /managed-ledgers."""
        return f"{self.namespace}/{self.domain}/{encode_local(self.local_name)}"

    @property
    def schema_id(self) -> str:
        """Returns `tenant/namespace/encoded-local` of the base topic, the path below /schemas."""
        return f"{self.namespace}/{encode_local(self.base.local_name)}"

    def __str__(self) -> str:
        return self.full


@lru_cache(maxsize=CACHED_NAMES_MAX)
def _kept(text: str) -> TopicName:
    return _parsed(text)


def _parsed(text: str) -> TopicName:
    domain, scheme, rest = text.partition("://")
    if not scheme:
        domain, rest = PERSISTENT, text
        if "/" not in text:
            rest = f"{DEFAULT_NAMESPACE}/{text}"
        elif text.count("/") != 2:
            raise InvalidTopicName(
                f"Invalid short topic name '{text}', it should be in the format of "
                "<tenant>/<namespace>/<topic> or <topic>"
            )
    if domain not in (PERSISTENT, NON_PERSISTENT):
        raise InvalidTopicName(f"Invalid topic domain: '{domain}' of '{text}'")
    parts = rest.split("/")
    if len(parts) != 3:
        raise InvalidTopicName(f"Invalid topic name '{text}': expected {domain}://<tenant>/<namespace>/<topic>")
    tenant, namespace, local_name = parts
    for entity in (tenant, namespace):
        if not _ENTITY.fullmatch(entity) or entity in _DOTS:
            raise InvalidTopicName(f"Invalid topic name '{text}': '{entity}' is no tenant or namespace")
    if local_name in _DOTS:
        raise InvalidTopicName(f"Invalid topic name '{text}': '{local_name}' is no topic")
    if not local_name.strip():
        raise InvalidTopicName(f"Invalid topic name '{text}': topic name can't be empty")
    full = text if scheme else f"{domain}://{tenant}/{namespace}/{local_name}"
    # Names of one namespace share these parts, because a broker has many names.
    domain, tenant, namespace, both = map(sys.intern, (domain, tenant, namespace, f"{tenant}/{namespace}"))
    return TopicName(full, domain, tenant, namespace, both, local_name, partition_index(local_name))
