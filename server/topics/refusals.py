"""Remembers why a topic has refused clients. People ask why a consumer gets nothing, and often the answer is that the
consumer was never admitted; without this module the reason stands only in the client's own log."""

from typing import NamedTuple

from magnetar.server.topics.counters import now_ms
from pulsar_proto.errors import PulsarError

REMEMBERED_MAX = 64
"""For how many subscriptions of a topic the last refusal is remembered. Beyond that the oldest refusal is forgotten."""

TEXT_MAX = 1_000
"""How many characters of a reason are kept, because a client's schema may be part of the reason."""


class Refused(NamedTuple):
    """A client that the topic did not admit."""

    time_ms: int
    kind: str
    """The name of the error's class, such as IncompatibleSchema."""
    text: str
    """The reason as the client got it."""
    client: str
    """The client's address."""


class Refusals:
    """The last refused SUBSCRIBE of each subscription, and the last refused PRODUCER, of one topic."""

    __slots__ = ("_by_subscription", "of_producer")

    def __init__(self) -> None:
        self.of_producer: Refused | None = None
        self._by_subscription: dict[str, Refused] = {}

    def of_subscription(self, name: str) -> Refused | None:
        return self._by_subscription.get(name)

    def producer_refused(self, client: str, error: PulsarError) -> None:
        self.of_producer = _refused(client, error)

    def consumer_refused(self, subscription: str, client: str, error: PulsarError) -> None:
        """Remembers the refusal, unless the subscription's name is longer than TEXT_MAX characters."""
        if len(subscription) > TEXT_MAX:
            return
        self._by_subscription.pop(subscription, None)
        self._by_subscription[subscription] = _refused(client, error)
        if len(self._by_subscription) > REMEMBERED_MAX:
            del self._by_subscription[next(iter(self._by_subscription))]


def _refused(client: str, error: PulsarError) -> Refused:
    return Refused(now_ms(), type(error).__name__, str(error)[:TEXT_MAX], client)
