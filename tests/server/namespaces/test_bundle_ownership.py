"""Two and more brokers of one cluster, with bundles as locks. Their stores suspend at every call."""

import asyncio
import json

import pytest

from magnetar.metadata import paths
from magnetar.metadata.store import EventType, Record
from magnetar.server.namespaces.broker_addresses import BrokerAddresses, BundleOwner, addresses_of, parse_owner
from magnetar.server.namespaces.bundle_name import BundleName, heartbeat_bundles
from magnetar.server.network.ports import Urls
from pulsar_proto.errors import MalformedRecord, MetadataFault, ServiceNotReady
from tests.server.namespaces.ownership_scene import FOUR, NAMESPACE, TOPIC, Seat, bundle_of, cluster
from tests.storage.ledger.distant_store import DistantStore
from tests.waiting import until

RECORDED = (
    b'{"nativeUrl":"pulsar://127.0.0.1:24651","httpUrl":"http://127.0.0.1:24081","disabled":false,'
    b'"advertisedListeners":{}}'
)


class TestRecords:
    def test_the_owner_s_record_has_java_s_bytes(self) -> None:
        urls = Urls("pulsar://127.0.0.1:24651", web="http://127.0.0.1:24081")
        assert BundleOwner(addresses_of(urls)).value() == RECORDED
        assert parse_owner(RECORDED) == BundleOwner(addresses_of(urls))
        assert parse_owner(RECORDED).broker.broker_id == "127.0.0.1:24081"

    def test_listeners_and_tls_come_back_as_they_were_written(self) -> None:
        listeners = {
            "in": Urls("pulsar://a:1", "pulsar+ssl://a:2"),
            "out": Urls(web="http://b:3", web_tls="https://b:4"),
        }
        owner = BundleOwner(addresses_of(Urls("", "pulsar+ssl://h:6651", "", "https://h:8443"), listeners))
        assert parse_owner(owner.value()) == owner
        assert json.loads(owner.value())["advertisedListeners"]["out"] == {
            "brokerHttpUrl": "http://b:3",
            "brokerHttpsUrl": "https://b:4",
        }

    def test_an_unknown_field_is_no_fault_and_garbage_is(self) -> None:
        assert parse_owner(RECORDED[:-1] + b',"brokerId":"x"}') == parse_owner(RECORDED)
        for value in (b"", b"[]", b"null", b'{"advertisedListeners":[1]}', b"\xff"):
            with pytest.raises(MalformedRecord):
                parse_owner(value)


class TestBundles:
    async def test_the_first_question_copies_the_bundles_to_the_local_policies(self) -> None:
        seat, other = await cluster()
        found = await asyncio.gather(seat.bundles.get(NAMESPACE), other.bundles.get(NAMESPACE))
        assert [each.texts for each in found] == [list(FOUR)] * 2
        assert {each.version for each in found} == {0}
        record = await seat.near.get(paths.local_policies_path(NAMESPACE))
        assert record is not None
        assert record.value == (
            b'{"bundles":{"boundaries":["0x00000000","0x40000000","0x80000000","0xc0000000","0xffffffff"],'
            b'"numBundles":4},"migrated":false}'
        )

    async def test_a_change_by_another_broker_is_seen(self) -> None:
        seat, other = await cluster()
        await seat.bundles.get(NAMESPACE)
        changed = b'{"bundles":{"boundaries":["0x00000000","0x80000000","0xffffffff"],"numBundles":2}}'
        await other.near.put(paths.local_policies_path(NAMESPACE), changed)
        await until(lambda: (known := seat.bundles.cached(NAMESPACE)) is not None and known.version == 1)
        assert (await seat.bundles.get(NAMESPACE)).texts == ["0x00000000", "0x80000000", "0xffffffff"]

    async def test_a_namespace_without_policies_has_one_bundle(self) -> None:
        seat, _ = await cluster()
        assert (await seat.bundles.get("acme/none")).texts == ["0x00000000", "0xffffffff"]
        assert await seat.near.get(paths.local_policies_path("acme/none")) is None


