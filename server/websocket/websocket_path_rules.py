"""Reads the paths of sockets: a socket's purpose and its topics. This module does no I/O.

    /ws/v2/producer/{domain}/{tenant}/{namespace}/{topic}
    /ws/v2/consumer/{domain}/{tenant}/{namespace}/{topic}/{subscription}
    /ws/v2/reader/{domain}/{tenant}/{namespace}/{topic}
    /ws/v3/consumer/{subscription}?topics=a,b        or ?topicsPattern=
    /ws/producer/persistent/{tenant}/{cluster}/{namespace}/{topic}, and likewise /ws/consumer and /ws/reader

Topic and subscription are decoded as Java's URLDecoder does it, where `+` is a space. Sources: extractTopicName of
AbstractWebSocketHandler and of MultiTopicConsumerHandler, ConsumerHandler.extractSubscription.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from pulsar_proto.errors import InvalidTopicName
from pulsar_proto.names import TopicName, decode_local

ROOT = "/ws/"

TOPICS_MAX = 1_000
"""How many topics a path may name."""


class QueryFault(Exception):
    """Raised for a path or a query parameter that makes no sense. The error's text names the path or the parameter. The
    request is answered with 400."""


class SocketKind(Enum):
    """The purpose of a socket."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    READER = "reader"


@dataclass(frozen=True, slots=True)
class SocketPath:
    """The content of a socket's path. Either `topics` or `pattern` is set."""

    kind: SocketKind
    topics: tuple[TopicName, ...]
    """The topics in the order in which the path names them, without repetitions."""
    pattern: str = ""
    """A regular expression of topics, as `topicsPattern` gives it."""
    subscription: str = ""
    """The subscription of a consumer; empty for producers and readers."""

    def __str__(self) -> str:
        return f"{self.kind.value} of {self.pattern or ', '.join(map(str, self.topics))}"


def is_socket_path(raw_path: str) -> bool:
    """Returns whether a path leads to sockets, even if it is malformed. The path is given as it came, still encoded."""
    return raw_path.startswith(ROOT)


def read_path(raw_path: str, query: Mapping[str, str]) -> SocketPath | None:
    """Returns the content of a path, or None for an unknown path. `raw_path` is the path as the client sent it, still
    encoded. Raises QueryFault for a path or query that makes no sense."""
    parts = raw_path.split("/")[2:]
    version = parts.pop(0) if parts[0] in ("v2", "v3") else "v1"
    kind = next((kind for kind in SocketKind if parts and parts[0] == kind.value), None)
    if kind is None:
        return None
    rest = parts[1:]
    if version == "v3":
        return _several_topics(rest, query) if kind is SocketKind.CONSUMER else None
    if version == "v1":
        rest = _without_cluster(rest)
    return _one_topic(kind, rest)


def _without_cluster(rest: list[str]) -> list[str]:
    """Returns the segments of a path of Pulsar 1 without the cluster. This server names such a namespace
    `tenant/namespace`."""
    if len(rest) < 5:
        raise QueryFault("Invalid topic name format")
    return [*rest[:2], *rest[3:]]


def _one_topic(kind: SocketKind, rest: list[str]) -> SocketPath:
    subscription = ""
    if kind is SocketKind.CONSUMER:
        if len(rest) != 5:
            raise QueryFault("Invalid topic name format: expected {domain}/{tenant}/{namespace}/{topic}/{subscription}")
        subscription = _subscription(rest.pop())
    if len(rest) != 4:
        raise QueryFault("Invalid topic name format: expected {domain}/{tenant}/{namespace}/{topic}")
    domain, tenant, namespace, local = map(decode_local, rest)
    return SocketPath(kind, (_topic(f"{domain}://{tenant}/{namespace}/{local}"),), "", subscription)


def _several_topics(rest: list[str], query: Mapping[str, str]) -> SocketPath:
    if len(rest) != 1:
        raise QueryFault("Invalid path: expected /ws/v3/consumer/{subscription}")
    subscription = _subscription(rest[0])
    topics, pattern = query.get("topics", ""), query.get("topicsPattern", "")
    if not topics and not pattern:
        raise QueryFault("Should set topics or topicsPattern")
    if topics and pattern:
        raise QueryFault("Topics must be null when use topicsPattern")
    if pattern:
        return SocketPath(SocketKind.CONSUMER, (), pattern, subscription)
    names = [text.strip() for text in topics.split(",")]
    if len(names) > TOPICS_MAX:
        raise QueryFault(f"{len(names)} topics: at most {TOPICS_MAX} may be named")
    return SocketPath(SocketKind.CONSUMER, tuple(dict.fromkeys(map(_topic, names))), "", subscription)


def _subscription(raw: str) -> str:
    subscription = decode_local(raw)
    if not subscription:
        raise QueryFault("Empty subscription name")
    return subscription


def _topic(text: str) -> TopicName:
    try:
        return TopicName.parse(text)
    except InvalidTopicName as error:
        raise QueryFault(str(error)) from None
