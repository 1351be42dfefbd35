"""Finds the route of a path. Segments are cut before they are decoded, so that a topic's name may hold `%2F`."""

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
"""Parts of paths that name records of the metadata store, where they must be one name and no path."""


def fault_of_parts(parts: Mapping[str, str]) -> str | None:
    """What is wrong with a path's parts, or None. Pure."""
    for part, title in RECORD_NAMES.items():
        text = parts.get(part)
        if text is not None and ("/" in text or text in (".", "..") or not text.isprintable()):
            return f"{title} name is not valid"
    return None


class PathReading(NamedTuple):
    """One reading of a path: the routes that it leads to by method, and its variable parts."""

    routes: dict[str, Route]
    parts: dict[str, str]


class _PathNode:
    __slots__ = ("branches", "literal_characters", "routes", "wild")

    def __init__(self, literal_characters: int = 0) -> None:
        self.literal_characters = literal_characters
        """Of the literal segments that lead here."""
        self.branches: dict[str, _PathNode] = {}
        self.wild: list[tuple[str, _PathNode]] = []
        """(name, node) of variable segments."""
        self.routes: dict[str, Route] = {}


class Router:
    """Raises ValueError for two routes of one method and path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _PathNode()
        for route in routes:
            self.add(route)

    def add(self, route: Route) -> None:
        node = self._root
        for segment in route.path.split("/")[1:]:
            node = _branch(node, segment)
        if route.method in node.routes:
            raise ValueError(f"{route.method} {route.path} is there twice")
        node.routes[route.method] = route

    def find(self, raw_path: str) -> list[PathReading]:
        """Every reading of a path as it came, still encoded, the best one first; a call takes the first reading that
        has its method. So a role, topic or policy whose name is a literal of another route can be reached.

        The reading with more literal characters is the better one, as JAX-RS says (specification 2.1, 3.7.2); among
        equals the one whose literal comes first. A trailing slash does not matter (Jetty redirects one form of
        /metrics to the other).
        """
        segments = raw_path.rstrip("/").split("/")[1:]
        if not segments or not raw_path.startswith("/"):
            return []
        readings = sorted(_walk(self._root, segments, 0, {}), key=lambda reading: -reading[0])
        return [found for _, found in readings]


def _branch(node: _PathNode, segment: str) -> _PathNode:
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
    """Every way to a node with routes, with its literal characters; earlier literals first."""
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