class TestTaking:
    async def test_one_of_many_gets_the_bundle_and_all_know_whom(self) -> None:
        seats = await cluster(4)
        bundle = await bundle_of(seats[0])
        results = await asyncio.gather(*(each.ownership.acquire(bundle) for each in seats), return_exceptions=True)
        assert [type(each) for each in results if each is not None] == [MetadataFault] * 3
        owner = seats[results.index(None)]
        for seat in seats:
            assert await seat.ownership.owner_of(bundle) == owner.addresses
            assert seat.ownership.owns(TOPIC) == (seat is owner)
        assert owner.gained == [bundle.range]
        record = await owner.near.get(paths.bundle_owner_path(bundle.namespace, bundle.range))
        assert record is not None
        assert record.stat.ephemeral

    async def test_callers_at_the_same_time_take_it_once(self) -> None:
        seat, _ = await cluster()
        bundle = await bundle_of(seat)
        await asyncio.gather(*(seat.ownership.acquire(bundle) for _ in range(5)))
        assert seat.gained == [bundle.range]

    async def test_a_caller_that_goes_away_leaves_the_others_their_answer(self) -> None:
        seat, _ = await cluster()
        bundle = await bundle_of(seat)
        first = asyncio.ensure_future(seat.ownership.acquire(bundle))
        second = asyncio.ensure_future(seat.ownership.acquire(bundle))
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert seat.ownership.owns(TOPIC)

    async def test_a_bundle_that_is_not_there_is_not_taken(self) -> None:
        seat, _ = await cluster()
        with pytest.raises(MetadataFault):
            await seat.ownership.acquire(BundleName(NAMESPACE, "0x00000000_0x80000000"))
        assert seat.ownership.owned_bundles() == []

    async def test_a_lock_of_an_earlier_life_is_taken_again_by_a_lookup(self) -> None:
        seat, other = await cluster()
        bundle = await bundle_of(seat)
        await seat.ownership.acquire(bundle)
        again = Seat(seat.near.session(), 0)
        assert await again.ownership.owner_of(bundle) == again.addresses
        assert again.ownership.owns(TOPIC)
        assert await again.near.owns(paths.bundle_owner_path(bundle.namespace, bundle.range))
        assert await other.ownership.owner_of(bundle) == again.addresses

    async def test_a_check_takes_a_lock_of_an_earlier_life(self) -> None:
        seat, _ = await cluster()
        await seat.ownership.acquire(await bundle_of(seat))
        again = Seat(seat.near.session(), 0)
        await again.ownership.check(TOPIC)
        assert again.ownership.owns(TOPIC)

    async def test_own_namespaces_exist_without_policies(self) -> None:
        seat, _ = await cluster()
        for bundle in heartbeat_bundles("c1", seat.addresses.broker_id):
            await seat.ownership.acquire(bundle)
        assert await seat.near.exists("/namespace/pulsar/c1/h0:8080/0x00000000_0xffffffff") is not None
        assert await seat.near.exists("/namespace/pulsar/h0:8080/0x00000000_0xffffffff") is not None


