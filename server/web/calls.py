"""What the calls of the web port share: a request as they see it, and how they refuse."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pulsar_proto.errors import (
    InvalidTopicName,
    NotAllowed,
    PulsarError,
    ServiceNotReady,
    TooManyRequests,
    TopicNotFound,
)
from pulsar_proto.names import TopicName

if TYPE_CHECKING:
    from server.broker_context import BrokerContext


class Call(NamedTuple):
    """One request. `parts` are the path's variable segments, percent-decoded; `query` holds the last of each name."""

    broker: "BrokerContext"
    parts: tuple[str, ...]
    query: Mapping[str, str]
    headers: Mapping[str, str]

    def flag(self, name: str) -> bool:
        """A query parameter as Java reads a boolean; false when absent."""
        return self.query.get(name, "").lower() == "true"


class Text(NamedTuple):
    """An answer that is sent as it is; everything else becomes JSON."""

    body: bytes
    content_type: str = "application/json"
    """Java labels even plain words so."""


class Refusal(Exception):
    """Told as `{"reason": ...}`, which admin clients show to their users."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


Answer = Any
"""JSON by way of orjson, or `Text`."""

STATUS_OF: dict[type[PulsarError], int] = {
    TopicNotFound: 404,
    NotAllowed: 405,
    InvalidTopicName: 412,
    TooManyRequests: 429,
    ServiceNotReady: 503,
}
"""AdminResource maps its exceptions so; what is not listed is 500."""


def refusal_of(error: PulsarError) -> Refusal:
    return Refusal(STATUS_OF.get(type(error), 500), str(error))


def topic_of(domain: str, tenant: str, namespace: str, local_name: str) -> TopicName:
    """Raises InvalidTopicName."""
    return TopicName.parse(f"{domain}://{tenant}/{namespace}/{local_name}")
