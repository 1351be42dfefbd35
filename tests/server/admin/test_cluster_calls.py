"""Calls on what several brokers own together: partitioned topics, namespaces, bundles."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from magnetar.metadata import paths
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.peers.peer_errors import PeerUnreachableError
from pulsar_proto.names import TopicName
from tests.server.web.cluster_scene import NAMESPACE, Seat, cluster, range_of
from tests.waiting import until

RANGES = ("0x00000000_0x40000000", "0x40000000_0x80000000", "0x80000000_0xc0000000", "0xc0000000_0xffffffff")
TOPICS = f"/admin/v2/persistent/{NAMESPACE}"
PARTS = f"{TOPICS}/parts"
BUNDLES = f"/admin/v2/namespaces/{NAMESPACE}"
PARTITIONS = 6
POLICY = (
    '{"retentionTimeInMinutes":7,"retentionSizeInMB":7}',
    '{"bookkeeperEnsemble":1,"bookkeeperWriteQuorum":1,"bookkeeperAckQuorum":1,"managedLedgerMaxMarkDeleteRate":0}',
)


@pytest.fixture
async def seats(tmp_path: Path) -> AsyncIterator[list[Seat]]:
    """Two brokers with two bundles each, and a partitioned topic whose partitions both of them own."""
    async with cluster(tmp_path, force_delete_namespace_allowed=True) as made:
        first, second = made
        await first.own(*RANGES[:2])
        await second.own(*RANGES[2:])
        assert (await first.call("PUT", f"{PARTS}/partitions", str(PARTITIONS))).status == 204
        owners = {await range_of(first, f"persistent://{NAMESPACE}/parts-partition-{at}") for at in range(PARTITIONS)}
        assert owners & first.owned()
        assert owners & second.owned()
        yield made


async def done(seat: Seat, method: str, path: str, body: str | None = None, status: int = 204) -> None:
    answer = await seat.call(method, path, body, follow=True)
    assert answer.status == status, answer


def loaded(seat: Seat) -> set[str]:
    return {topic.name.full for topic in seat.broker.service.all_topics}


class TestPartitions:
    async def test_stats_are_those_of_all_partitions(self, seats: list[Seat]) -> None:
        for seat in seats:
            answer = await seat.call("GET", f"{PARTS}/partitioned-stats")
            assert answer.status == 200, answer
            assert len(answer.json["partitions"]) == PARTITIONS
            owners = {each["ownerBroker"] for each in answer.json["partitions"].values()}
            assert owners == {each.broker.broker_id for each in seats}
            internal = (await seat.call("GET", f"{PARTS}/partitioned-internalStats")).json
            assert len(internal["partitions"]) == PARTITIONS

    @pytest.mark.parametrize("call", ["why", "ledgers"])
    async def test_every_partition_is_explained_by_its_owner(self, seats: list[Seat], call: str) -> None:
        for seat in seats:
            answer = await seat.call("GET", f"{PARTS}/{call}")
            assert answer.status == 200, answer
            partitions = answer.json["partitions"]
            assert len(partitions) == PARTITIONS
            assert {each["broker"] for each in partitions.values()} == {each.broker.broker_id for each in seats}

    async def test_a_partition_whose_owner_does_not_answer_is_told_as_a_reason(self, seats: list[Seat]) -> None:
        first, _ = seats
        assert first.broker.peer is not None
        await first.broker.peer.close()

        async def fails(*_: object, **__: object) -> None:
            raise PeerUnreachableError("gone")

        first.broker.peer.call = fails  # type: ignore[assignment,method-assign]
        answer = (await first.call("GET", f"{PARTS}/why")).json
        assert answer["standsInTheWay"] is True
        reasons = [reason for each in answer["partitions"].values() for reason in each["reasons"]]
        assert {reason["code"] for reason in reasons} == {"NOT_ANSWERED"}
        assert 0 < len(reasons) < PARTITIONS
        kept = (await first.call("GET", f"{PARTS}/ledgers")).json["partitions"].values()
        assert 0 < sum("error" in each for each in kept) < PARTITIONS

    async def test_stats_of_partitions_whose_owner_does_not_answer_are_left_out(self, seats: list[Seat]) -> None:
        first, _ = seats
        assert first.broker.peer is not None
        await first.broker.peer.close()

        async def fails(*_: object, **__: object) -> None:
            raise PeerUnreachableError("gone")

        first.broker.peer.call = fails  # type: ignore[assignment,method-assign]
        answer = await first.call("GET", f"{PARTS}/partitioned-stats")
        assert answer.status == 200
        assert 0 < len(answer.json["partitions"]) < PARTITIONS

    async def test_subscriptions_live_in_all_partitions(self, seats: list[Seat]) -> None:
        first, second = seats
        await done(first, "PUT", f"{PARTS}/subscription/s", '"earliest"')
        await done(second, "PUT", f"{PARTS}/subscription/s", '"earliest"', 409)
        assert (await second.call("GET", f"{PARTS}/subscriptions")).json == ["s"]
        await done(second, "PUT", f"{PARTS}/subscription/s/properties", '{"a":"1"}')
        assert (await first.call("GET", f"{PARTS}/subscription/s/properties")).json == {"a": "1"}
        await done(first, "POST", f"{PARTS}/subscription/s/skip_all")
        status = await second.call("GET", f"{PARTS}/subscription/s/replicatedSubscriptionStatus")
        assert len(status.json) == PARTITIONS
        await done(second, "DELETE", f"{PARTS}/subscription/s")
        assert (await first.call("GET", f"{PARTS}/subscriptions")).json == []
        await done(first, "DELETE", f"{PARTS}/subscription/s", None, 404)
        await done(first, "POST", f"{PARTS}/subscription/s/skip_all", None, 404)

    async def test_new_partitions_get_the_subscriptions(self, seats: list[Seat]) -> None:
        first, second = seats
        await done(first, "PUT", f"{PARTS}/subscription/s", '{"ledgerId":-1,"entryId":-1,"properties":{"a":"1"}}')
        await done(second, "POST", f"{PARTS}/partitions", str(PARTITIONS + 6))
        for at in range(PARTITIONS, PARTITIONS + 6):
            stats = (await first.call("GET", f"{TOPICS}/parts-partition-{at}/stats", follow=True)).json
            assert stats["subscriptions"]["s"]["subscriptionProperties"] == {"a": "1"}

    async def test_work_on_all_partitions_is_done_by_their_owners(self, seats: list[Seat]) -> None:
        first, second = seats
        await done(first, "PUT", f"{PARTS}/subscription/s", '"earliest"')
        assert len(loaded(first) | loaded(second)) == PARTITIONS
        await done(second, "POST", f"{PARTS}/trim", None, 200)
        await done(second, "DELETE", f"{PARTS}/truncate")
        ended = (await first.call("POST", f"{PARTS}/terminate/partitions")).json
        assert sorted(ended) == [str(at) for at in range(PARTITIONS)]
        await done(first, "PUT", f"{PARTS}/unload")
        assert loaded(first) | loaded(second) == set()

    async def test_a_partitioned_topic_is_deleted_everywhere(self, seats: list[Seat]) -> None:
        first, second = seats
        await done(first, "PUT", f"{PARTS}/subscription/s", '"earliest"')
        await done(second, "DELETE", f"{PARTS}/partitions")
        assert (await first.call("GET", TOPICS)).json == []
        assert loaded(first) | loaded(second) == set()
        assert (await first.call("GET", f"{PARTS}/partitions")).status == 404


class TestNamespaces:
    async def test_an_unload_frees_the_bundles_of_all_brokers(self, seats: list[Seat]) -> None:
        first, second = seats
        await done(first, "PUT", f"{BUNDLES}/unload")
        assert first.owned() == second.owned() == set()

    async def test_non_persistent_topics_are_listed_from_all_brokers(self, seats: list[Seat]) -> None:
        names = {f"non-persistent://{NAMESPACE}/np{number}" for number in range(8)}
        for name in names:
            local = TopicName.parse(name).local_name
            await done(seats[0], "PUT", f"/admin/v2/non-persistent/{NAMESPACE}/{local}")
        assert all(loaded(seat) & names for seat in seats)
        for seat in seats:
            for path in (f"/admin/v2/non-persistent/{NAMESPACE}", f"{BUNDLES}/topics?mode=NON_PERSISTENT"):
                assert set((await seat.call("GET", path)).json) == names

    async def test_backlogs_are_cleared_in_bundles_that_nobody_owns_too(self, seats: list[Seat]) -> None:
        first, second = seats
        await done(first, "PUT", f"{PARTS}/subscription/s", '"earliest"')
        await second.broker.moves.unload_all()
        await done(first, "POST", f"{BUNDLES}/clearBacklog/s")
        assert len(loaded(first) | loaded(second)) == PARTITIONS
        await done(second, "POST", f"{BUNDLES}/unsubscribe/s")
        assert (await first.call("GET", f"{PARTS}/subscriptions")).json == []

    async def test_a_deleted_namespace_leaves_nothing(self, seats: list[Seat]) -> None:
        first, second = seats
        await done(first, "PUT", f"{PARTS}/subscription/s", '"earliest"')
        await done(first, "PUT", f"{TOPICS}/single")
        await done(first, "PUT", f"/admin/v2/non-persistent/{NAMESPACE}/np")
        await done(second, "DELETE", BUNDLES, None, 409)
        await done(second, "DELETE", f"{BUNDLES}?force=true")
        store = second.broker.service.metadata
        for path in (
            paths.policies_path(NAMESPACE),
            paths.local_policies_path(NAMESPACE),
            f"{paths.MANAGED_LEDGERS}/{NAMESPACE}",
            f"{paths.PARTITIONED_TOPICS}/{NAMESPACE}",
            f"/loadbalance/bundle-data/{NAMESPACE}",
        ):
            assert await store.exists(path) is None, path
        assert first.owned() == second.owned() == set()
        for seat in seats:
            assert loaded(seat) == set()
            assert (await seat.call("GET", BUNDLES)).status == 404


class TestRecords:
    async def test_no_change_of_two_administrators_is_lost(self, seats: list[Seat]) -> None:
        """Each change is a call of its own, made at both brokers at the same time."""
        topic = f"{TOPICS}/single"
        await done(seats[0], "PUT", topic)
        calls = []
        for number in range(20):
            seat = seats[number % 2]
            calls += [
                done(seat, "POST", f"{BUNDLES}/permissions/n{number}", '["produce"]'),
                done(seat, "POST", f"{topic}/permissions/t{number}", '["consume"]'),
                done(seat, "PUT", f"{BUNDLES}/property/k{number}/v"),
                done(seat, "POST", f"/admin/v2/bookies/racks-info/b{number}:1?group=g", '{"rack":"r","hostname":"h"}'),
                done(seat, "POST", f"{BUNDLES}/{('retention', 'persistence')[number % 2]}", POLICY[number % 2]),
            ]
        await asyncio.gather(*calls)
        for seat in seats:
            permissions = (await seat.call("GET", f"{BUNDLES}/permissions")).json
            assert set(permissions) == {f"n{number}" for number in range(20)}
            on_topic = (await seat.call("GET", f"{topic}/permissions")).json
            assert {f"t{number}" for number in range(20)} <= set(on_topic)
            assert len((await seat.call("GET", f"{BUNDLES}/properties")).json) == 20
            assert len((await seat.call("GET", "/admin/v2/bookies/racks-info")).json["g"]) == 20
            policies = (await seat.call("GET", BUNDLES)).json
            assert policies["retention_policies"]["retentionTimeInMinutes"] == 7
            assert policies["persistence"]["bookkeeperEnsemble"] == 1

    async def test_a_topic_never_loses_partitions_to_a_slower_call(self, seats: list[Seat]) -> None:
        grown = (seats[number % 2].call("POST", f"{PARTS}/partitions", str(PARTITIONS + number)) for number in range(8))
        await asyncio.gather(*grown)
        for seat in seats:
            assert (await seat.call("GET", f"{PARTS}/partitions")).json["partitions"] == PARTITIONS + 7

    async def test_a_namespace_is_there_for_all_as_soon_as_it_is_made(self, seats: list[Seat]) -> None:
        first, second = seats
        assert (await second.call("GET", "/admin/v2/namespaces/acme/new/topics")).status == 404
        await done(first, "PUT", "/admin/v2/namespaces/acme/new")
        await done(second, "PUT", "/admin/v2/persistent/acme/new/t")


class TestBundles:
    async def test_an_unload_with_a_destination_goes_through_the_leader(self, seats: list[Seat]) -> None:
        leader, follower = seats
        path = f"{BUNDLES}/{RANGES[2]}/unload"
        to_leader = f"?destinationBroker={leader.broker.broker_id}"
        asked = await follower.call("PUT", path + to_leader)
        assert (asked.status, asked.location) == (307, f"{leader.url}{path}{to_leader}&authoritative=false")
        noted = await leader.call("PUT", f"{path}{to_leader}&authoritative=false")
        assert (noted.status, noted.location) == (307, f"{follower.url}{path}?authoritative=true")
        await done(follower, "PUT", f"{path}?authoritative=true")
        found = await leader.broker.lookups.find(BundleName(NAMESPACE, RANGES[2]))
        assert found.broker.broker_id == leader.broker.broker_id
        unknown = await leader.call("PUT", f"{path}?destinationBroker=nope:1")
        assert (unknown.status, unknown.json) == (
            409,
            {"reason": "Not allowed unload namespace bundle to inactive destination broker"},
        )

    async def test_a_bundle_that_nobody_owns_is_unloaded_already(self, seats: list[Seat]) -> None:
        first, second = seats
        await second.broker.moves.unload_all()
        assert (await first.call("PUT", f"{BUNDLES}/{RANGES[2]}/unload")).status == 204
        assert RANGES[2] not in first.owned()

    async def test_a_split_is_made_by_the_owner_and_seen_by_all(self, seats: list[Seat]) -> None:
        first, second = seats
        asked = await first.call("PUT", f"{BUNDLES}/{RANGES[2]}/split?unload=false")
        assert asked.status == 307
        await done(first, "PUT", f"{BUNDLES}/{RANGES[2]}/split?unload=false")
        wanted = ["0x00000000", "0x40000000", "0x80000000", "0xa0000000", "0xc0000000", "0xffffffff"]
        for seat in seats:
            assert (await seat.call("GET", f"{BUNDLES}/bundles")).json == {"boundaries": wanted, "numBundles": 5}
        assert {"0x80000000_0xa0000000", "0xa0000000_0xc0000000"} <= second.owned()
        again = await second.call("PUT", f"{BUNDLES}/{RANGES[2]}/split")
        assert again.status == 412
        assert again.json["reason"].startswith("Invalid upper boundary for bundle acme/orders/0x80000000_0xc0000000.")

    async def test_the_largest_bundle_is_split_at_its_owner(self, seats: list[Seat]) -> None:
        first, second = seats
        largest = await first.broker.moves.largest(NAMESPACE, await first.broker.service.catalog.topics_of(NAMESPACE))
        assert largest is not None
        for seat in (first, second):
            bundles = len((await seat.call("GET", f"{BUNDLES}/bundles")).json["boundaries"])
            await done(seat, "PUT", f"{BUNDLES}/LARGEST/split")
            assert len((await seat.call("GET", f"{BUNDLES}/bundles")).json["boundaries"]) == bundles + 1
        assert largest.range not in first.owned() | second.owned()

    async def test_an_isolation_policy_moves_the_namespaces_that_it_names(self, seats: list[Seat]) -> None:
        first, second = seats
        policy = {
            "namespaces": [f"{NAMESPACE}"],
            "primary": ["h1"],
            "secondary": [],
            "auto_failover_policy": {
                "policy_type": "min_available",
                "parameters": {"min_limit": "1", "usage_threshold": "100"},
            },
        }
        path = "/admin/v2/clusters/c1/namespaceIsolationPolicies/p"
        await done(first, "POST", path, json.dumps(policy))
        assert first.owned() == second.owned() == set()
        await first.own(RANGES[0])
        await done(second, "POST", path, json.dumps(policy))
        assert first.owned() == {RANGES[0]}, "nothing changed"


async def test_a_broker_that_is_shut_down_slowly_gives_its_bundles_away_first(seats: list[Seat]) -> None:
    first, second = seats
    health = BundleName(f"pulsar/{second.broker.broker_id}", "0x00000000_0xffffffff")
    await second.broker.ownership.acquire(health)
    stopped: list[list[BundleName]] = []
    second.broker.ask_to_stop = lambda: stopped.append(second.broker.ownership.owned_bundles())
    await done(first, "POST", "/admin/v2/brokers/shutdown?maxConcurrentUnloadPerSec=x", None, 400)
    await done(second, "POST", "/admin/v2/brokers/shutdown?maxConcurrentUnloadPerSec=100")
    await until(lambda: bool(stopped))
    assert stopped == [[health]]
    await done(first, "PUT", f"{PARTS}/subscription/s", '"earliest"')
    assert len(loaded(first)) == PARTITIONS
