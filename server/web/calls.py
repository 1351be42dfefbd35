"""The types that all calls of the web port share: the request as handlers see it, answers, refusals and routes."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from magnetar.server.process.compressed_text import CompressedText
from magnetar.server.web.needs import Need
from magnetar.server.web.places import Place
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
    """One request, as its handler gets it. `parts` are the variable segments of the path by name, percent-decoded.
    `query` is a multi-dictionary: for a parameter that was given more than once, `query[name]` is the first value."""

    broker: "Broker"
    parts: Mapping[str, str]
    query: "MultiMapping[str]"
    headers: Mapping[str, str]
    body: bytes = field(default=b"", repr=False)
    remote_address: str = ""
    """`/host:port` of the caller, as Pulsar's stats print it."""
    method: str = ""
    target: str = ""
    """The path and query of the request, exactly as they came, because a redirect repeats them."""
    is_https: bool = False

    def all_of(self, name: str) -> list[str]:
        """Returns every value of a query parameter that may be given more than once."""
        return self.query.getall(name, [])

    def flag(self, name: str, default: bool = False) -> bool:
        """Reads a query parameter as Boolean.parseBoolean does: "true" in any case is true, everything else false.
        `default` stands for a parameter that was not given."""
        text = self.query.get(name)
        return default if text is None else text.lower() == "true"


class Text(NamedTuple):
    """An answer whose body is sent unchanged. Other answers are encoded as JSON."""

    body: bytes | list[bytes]
    """A body that may be large is given in parts, which are sent one after the other."""
    content_type: str = "application/json"
    """Java's broker sends even plain words with this content type."""
    headers: Mapping[str, str] = {}


class Unpacked(NamedTuple):
    """An answer whose body is kept compressed, and is unpacked while it is sent."""

    body: CompressedText
    content_type: str
    headers: Mapping[str, str] = {}


class Streamed(NamedTuple):
    """An answer that is made while it is sent, as fast as the client reads. When `parts` raises an error, the answer
    breaks off."""

    parts: AsyncGenerator[bytes, None]
    content_type: str = "application/octet-stream"


class Status(NamedTuple):
    """An answer with a status other than 200, or without a body."""

    code: int
    value: Any = None
    """The body, to be encoded as JSON; None stands for no body."""
    headers: Mapping[str, str] = {}


NO_CONTENT: Final = Status(204)
"""The answer to most calls that change something. For some policies NO_CONTENT is also the answer to a call that reads
the policy when it is not set; for all other policies that answer is EMPTY."""

EMPTY: Final = Status(200)
"""The answer to a call that reads a policy when the policy is not set. For some policies the answer is NO_CONTENT
instead."""


class Refusal(Exception):
    """Raised by a handler that does not do what was asked. The body of the answer is `{"reason": ...}`, whose text
    admin clients show to their users."""

    def __init__(
        self, status: int, reason: str, *, headers: Mapping[str, str] | None = None, closes: bool = False
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.headers = headers
        self.closes = closes
        """Whether the connection is closed after the answer, because the rest of the request is not read."""


class Moved(Exception):
    """Raised when another broker, or another path, serves the call. The answer is a redirect. With the status 307
    clients repeat the call, with its method and its body, at `location`."""

    def __init__(self, location: str, status: int = 307) -> None:
        super().__init__(location)
        self.location = location
        self.status = status


Answer = Any
"""A `Text`, an `Unpacked`, a `Streamed`, a `Status`, or any value that orjson can encode."""

Handler = Callable[[Call], Awaitable[Answer]]


class Route(NamedTuple):
    """One route: a method and a path, with the handler of its calls. `{name}` in the path stands for any one segment,
    but `{domain}` only for `persistent` or `non-persistent`."""

    method: str
    path: str
    handler: Handler
    needs: Need
    place: Place
    """The broker of the cluster that serves the call. `owner_redirects` redirects clients that ask any other broker."""
    is_urgent: bool = False
    """True for lookups and health checks, which do not have to wait for other calls."""


STATUS_OF: dict[type[PulsarError], int] = {
    TopicNotFound: 404,
    SubscriptionNotFound: 404,
    NotAllowed: 405,
    InvalidTopicName: 412,
    TooManyRequests: 429,
    ServiceNotReady: 503,
}
"""The status of the answer for each error, as AdminResource maps its exceptions. An error
that is not listed is answered with 500."""


def refusal_of(error: PulsarError) -> Refusal:
    """Returns the answer to a call that failed with `error`."""
    return Refusal(STATUS_OF.get(type(error), 500), str(error))
