"""What the calls of the web port share: a request as they see it, what they answer, and how they refuse."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from magnetar.server.web.needs import Need
from pulsar_proto.errors import (
    InvalidTopicName,
    NotAllowed,
    PulsarError,
    ServiceNotReady,
    SubscriptionNotFound,
    TooManyRequests,
    TopicNotFound,
)

if TYPE_CHECKING:
    from multidict import MultiMapping

    from magnetar.server.broker.broker import Broker


@dataclass(slots=True)
class Call:
    """One request. `parts` are the path's variable segments by name, percent-decoded; `query` answers the
    first of each name."""

    broker: "Broker"
    parts: Mapping[str, str]
    query: "MultiMapping[str]"
    headers: Mapping[str, str]
    body: bytes = field(default=b"", repr=False)

    def all_of(self, name: str) -> list[str]:
        """Every value of a query parameter that may come more than once."""
        return self.query.getall(name, [])

    def flag(self, name: str, default: bool = False) -> bool:
        """A query parameter as Java reads a boolean."""
        text = self.query.get(name)
        return default if text is None else text.lower() == "true"


class Text(NamedTuple):
    """An answer that is sent as it is; everything else becomes JSON."""

    body: bytes | list[bytes]
    """Or its parts, where it may be large."""
    content_type: str = "application/json"
    """Java labels even plain words so."""
    headers: Mapping[str, str] = {}


class Status(NamedTuple):
    """An answer without a body, or with one that is not sent with 200."""

    code: int
    value: Any = None
    """JSON; None: no body."""


NO_CONTENT: Final = Status(204)
"""How most changes are answered, and some policies that are not set."""

EMPTY: Final = Status(200)
"""How most policies that are not set are answered."""


class Refusal(Exception):
    """Told as `{"reason": ...}`, which admin clients show to their users."""

    def __init__(
        self, status: int, reason: str, *, headers: Mapping[str, str] | None = None, closes: bool = False
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers
        self.closes = closes
        """What follows on the connection is not read any more."""


Answer = Any
"""JSON by way of orjson, or `Text`, or `Status`."""

Handler = Callable[[Call], Awaitable[Answer]]


class Route(NamedTuple):
    """One call: `{name}` in the path stands for any one segment, `{domain}` for persistent or non-persistent."""

    method: str
    path: str
    handler: Handler
    needs: Need
    is_urgent: bool = False
    """Lookups and health checks: they do not wait behind other calls."""


STATUS_OF: dict[type[PulsarError], int] = {
    TopicNotFound: 404,
    SubscriptionNotFound: 404,
    NotAllowed: 405,
    InvalidTopicName: 412,
    TooManyRequests: 429,
    ServiceNotReady: 503,
}
"""AdminResource maps its exceptions so; what is not listed is 500."""


def refusal_of(error: PulsarError) -> Refusal:
    return Refusal(STATUS_OF.get(type(error), 500), str(error))