class TestGivingAway:
    async def test_while_it_is_given_away_nobody_new_comes_and_others_still_name_the_owner(self) -> None:
        seat, other = await cluster()
        bundle = await bundle_of(seat)
        await seat.ownership.acquire(bundle)
        assert await other.ownership.owner_of(bundle) == seat.addresses
        assert seat.ownership.deactivate(bundle)
        assert not seat.ownership.deactivate(bundle)
        with pytest.raises(MetadataFault, match=f"Namespace bundle {bundle} is being unloaded"):
            await seat.ownership.owner_of(bundle)
        with pytest.raises(ServiceNotReady, match=f"Namespace is being unloaded, cannot add topic {TOPIC.full}"):
            await seat.ownership.check(TOPIC)
        assert await other.ownership.owner_of(bundle) == seat.addresses
        await seat.ownership.release(bundle)
        assert seat.lost == [bundle.range]
        assert await seat.ownership.owner_of(bundle) is None
        await other.ownership.acquire(bundle)
        assert await seat.ownership.owner_of(bundle) == other.addresses

    async def test_nobody_waits_for_a_store_that_is_away_and_the_lock_goes_when_it_is_back(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seat, other = await cluster()
        bundle = await bundle_of(seat)
        await seat.ownership.acquire(bundle)
        back = asyncio.Event()
        get = seat.store.get

        async def get_later(path: str) -> Record | None:
            await back.wait()
            return await get(path)

        monkeypatch.setattr(seat.store, "get", get_later)
        monkeypatch.setattr(DistantStore, "is_connected", False)
        assert seat.ownership.deactivate(bundle)
        with pytest.raises(MetadataFault, match="does not answer"):
            await seat.ownership.release(bundle)
        assert seat.lost == [bundle.range]
        assert not seat.ownership.owns(TOPIC)
        path = paths.bundle_owner_path(bundle.namespace, bundle.range)
        heard: list[EventType] = []
        other.near.watch(path, lambda event: heard.append(event.type))
        back.set()
        await until(lambda: EventType.DELETED in heard)

    async def test_who_does_not_own_says_so_in_apache_s_words(self) -> None:
        seat, other = await cluster()
        bundle = await bundle_of(seat)
        await other.ownership.acquire(bundle)
        text = (
            f"Namespace bundle ({bundle}) for topic ({TOPIC.full}) not served by this instance:h0:8080. "
            "Please redo the lookup."
        )
        with pytest.raises(ServiceNotReady) as caught:
            await seat.ownership.check(TOPIC)
        assert str(caught.value) == text
        with pytest.raises(ServiceNotReady) as caught:
            seat.ownership.check_now(TOPIC)
        assert str(caught.value) == text

    async def test_an_owner_of_an_old_version_that_gives_it_away_is_respected(self) -> None:
        seat, _ = await cluster()
        bundle = await bundle_of(seat)
        value = BundleOwner(addresses_of(Urls("pulsar://old:6650", web="http://old:8080")), is_disabled=True).value()
        path = paths.bundle_owner_path(bundle.namespace, bundle.range)
        await seat.near.create(path, value, ephemeral=True, make_parents=True)
        with pytest.raises(MetadataFault, match="is being unloaded"):
            await seat.ownership.owner_of(bundle)


class TestLosing:
    async def test_a_broker_whose_session_is_over_learns_that_another_has_its_bundle(self) -> None:
        seat, other = await cluster()
        bundle = await bundle_of(seat)
        await seat.ownership.acquire(bundle)
        path = paths.bundle_owner_path(bundle.namespace, bundle.range)
        # Another broker gets in between the end of the session and the check.
        value = BundleOwner(other.addresses).value()
        await seat.near.delete(path)
        await other.near.create(path, value, ephemeral=True, make_parents=True)
        await until(lambda: seat.lost == [bundle.range])
        assert not seat.ownership.owns(TOPIC)
        assert await seat.ownership.owner_of(bundle) == other.addresses

    async def test_a_lock_that_vanished_and_that_nobody_took_is_ours_again(self) -> None:
        seat, other = await cluster()
        bundle = await bundle_of(seat)
        await seat.ownership.acquire(bundle)
        path = paths.bundle_owner_path(bundle.namespace, bundle.range)
        heard: list[EventType] = []
        other.near.watch(path, lambda event: heard.append(event.type))
        await seat.near.delete(path)
        await until(lambda: EventType.CREATED in heard)
        assert await seat.near.owns(path)
        assert seat.lost == []
        assert seat.ownership.owns(TOPIC)

    async def test_a_closed_broker_takes_nothing(self) -> None:
        seat, _ = await cluster()
        bundle = await bundle_of(seat)
        seat.ownership.close()
        with pytest.raises(MetadataFault):
            await seat.ownership.acquire(bundle)


def test_addresses_by_listener() -> None:
    addresses = BrokerAddresses("h:1", Urls("pulsar://h:2"), {"out": Urls("pulsar://o:3")})
    assert (addresses.of(""), addresses.of("out"), addresses.of("in")) == (
        Urls("pulsar://h:2"),
        Urls("pulsar://o:3"),
        None,
    )


class TestFencedWithoutTheStore:
    async def test_a_topic_that_another_broker_fenced_takes_its_bundle_along(self) -> None:
        seat, _ = await cluster()
        bundle = await bundle_of(seat)
        await seat.ownership.acquire(bundle)
        seat.store.connected = False
        seat.ownership.fenced(TOPIC)
        assert not seat.ownership.owns(TOPIC)
        assert seat.lost == [bundle.range]
        seat.ownership.fenced(TOPIC)
        assert seat.lost == [bundle.range]

    async def test_the_bundle_is_had_again_when_nobody_has_taken_its_lock(self) -> None:
        seat, _ = await cluster()
        bundle = await bundle_of(seat)
        await seat.ownership.acquire(bundle)
        seat.store.connected = False
        seat.ownership.fenced(TOPIC)
        seat.store.connected = True
        assert await seat.ownership.owner_of(bundle) == seat.addresses
        assert seat.ownership.owns(TOPIC)

    async def test_with_the_store_the_lock_decides(self) -> None:
        seat, _ = await cluster()
        await seat.ownership.acquire(await bundle_of(seat))
        seat.ownership.fenced(TOPIC)
        assert seat.ownership.owns(TOPIC)
