"""Which call answers which path.

A route is a method and a path, in which `*` stands for one segment: the segment that came, percent-decoded, is the
call's next part. Paths are cut before they are decoded, so a topic's name may hold `%2F`.
"""

from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from server.web import brokers, lookup, namespaces, topics
from server.web.calls import Answer, Call

Handler = Callable[[Call], Awaitable[Answer]]

ROUTES: dict[str, dict[str, Handler]] = {
    "/status.html": {"GET": brokers.status},
    "/metrics": {"GET": brokers.metrics},
    "/admin/v2/brokers": {"GET": brokers.brokers},
    "/admin/v2/brokers/health": {"GET": brokers.health},
    "/admin/v2/brokers/ready": {"GET": brokers.ready},
    "/admin/v2/brokers/version": {"GET": brokers.version},
    "/admin/v2/brokers/leaderBroker": {"GET": brokers.leader},
    "/admin/v2/brokers/*": {"GET": brokers.brokers},
    "/admin/v2/clusters": {"GET": brokers.clusters},
    "/admin/v2/namespaces/*/*/topics": {"GET": namespaces.topics},
    "/lookup/v2/topic/*/*/*/*": {"GET": lookup.lookup},
    "/admin/v2/persistent/*/*": {"GET": namespaces.persistent_topics},
    "/admin/v2/persistent/*/*/*/partitions": {"GET": topics.partitions_of_persistent},
    "/admin/v2/non-persistent/*/*/*/partitions": {"GET": topics.partitions_of_non_persistent},
    "/admin/v2/persistent/*/*/*/stats": {"GET": topics.stats},
    "/admin/v2/persistent/*/*/*/internalStats": {"GET": topics.internal_stats},
    "/admin/v2/persistent/*/*/*/subscriptions": {"GET": topics.subscriptions},
    "/admin/v2/persistent/*/*/*/lastMessageId": {"GET": topics.last_message_id},
}


class Found:
    """What a path leads to: the handlers by method, and the path's variable parts."""

    __slots__ = ("handlers", "parts")

    def __init__(self, handlers: dict[str, Handler], parts: tuple[str, ...]) -> None:
        self.handlers = handlers
        self.parts = parts


def find(raw_path: str) -> Found | None:
    """The route of a path as it came, still encoded; a literal segment outranks a variable one. A trailing slash does
    not matter (Jetty redirects one form of /metrics to the other)."""
    segments = raw_path.rstrip("/").split("/")
    best: Found | None = None
    best_literals = -1
    for pattern, handlers in ROUTES.items():
        wanted = pattern.split("/")
        if len(wanted) != len(segments):
            continue
        pairs = list(zip(wanted, segments, strict=True))
        if all(want in ("*", got) for want, got in pairs):
            literals = sum(want != "*" for want in wanted)
            if literals > best_literals:
                best_literals = literals
                best = Found(handlers, tuple(unquote(got) for want, got in pairs if want == "*"))
    return best
