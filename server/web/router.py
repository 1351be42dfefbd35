"""Finds the route of a path. Segments are cut before they are decoded, so that a topic's name may hold `%2F`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from server.web.calls import Route

DOMAIN = "{domain}"
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


class Found(NamedTuple):
    """What a path leads to: its routes by method, and its variable parts."""

    routes: dict[str, Route]
    parts: dict[str, str]


class _Node:
    __slots__ = ("branches", "routes", "wild")

    def __init__(self) -> None:
        self.branches: dict[str, _Node] = {}
        self.wild: list[tuple[str, _Node]] = []
        """(name, node) of variable segments, the domain first."""
        self.routes: dict[str, Route] = {}


class Router:
    """Raises ValueError for two routes of one method and path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for route in routes:
            self.add(route)

    def add(self, route: Route) -> None:
        node = self._root
        for segment in route.path.split("/")[1:]:
            node = _branch(node, segment)
        if route.method in node.routes:
            raise ValueError(f"{route.method} {route.path} is there twice")
        node.routes[route.method] = route

    def find(self, raw_path: str) -> Found | None:
        """By a path as it came, still encoded. A literal segment outranks a variable one; a trailing slash does not
        matter (Jetty redirects one form of /metrics to the other)."""
        segments = raw_path.rstrip("/").split("/")[1:]
        if not segments or not raw_path.startswith("/"):
            return None
        return next(_walk(self._root, segments, 0, {}), None)


def _branch(node: _Node, segment: str) -> _Node:
    if not segment.startswith("{"):
        return node.branches.setdefault(segment, _Node())
    name = segment.strip("{}")
    for known, child in node.wild:
        if known == name:
            return child
    child = _Node()
    node.wild.append((name, child))
    node.wild.sort(key=lambda pair: pair[0] != DOMAIN.strip("{}"))
    return child


def _walk(node: _Node, segments: list[str], at: int, parts: dict[str, str]) -> Iterator[Found]:
    """Every way to a node with routes, the best one first."""
    if at == len(segments):
        if node.routes:
            yield Found(node.routes, parts)
        return
    segment = segments[at]
    literal = node.branches.get(segment)
    if literal is not None:
        yield from _walk(literal, segments, at + 1, parts)
    text = unquote(segment)
    for name, child in node.wild:
        if text and (name != "domain" or text in DOMAINS):
            yield from _walk(child, segments, at + 1, {**parts, name: text})
