"""Names of topics and namespaces as Java's TopicName and NamespaceName read them, and their REST paths.

`pulsar_proto.names` is not used: it loads protobuf, which takes longer than a command, and it refuses the names of
Pulsar 1 with a cluster in the middle, which Apache's brokers still serve below `/admin`.
"""

import re
from typing import NamedTuple
from urllib.parse import quote_plus

_ENTITY = re.compile(r"[-=:.A-Za-z0-9_]+")
_DOMAINS = ("persistent", "non-persistent")
_PARTITION = re.compile(r"-partition-(0|[1-9][0-9]*)$")


class Namespace(NamedTuple):
    """A namespace. `cluster` is empty but for names of Pulsar 1."""

    tenant: str
    cluster: str
    name: str

    @property
    def text(self) -> str:
        return "/".join(part for part in self if part)

    @property
    def root(self) -> str:
        """Returns the beginning of every admin path: `/admin/v2`, or `/admin` for names of Pulsar 1."""
        return "/admin" if self.cluster else "/admin/v2"

    @property
    def path(self) -> str:
        return f"{self.root}/namespaces/{self.text}"


class Topic(NamedTuple):
    """A topic by its domain, namespace and local name."""

    domain: str
    namespace: Namespace
    local: str

    @property
    def text(self) -> str:
        """Returns `persistent://tenant/namespace/topic`."""
        return f"{self.domain}://{self.namespace.text}/{self.local}"

    @property
    def below_namespace(self) -> str:
        """Returns `tenant/namespace/encoded-topic`; the local name is encoded as Java's URLEncoder does."""
        return f"{self.namespace.text}/{quote_plus(self.local, safe='*').replace('~', '%7E')}"

    @property
    def path(self) -> str:
        return f"{self.namespace.root}/{self.domain}/{self.below_namespace}"

    @property
    def partition_index(self) -> int:
        match = _PARTITION.search(self.local)
        return int(match[1]) if match else -1

    def partition(self, index: int) -> "Topic":
        return self._replace(local=f"{self.local}-partition-{index}")


def parse_namespace(text: str) -> Namespace:
    """Raises ValueError for a text that is no name of a namespace."""
    parts = text.split("/")
    if len(parts) not in (2, 3) or not all(_ENTITY.fullmatch(part) for part in parts):
        raise ValueError(
            "Invalid namespace format. expected <tenant>/<namespace> or <tenant>/<cluster>/<namespace> but got: " + text
        )
    return Namespace(parts[0], parts[1] if len(parts) == 3 else "", parts[-1])


def parse_topic(text: str, domain: str = "") -> Topic:
    """Returns the topic of a full or a short name. `domain` is the only domain that is accepted. Raises ValueError."""
    found, scheme, rest = text.partition("://")
    if not scheme:
        parts = text.split("/")
        if len(parts) == 1:
            parts = ["public", "default", *parts]
        elif len(parts) != 3:
            raise ValueError(
                f"Invalid short topic name '{text}', it should be in the format of "
                "<tenant>/<namespace>/<topic> or <topic>"
            )
        found = "persistent"
    else:
        parts = rest.split("/", 3)
    if found not in _DOMAINS:
        raise ValueError(f"Invalid topic domain: '{found}'")
    if len(parts) < 3 or not parts[-1].strip() or not all(_ENTITY.fullmatch(part) for part in parts[:-1]):
        raise ValueError(f"Invalid topic name: {text}")
    if domain and found != domain:
        raise ValueError(f"Need to provide a {domain} topic name")
    cluster = parts[1] if len(parts) == 4 else ""
    return Topic(found, Namespace(parts[0], cluster, parts[-2]), parts[-1])
