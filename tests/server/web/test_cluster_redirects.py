"""In a cluster a call is served by the broker that owns what it is about; the others send its caller there."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from magnetar.server.admin.routes import ROUTES
from magnetar.server.web.places import Place
from tests.server.web.cluster_scene import NAMESPACE, Seat, cluster, range_of

TOPIC = f"persistent://{NAMESPACE}/t0"
PATH = f"/admin/v2/persistent/{NAMESPACE}/t0"
RECORDED = [
    each
    for each in json.loads((Path(__file__).parents[2] / "vectors" / "cluster_redirects.json").read_text())
    if each["step"] == "exp2_admin"
]
"""50 calls at Apache's leader, which did not own the topics' bundles, with the statuses that it answered."""

NOT_MADE = ("/bookies/", "/brokers/configuration", "/brokers/version")
"""Calls whose answers have other tests, or that are not there."""


@pytest.fixture
async def seats(tmp_path: Path) -> AsyncIterator[list[Seat]]:
    """Two brokers. The second one owns all bundles, the first one leads."""
    async with cluster(tmp_path) as made:
        first, second = made
        bundles = await first.broker.ownership.bundles.get(NAMESPACE)
        await second.own(*(bundle.range for bundle in bundles.all))
        for topic in ("t0", "orders-json"):
            answer = await second.call("PUT", f"/admin/v2/persistent/{NAMESPACE}/{topic}")
            assert answer.status == 204, answer
        answer = await second.call("PUT", f"/admin/v2/persistent/{NAMESPACE}/parts/partitions", "4")
        assert answer.status == 204, answer
        yield made


def query_of(url: str) -> list[tuple[str, str]]:
    return sorted(parse_qsl(urlsplit(url).query))


class TestAsApache:
    async def test_each_recorded_call_is_redirected_or_served_as_apache_did_it(self, seats: list[Seat]) -> None:
        first, second = seats
        made = 0
        for each in RECORDED:
            path = each["url"].removeprefix("http://127.0.0.1:24080")
            if any(part in path for part in NOT_MADE) or "newtopic" in path:
                continue
            path = path.replace("127.0.0.1:24081", second.broker.broker_id)
            path = path.replace("0x80000000_0xa0000000", "0x80000000_0xc0000000")
            answer = await first.call(each["method"], path, None if each["body"] is None else str(each["body"]))
            assert answer.status == each["status"], f"{each['method']} {path}: {answer}"
            if answer.location is not None:
                assert answer.location.startswith(f"{second.url}{urlsplit(path).path}"), answer
                assert query_of(answer.location) == query_of(each["location"])
            made += 1
        assert made > 40

    async def test_who_follows_is_served(self, seats: list[Seat]) -> None:
        first, _ = seats
        answer = await first.call("GET", f"{PATH}/stats", follow=True)
        assert (answer.status, answer.json["ownerBroker"]) == (200, seats[1].broker.broker_id)
        assert (await first.call("POST", f"{PATH}/maxProducers", "7", follow=True)).status == 204

    async def test_a_follower_does_not_decide_for_the_next_broker(self, seats: list[Seat]) -> None:
        first, second = seats
        await second.broker.moves.unload_all()
        await first.own(await range_of(first, TOPIC))
        answer = await second.call("GET", f"{PATH}/stats?x=1")
        assert (answer.status, answer.location) == (307, f"{first.url}{PATH}/stats?x=1&authoritative=false")


class TestEveryRoute:
    async def test_no_route_about_a_topic_or_a_bundle_is_served_by_another_broker(self, seats: list[Seat]) -> None:
        """Every handler would change or tell something: none of them runs here."""
        first, second = seats
        names = {"tenant": "acme", "namespace": "orders", "topic": "t0", "domain": "persistent"}
        for route in ROUTES:
            if route.place not in (Place.TOPIC, Place.TOPIC_OR_PARTITIONS, Place.BUNDLE, Place.FOUND_BUNDLE):
                continue
            path = route.path
            parts = {**names, "bundle": "0x00000000_0x40000000", "partition": "0"}
            if route.path.endswith("{namespace}/{topic}") and route.place is Place.BUNDLE:
                parts |= {"topic": parts["bundle"], "domain": "non-persistent"}
            for part, name in parts.items():
                path = path.replace(f"{{{part}}}", name)
            answer = await first.call(route.method, re.sub(r"\{\w+\}", "1", path))
            assert answer.status == 307, f"{route.method} {path}: {answer}"
            assert answer.location is not None
            assert answer.location.startswith(second.url)


class TestUnowned:
    async def test_a_follower_asks_the_leader_and_the_leader_takes_or_places(self, tmp_path: Path) -> None:
        async with cluster(tmp_path) as (leader, follower):
            await leader.call("PUT", f"/admin/v2/persistent/{NAMESPACE}/p/partitions", "1")
            path = f"/admin/v2/persistent/{NAMESPACE}/p-partition-0/stats"
            asked = await follower.call("GET", path)
            assert (asked.status, asked.location) == (307, f"{leader.url}{path}?authoritative=false")
            leader.placement.target = follower.broker.addresses
            placed = await leader.call("GET", f"{path}?authoritative=false")
            assert (placed.status, placed.location) == (307, f"{follower.url}{path}?authoritative=true")
            assert leader.owned() == follower.owned() == set()
            taken = await follower.call("GET", f"{path}?authoritative=true")
            assert taken.status == 200, taken
            assert len(follower.owned()) == 1

    async def test_without_a_broker_for_it_the_caller_is_told(self, tmp_path: Path) -> None:
        async with cluster(tmp_path) as (leader, _):

            async def nobody(bundle: Any) -> None:
                return None

            leader.placement.choose = nobody  # type: ignore[method-assign]
            answer = await leader.call("GET", f"{PATH}/stats")
            assert (answer.status, answer.json) == (412, {"reason": f"Can't find owner for topic {TOPIC}"})

    async def test_a_bundle_that_is_being_unloaded_has_no_owner(self, seats: list[Seat]) -> None:
        _, second = seats
        bundle = await second.broker.ownership.bundle_of(second.broker.service.all_topics[0].name)
        assert second.broker.ownership.deactivate(bundle)
        name = second.broker.service.all_topics[0].name
        answer = await second.call("GET", f"/admin/v2/persistent/{NAMESPACE}/{name.local_name}/stats")
        assert (answer.status, answer.json) == (412, {"reason": f"Can't find owner for topic {name.full}"})

    async def test_a_missing_namespace_gets_no_owner(self, seats: list[Seat]) -> None:
        first, second = seats
        for seat in seats:
            answer = await seat.call("GET", "/admin/v2/persistent/acme/nope/t/stats")
            assert answer.status == 404, answer
        assert first.owned("acme/nope") == second.owned("acme/nope") == set()


class TestNamedBrokers:
    async def test_health_is_asked_of_the_named_broker(self, seats: list[Seat]) -> None:
        first, second = seats
        path = f"/admin/v2/brokers/health?brokerId={second.broker.broker_id}"
        answer = await first.call("GET", path)
        assert (answer.status, answer.location) == (307, f"{second.url}{path}")
        assert (await first.call("GET", path, follow=True)).body == "ok"
        assert (await second.call("GET", path)).body == "ok"
        assert second.owned(f"pulsar/{second.broker.broker_id}") == {"0x00000000_0xffffffff"}
        missing = await first.call("GET", "/admin/v2/brokers/health?brokerId=nope:1")
        assert missing.json == {"reason": "Broker id 'nope:1' not found in available brokers."}

    async def test_brokers_and_leader_are_those_of_the_cluster(self, seats: list[Seat]) -> None:
        first, second = seats
        for seat in seats:
            both = sorted([first.broker.broker_id, second.broker.broker_id])
            assert (await seat.call("GET", "/admin/v2/brokers")).json == both
            leader = (await seat.call("GET", "/admin/v2/brokers/leaderBroker")).json
            assert leader == {"serviceUrl": first.url, "brokerId": first.broker.broker_id}
        path = f"/admin/v2/brokers/c1/{second.broker.broker_id}/ownedNamespaces"
        owned = (await first.call("GET", path, follow=True)).json
        assert owned[f"{NAMESPACE}/0x00000000_0x40000000"] == {
            "broker_assignment": "shared",
            "is_controlled": False,
            "is_active": True,
        }
