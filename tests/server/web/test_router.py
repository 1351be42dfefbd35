"""Which route a path leads to, also when a name in it is a literal segment of another route."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from magnetar.server.admin.routes import ROUTES
from magnetar.server.web.calls import Call, Route
from magnetar.server.web.needs import EVERYBODY
from magnetar.server.web.places import Place
from magnetar.server.web.router import Router
from tests.server.web.web_scene import running

ROUTER = Router(ROUTES)
LITERALS = sorted(
    {segment for route in ROUTES for segment in route.path.split("/")[1:] if segment and "{" not in segment}
)
DOMAINS = "persistent|non-persistent"


def found(path: str, method: str = "GET") -> tuple[Route, dict[str, str]] | None:
    """Returns the route that the web port chooses for a call, and the values of its variable segments."""
    for reading in ROUTER.find(path):
        if method in reading.routes:
            return reading.routes[method], reading.parts
    return None


@pytest.mark.parametrize(
    ("method", "path", "parts"),
    [
        ("GET", "/admin/v2/brokers/health", ()),
        ("GET", "/admin/v2/brokers/standalone", ("standalone",)),
        ("GET", "/admin/v2/persistent/t/n/a%2Fb/stats", ("persistent", "t", "n", "a/b")),
        ("GET", "/admin/v2/namespaces/t/n/permissions/subscription", ("t", "n")),
        ("PUT", "/admin/v2/namespaces/t/n/0x0_0x1/unload", ("t", "n", "0x0_0x1")),
        ("GET", "/metrics/", ()),
        ("GET", "/", ()),
        ("GET", "//", ()),
    ],
)
def test_variable_parts_are_decoded_after_the_cut(method: str, path: str, parts: tuple[str, ...]) -> None:
    reached = found(path, method)
    assert reached is not None
    assert tuple(reached[1].values()) == parts


def test_a_method_and_path_lead_to_one_route() -> None:
    route = plain("GET", "/a/{b}")
    with pytest.raises(ValueError, match="there twice"):
        Router([route, route])


@pytest.mark.parametrize(
    "path",
    ["", "/admin", "/admin/v2/persistent/t/n/x/y/stats", "/admin/v2/elsewhere/t/n/x/stats", "/%00"],
)
def test_what_is_not_there_is_not_found(path: str) -> None:
    assert ROUTER.find(path) == []


def plain(method: str, path: str) -> Route:
    async def handler(call: Call) -> None: ...

    return Route(method, path, handler, EVERYBODY, Place.ANY_BROKER)


def test_more_literal_characters_win_then_the_earlier_literal_and_the_rest_stay_reachable() -> None:
    router = Router(
        [plain("GET", path) for path in ("/{a}/longer", "/short/{b}", "/{c}/equal", "/equal/{d}", "/{e}/{f}")]
    )

    def ways(path: str) -> list[str]:
        return [reading.routes["GET"].path for reading in router.find(path)]

    assert ways("/short/longer") == ["/{a}/longer", "/short/{b}", "/{e}/{f}"]
    assert ways("/equal/equal") == ["/equal/{d}", "/{c}/equal", "/{e}/{f}"]
    assert ways("/x/y") == ["/{e}/{f}"]


def test_a_name_that_is_a_literal_elsewhere_reaches_the_route_that_is_meant() -> None:
    """For each route, each of its names in turn is replaced by each literal segment that any route has. The path then
    leads to the route itself, unless another route of the same method matches as well and is better by the rule of
    JAX-RS."""
    patterns = [(route, re.compile(pattern_of(route.path))) for route in ROUTES]
    astray = []
    for route in ROUTES:
        for path in spellings(route.path):
            reached = found(path, route.method)
            assert reached is not None, f"{route.method} {path} leads nowhere"
            if reached[0] is route:
                continue
            matching = [
                other for other, pattern in patterns if other.method == route.method and pattern.fullmatch(path)
            ]
            best = max(literal_characters(other.path) for other in matching)
            if literal_characters(reached[0].path) < best or literal_characters(route.path) > best:
                astray.append(f"{route.method} {path} is read as {reached[0].path}")
    assert astray == []


def spellings(path: str) -> Iterator[str]:
    names = [name for name in re.findall(r"\{(\w+)\}", path) if name != "domain"]
    for odd in names:
        for literal in LITERALS:
            yield re.sub(r"\{(\w+)\}", lambda part: filled(part[1], odd, literal), path)  # noqa: B023


def filled(name: str, odd: str, literal: str) -> str:
    if name == odd:
        return literal
    return "non-persistent" if name == "domain" else "x"


def pattern_of(path: str) -> str:
    return path.replace("{domain}", f"({DOMAINS})").replace("{", "(?P<").replace("}", ">[^/]+)")


def literal_characters(path: str) -> int:
    return len(re.sub(r"\{\w+\}", "", path))


CALLS: list[tuple[str, str, object, int]] = [
    ("POST", "/admin/v2/namespaces/public/default/permissions/subscription", ["produce"], 204),
    ("DELETE", "/admin/v2/namespaces/public/default/permissions/subscription", None, 204),
    ("POST", "/admin/v2/clusters/standalone/namespaceIsolationPolicies/brokers", {}, 400),
    ("PUT", "/admin/v2/persistent/public/default/partitioned", None, 204),
    ("PUT", "/admin/v2/persistent/public/default/t", None, 204),
    ("PUT", "/admin/v2/persistent/public/default/t/subscription/dispatchRate", "latest", 204),
    ("POST", "/admin/v2/persistent/public/default/t/subscription/dispatchRate/skip_all", None, 204),
    ("DELETE", "/admin/v2/persistent/public/default/partitioned", None, 204),
]


async def test_roles_policies_and_topics_may_be_called_like_a_literal(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        for method, path, body, status in CALLS:
            async with web.session.request(method, web.server.web_url + path, json=body) as answer:
                assert answer.status == status, f"{method} {path}: {await answer.text()}"
        async with web.session.patch(f"{web.server.web_url}/admin/v2/brokers/health") as answer:
            assert answer.status == 405
            assert answer.headers["Allow"].endswith("OPTIONS")
