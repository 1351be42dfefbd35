"""Every route says which broker of a cluster serves it, and says the same as Apache's classes."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from magnetar.server.admin.routes import ROUTES
from magnetar.server.web.calls import Route
from magnetar.server.web.places import Place

ROUTE_PLACES = Path(__file__).with_name("route_places.txt")
APACHE = Path(__file__).parents[2] / "vectors" / "apache_route_owners.txt"

NEEDED_PARTS: dict[Place, set[str]] = {
    Place.TOPIC: {"tenant", "namespace", "topic"},
    Place.TOPIC_OR_PARTITIONS: {"tenant", "namespace", "topic"},
    Place.BUNDLE: {"tenant", "namespace"},
    Place.FOUND_BUNDLE: {"tenant", "namespace", "bundle"},
    Place.BUNDLE_TO_UNLOAD: {"tenant", "namespace", "bundle"},
    Place.NAMED_BROKER: {"broker"},
}

UNLIKE_APACHE = {
    "/admin/v2/namespaces/{}/{}/{}/clearBacklog POST": "Apache refuses the call for a bundle that nobody owns",
    "/admin/v2/namespaces/{}/{}/{}/clearBacklog/{} POST": "Apache refuses the call for a bundle that nobody owns",
    "/admin/v2/namespaces/{}/{}/{}/unsubscribe/{} POST": "Apache refuses the call for a bundle that nobody owns",
    "/admin/v2/namespaces/{}/{}/{} DELETE": "Apache refuses the call for a bundle that nobody owns",
    "/admin/v2/namespaces/{}/{}/{}/split PUT": "its check acquires the bundle: the table does not tell",
    "/topics/{}/{}/{}/{} POST": "Apache looks the topic up and redirects in TopicsBase, not by PulsarWebResource",
    "/topics/{}/{}/{}/{}/partitions/{} POST": "Apache looks the topic up and redirects in TopicsBase",
    "/admin/v2/{}/{}/{}/{}/policies DELETE": "Apache forgets to redirect it, unlike every other call on the policies",
}
"""The routes that are served elsewhere than Apache's table says, each with the reason."""


def shape(path: str, method: str) -> str:
    """Returns a path without the names of its variable segments, and its method."""
    return f"{re.sub(r'{[^}]*}', '{}', path)} {method}"


def apache_places() -> Iterator[tuple[str, Place | None]]:
    """Yields each of Apache's calls, and the place that the checks in its method mean; None for any broker or the one
    that was asked."""
    for line in APACHE.read_text().splitlines():
        if line.startswith("#"):
            continue
        call, _, found = line.partition(": ")
        path, _, method = call.rpartition(" ")
        checks = set(found.partition(" ")[2].split(","))
        yield shape(path, method), place_of(checks, path)


def place_of(checks: set[str], path: str) -> Place | None:
    if checks & {"validateTopicOwnership", "validateTopicOwnershipAsync"}:
        if "/transactions/" in path and "{topic}" not in path:
            return Place.COORDINATOR  # Transactions makes the topic's name of the coordinator's id
        return Place.TOPIC_OR_PARTITIONS if "getAdminClient" in checks else Place.TOPIC
    if "validateLeaderBrokerAsync" in checks:
        return Place.BUNDLE_TO_UNLOAD
    if checks & {"validateNamespaceBundleOwnership", "validateNamespaceBundleOwnershipAsync"}:
        return Place.BUNDLE
    if "maybeRedirectToBroker" in checks:
        return Place.NAMED_BROKER if "{brokerId}" in path else Place.QUERIED_BROKER
    return None


def apache_shapes(route: Route) -> list[str]:
    """Returns the shapes that a route of ours has in Apache's table, which has two classes for the two domains."""
    domains = ("persistent", "non-persistent") if "{domain}" in route.path else ("",)
    return [shape(route.path.replace("{domain}", domain), route.method) for domain in domains]


def test_every_method_and_path_is_served_where_the_table_says() -> None:
    """A route that moved shows as a changed line of `route_places.txt`, which every reviewer sees."""
    rows = sorted(f"{route.path} {route.method}: {route.place.value}" for route in ROUTES)
    if os.environ.get("MAGNETAR_REWRITE_TABLES"):
        ROUTE_PLACES.write_text("".join(f"{row}\n" for row in rows))
    assert ROUTE_PLACES.read_text().splitlines() == rows, "MAGNETAR_REWRITE_TABLES=1 writes the table anew"


@pytest.mark.parametrize("place", NEEDED_PARTS, ids=lambda place: place.name)
def test_the_path_names_what_the_place_is_found_by(place: Place) -> None:
    for route in ROUTES:
        if route.place is place:
            assert NEEDED_PARTS[place] <= set(re.findall(r"\{(\w+)\}", route.path)), route.path


def test_every_route_that_apache_has_is_served_where_apache_serves_it() -> None:
    apache = dict(apache_places())
    compared = 0
    for route in ROUTES:
        known = {apache[each] for each in apache_shapes(route) if each in apache}
        if not known or shape(route.path, route.method) in UNLIKE_APACHE:
            continue
        compared += 1
        if known == {None, Place.TOPIC_OR_PARTITIONS} or known == {None, Place.TOPIC}:
            continue  # one domain's class refuses the call at once
        assert len(known) == 1, route.path
        wanted = known.pop()
        ours = None if route.place in (Place.ANY_BROKER, Place.ASKED_BROKER) else route.place
        assert ours is wanted, f"{route.method} {route.path}: {route.place}, Apache: {wanted}"
    assert compared > 300, compared


def test_the_exceptions_are_routes() -> None:
    assert UNLIKE_APACHE.keys() <= {shape(route.path, route.method) for route in ROUTES}
