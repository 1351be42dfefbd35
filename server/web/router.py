"""Finds the route of a path. The path is cut into segments before they are decoded, so that a topic's name may contain
an encoded slash (`%2F`)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from magnetar.server.web.calls import Route

DOMAINS = ("persistent", "non-persistent")


RECORD_NAMES = {
    "tenant": "Tenant",
    "namespace": "Namespace",
    "cluster": "Cluster",
    "failureDomain": "Failure domain",
    "bookie": "Bookie",
    "bundle": "Bundle",
    "group": "Group",
}
"""The variable segments of paths whose values become names of records in the metadata store, where a name must not look
like a path. Each segment has the word by which a refusal calls it."""


def fault_of_parts(parts: Mapping[str, str]) -> str | None:
    """Returns a text that says what is wrong with the variable segments of a path, or None when nothing is wrong. The
    function does no I/O."""
    for part, title in RECORD_NAMES.items():
        text = parts.get(part)
        if text is not None and ("/" in text or text in (".", "..") or not text.isprintable()):
            return f"{title} name is not valid"
    return None


class PathReading(NamedTuple):
    """One way to read a path: the routes that this reading leads to, by method, and the values of the variable
    segments."""

    routes: dict[str, Route]
    parts: dict[str, str]


class _PathNode:
    """A node of the tree of routes, for one sequence of segments. All routes whose paths begin with these segments pass
    through the node."""

    __slots__ = ("branches", "literal_characters", "routes", "wild")

    def __init__(self, literal_characters: int = 0) -> None:
        self.literal_characters = literal_characters
        """The number of characters in the literal segments that lead here."""
        self.branches: dict[str, _PathNode] = {}
        """The nodes that a literal segment leads to, by segment."""
        self.wild: list[tuple[str, _PathNode]] = []
        """The nodes that a variable segment leads to, each with the segment's name."""
        self.routes: dict[str, Route] = {}
        """The routes that end here, by method."""


class Router:
    """A tree of all routes by the segments of their paths."""

    def __init__(self, routes: Iterable[Route]) -> None:
        """Adds all routes. Raises ValueError when two have the same method and path."""
        self._root = _PathNode()
        for route in routes:
            self.add(route)

    def add(self, route: Route) -> None:
        """Adds a route. Raises ValueError when there is already a route with this method and path."""
        node = self._root
        for segment in route.path.split("/")[1:]:
            node = _branch(node, segment)
        if route.method in node.routes:
            raise ValueError(f"{route.method} {route.path} is there twice")
        node.routes[route.method] = route

    def find(self, raw_path: str) -> list[PathReading]:
        """Returns every reading of a path, the best one first. `raw_path` is the path as the client sent it, still
        percent-encoded.

        A call takes the first reading that has a route of its method. So a role, topic or policy can be reached even if
        its name is also a literal segment of another route. A reading with more literal characters is better than one
        with fewer, as JAX-RS says (specification 2.1, section 3.7.2). Of two readings with as many literal characters,
        the one whose literal segment comes first is better. A trailing slash is ignored: Jetty redirects one form of
        /metrics to the other.
        """
        if not raw_path.startswith("/"):
            return []
        segments = (raw_path.rstrip("/") or "/").split("/")[1:]
        readings = sorted(_walk(self._root, segments, 0, {}), key=lambda reading: -reading[0])
        return [found for _, found in readings]


def _branch(node: _PathNode, segment: str) -> _PathNode:
    """Returns the node that a segment of a route's path leads to, and makes it when it is missing."""
    if not segment.startswith("{"):
        return node.branches.setdefault(segment, _PathNode(node.literal_characters + len(segment)))
    name = segment.strip("{}")
    for known, child in node.wild:
        if known == name:
            return child
    child = _PathNode(node.literal_characters)
    node.wild.append((name, child))
    return child


def _walk(node: _PathNode, segments: list[str], at: int, parts: dict[str, str]) -> Iterator[tuple[int, PathReading]]:
    """Yields every reading of `segments` from index `at` on, with the number of its literal characters. A reading that
    takes a segment as a literal comes before a reading that takes the segment as a variable."""
    if at == len(segments):
        if node.routes:
            yield node.literal_characters, PathReading(node.routes, parts)
        return
    segment = segments[at]
    literal = node.branches.get(segment)
    if literal is not None:
        yield from _walk(literal, segments, at + 1, parts)
    text = unquote(segment)
    for name, child in node.wild:
        if text and (name != "domain" or text in DOMAINS):
            yield from _walk(child, segments, at + 1, {**parts, name: text})
