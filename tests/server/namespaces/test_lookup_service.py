"""Lookups at several brokers: by the rules one at a time, and as clients walk from broker to broker."""

import asyncio
from random import Random

import pytest

from magnetar.metadata import paths
from magnetar.server.namespaces import lookup_rules
from magnetar.server.namespaces.broker_addresses import BrokerAddresses, addresses_of
from magnetar.server.namespaces.bundle_name import BundleName, heartbeat_bundles, sla_bundle
from magnetar.server.namespaces.lookup_rules import LookupAnswer, NextStep, next_step
from magnetar.server.namespaces.lookup_service import LookupService
from magnetar.server.namespaces.ownership import SoleOwner
from magnetar.server.namespaces.placement import SolePlacement
from magnetar.server.network.ports import Urls
from pulsar_proto.errors import MetadataFault, PulsarError, ServiceNotReady
from pulsar_proto.names import TopicName
from tests.server.namespaces.ownership_scene import NAMESPACE, TOPIC, Seat, cluster

REDIRECTS_MAX = 20
"""After so many redirects a client gives up (maxLookupRedirects)."""


class View(SolePlacement):
    """What one broker believes about the cluster. Tests change it at will."""

    def __init__(self, seat: Seat) -> None:
        super().__init__(seat.addresses)
        self.is_leader = False
        self.known_leader: BrokerAddresses | None = None
        self.choice: list[BrokerAddresses] = []
        self.registered: dict[str, BrokerAddresses] = {}
        self.newer: BrokerAddresses | None = None
        self.asked = 0

    async def leader(self) -> BrokerAddresses | None:
        await asyncio.sleep(0)
        return self.known_leader

    async def choose(self, bundle: BundleName) -> BrokerAddresses | None:
        self.asked += 1
        await asyncio.sleep(0)
        return self.choice[0] if self.choice else None

    async def broker(self, broker_id: str) -> BrokerAddresses | None:
        await asyncio.sleep(0)
        return self.registered.get(broker_id)

    async def newer_make(self) -> BrokerAddresses | None:
        return self.newer


class Looking:
    """A broker with its lookups."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.view = View(seat)
        self.preloaded: list[str] = []
        self.lookups = LookupService(seat.ownership, self.view, lambda bundle: self.preloaded.append(bundle.range))


async def brokers(size: int = 2, leader: int | None = 0) -> list[Looking]:
    """Returns brokers that agree on the leader, which chooses the last one of them."""
    found = [Looking(seat) for seat in await cluster(size)]
    registered = {each.seat.addresses.broker_id: each.seat.addresses for each in found}
    for number, each in enumerate(found):
        each.view.registered = registered
        each.view.choice = [found[-1].seat.addresses]
        each.view.is_leader = number == leader
        each.view.known_leader = None if leader is None else found[leader].seat.addresses
    return found


async def bundle_of(broker: Looking) -> BundleName:
    return await broker.seat.ownership.bundle_of(TOPIC)


def told(answer: LookupAnswer) -> tuple[str, str, bool]:
    return "redirect" if answer.is_redirect else "connect", answer.broker.broker_id, answer.authoritative


@pytest.mark.parametrize(
    ("authoritative", "is_leader", "known", "step"),
    [
        (True, False, True, NextStep.TAKE),
        (True, True, True, NextStep.TAKE),
        (False, True, False, NextStep.PLACE),
        (False, False, False, NextStep.PLACE),
        (False, False, True, NextStep.ASK_LEADER),
    ],
)
def test_a_bundle_without_owner(authoritative: bool, is_leader: bool, known: bool, step: NextStep) -> None:
    assert next_step(authoritative=authoritative, is_leader=is_leader, leader_is_known=known) is step


class TestAtOnce:
    async def test_a_sole_broker_answers_what_it_knows_as_if_it_had_asked(self) -> None:
        (seat,) = await cluster(1)
        owner = SoleOwner(seat.bundles, seat.addresses)
        lookups = LookupService(owner, SolePlacement(seat.addresses))
        assert lookups.at_once(TOPIC) is None, "the bundles were never read"
        asked = await lookups.find_topic(TOPIC)
        assert lookups.at_once(TOPIC) == asked
        assert (lookups.counters.answers, lookups.counters.latency.count) == (2, 2)
        assert lookups.at_once(TopicName.parse("persistent://acme/nobody/t0")) is None

    async def test_it_asks_while_a_bundle_is_given_away(self) -> None:
        (seat,) = await cluster(1)
        owner = SoleOwner(seat.bundles, seat.addresses)
        lookups = LookupService(owner, SolePlacement(seat.addresses))
        asked = await lookups.find_topic(TOPIC)
        bundle = await owner.bundle_of(TOPIC)
        owner.deactivate(bundle)
        assert lookups.at_once(TOPIC) is None
        owner.activate(bundle)
        assert lookups.at_once(TOPIC) == asked

    async def test_it_asks_after_the_bundles_have_changed(self) -> None:
        (seat,) = await cluster(1)
        lookups = LookupService(SoleOwner(seat.bundles, seat.addresses), SolePlacement(seat.addresses))
        await lookups.find_topic(TOPIC)
        await seat.store.put(paths.local_policies_path(NAMESPACE), b"{}")
        assert lookups.at_once(TOPIC) is None

    async def test_brokers_of_a_cluster_ask(self) -> None:
        (only,) = await brokers(1)
        assert told(await only.lookups.find_topic(TOPIC))[0] == "connect"
        assert only.lookups.at_once(TOPIC) is None


class TestOneStep:
    async def test_a_follower_sends_to_the_leader_who_sends_to_the_chosen_who_takes_it(self) -> None:
        leader, follower, chosen = await brokers(3)
        assert told(await follower.lookups.find_topic(TOPIC)) == ("redirect", "h0:8080", False)
        assert told(await leader.lookups.find_topic(TOPIC)) == ("redirect", "h2:8080", True)
        answer = await chosen.lookups.find_topic(TOPIC, authoritative=True, preload=True)
        assert told(answer) == ("connect", "h2:8080", True)
        assert chosen.preloaded == [(await bundle_of(chosen)).range]
        for each in (leader, follower, chosen):
            assert told(await each.lookups.find_topic(TOPIC, preload=True)) == ("connect", "h2:8080", True)
        assert leader.preloaded == follower.preloaded == []
        assert len(chosen.preloaded) == 1, "only a lookup that makes it the owner loads ahead"

    async def test_without_a_leader_the_asked_broker_decides(self) -> None:
        asked, chosen = await brokers(leader=None)
        assert told(await asked.lookups.find_topic(TOPIC)) == ("redirect", "h1:8080", True)
        assert told(await chosen.lookups.find_topic(TOPIC)) == ("connect", "h1:8080", True)

    async def test_nobody_to_choose(self) -> None:
        leader, _ = await brokers()
        leader.view.choice = []
        with pytest.raises(ServiceNotReady, match=f"No broker was available to own {TOPIC.full}"):
            await leader.lookups.find_topic(TOPIC)

    async def test_lookups_at_the_same_time_share_one_decision(self) -> None:
        leader, _ = await brokers()
        answers = await asyncio.gather(*(leader.lookups.find_topic(TOPIC) for _ in range(20)))
        assert len({told(answer) for answer in answers}) == 1
        assert leader.view.asked == 1

    async def test_one_who_goes_away_leaves_the_others_their_answer(self) -> None:
        leader, _ = await brokers()
        asking = [asyncio.ensure_future(leader.lookups.find_topic(TOPIC)) for _ in range(3)]
        for _ in range(5):
            await asyncio.sleep(0)
        asking[0].cancel()
        assert told(await asking[1]) == told(await asking[2]) == ("redirect", "h1:8080", True)

    async def test_a_bundle_that_is_given_away(self) -> None:
        leader, owner = await brokers()
        bundle = await bundle_of(owner)
        await owner.seat.ownership.acquire(bundle)
        owner.seat.ownership.deactivate(bundle)
        with pytest.raises(MetadataFault, match=f"Namespace bundle {bundle} is being unloaded"):
            await owner.lookups.find_topic(TOPIC)
        assert told(await leader.lookups.find_topic(TOPIC)) == ("connect", "h1:8080", True)

    async def test_a_lookup_waits_for_the_end_of_an_unload_and_gives_the_bundle_a_new_owner(self) -> None:
        leader, owner = await brokers()
        bundle = await bundle_of(owner)
        await owner.seat.ownership.acquire(bundle)
        owner.seat.ownership.departures.wait_seconds_max = 60.0
        leader.view.choice = [leader.seat.addresses]
        owner.seat.ownership.deactivate(bundle)
        asking = asyncio.ensure_future(owner.lookups.find_topic(TOPIC))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not asking.done()
        await owner.seat.ownership.release(bundle)
        assert told(await asking) == ("redirect", "h0:8080", False)

    async def test_whoever_is_too_late_says_so(self) -> None:
        one, two = await brokers()
        bundle = await bundle_of(one)
        results = await asyncio.gather(
            *(each.lookups.find(bundle, authoritative=True) for each in (one, two)), return_exceptions=True
        )
        texts = [str(each) for each in results if isinstance(each, MetadataFault)]
        assert texts == [f"Failed to acquire ownership for namespace bundle {bundle}"]

    async def test_a_cluster_on_its_way_to_another_load_manager(self) -> None:
        leader, _ = await brokers()
        leader.view.newer = addresses_of(Urls("pulsar://new:6650", web="http://new:8080"))
        await leader.seat.ownership.acquire(await bundle_of(leader))
        assert told(await leader.lookups.find_topic(TOPIC)) == ("redirect", "new:8080", True)
        own = heartbeat_bundles("c1", "h0:8080")[0]
        assert told(await leader.lookups.find(own)) == ("connect", "h0:8080", True)


class TestReserved:
    async def test_a_broker_s_own_namespace_is_its_own_even_for_the_leader(self) -> None:
        leader, follower = await brokers()
        for bundle in heartbeat_bundles("c1", "h1:8080"):
            assert told(await leader.lookups.find(bundle)) == ("redirect", "h1:8080", True)
            assert told(await follower.lookups.find(bundle)) == ("connect", "h1:8080", True)
        bundle = heartbeat_bundles("c1", "h0:8080")[1]
        assert told(await follower.lookups.find(bundle)) == ("redirect", "h0:8080", False)
        assert follower.view.asked == leader.view.asked == 0

    async def test_that_of_a_broker_which_is_not_there_is_nobody_s(self) -> None:
        leader, _ = await brokers()
        with pytest.raises(MetadataFault):
            await leader.lookups.find(heartbeat_bundles("c1", "gone:8080")[0])
        assert told(await leader.lookups.find(sla_bundle("c1", "gone:8080"))) == ("redirect", "h1:8080", True)
        assert told(await leader.lookups.find(sla_bundle("c1", "h0:8080"))) == ("connect", "h0:8080", True)


async def walk(found: list[Looking], start: int) -> str | None:
    """Looks up as a client does; returns the id of the broker to connect to, or None when it is to try again."""
    by_id = {each.seat.addresses.broker_id: each for each in found}
    at, authoritative = found[start], False
    for _ in range(REDIRECTS_MAX):
        try:
            answer = await at.lookups.find_topic(TOPIC, authoritative=authoritative)
        except PulsarError:
            return None
        if not answer.is_redirect:
            return answer.broker.broker_id
        at, authoritative = by_id[answer.broker.broker_id], answer.authoritative
    return None


@pytest.mark.parametrize("seed", range(60))
async def test_clients_of_brokers_that_disagree_find_one_owner_in_the_end(seed: int) -> None:
    """Brokers believe in different leaders or none, choose at random, unload and lose bundles while clients look up.
    At no time do two brokers believe that they own the bundle, and once all agree on a leader, all clients come to the
    same broker."""
    rng = Random(seed)
    found = await brokers(3)
    bundle = await bundle_of(found[0])
    path = paths.bundle_owner_path(NAMESPACE, bundle.range)

    def owners() -> list[str]:
        return [each.seat.addresses.broker_id for each in found if each.seat.ownership.is_active(bundle)]

    async def unload(broker: Looking) -> None:
        ownership = broker.seat.ownership
        if ownership.deactivate(bundle):
            await asyncio.sleep(0)
            await ownership.release(bundle)

    clients: list[asyncio.Task[str | None]] = []
    for _ in range(40):
        one = rng.choice(found)
        match rng.randrange(4):
            case 0:
                clients.append(asyncio.ensure_future(walk(found, rng.randrange(3))))
            case 1:
                one.view.known_leader = rng.choice([None, *(each.seat.addresses for each in found)])
                one.view.is_leader = one.view.known_leader == one.seat.addresses
            case 2:
                one.view.choice = [rng.choice(found).seat.addresses]
            case 3:
                await unload(one)
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
            assert len(owners()) <= 1
    await asyncio.gather(*clients)

    for each in found:
        each.view.known_leader = found[1].seat.addresses
        each.view.is_leader = each is found[1]
    reached = set()
    for start in range(3):
        for _ in range(3):  # a client tries again
            if (owner := await walk(found, start)) is not None:
                break
        reached.add(owner)
    assert reached == set(owners())
    assert len(reached) == 1
    assert await found[0].seat.near.exists(path) is not None


def test_answers_by_rule() -> None:
    broker = addresses_of(Urls("pulsar://h:6650", web="http://h:8080"))
    assert lookup_rules.connect(broker) == LookupAnswer(False, broker, True)
    assert lookup_rules.redirect(broker, is_decided=False) == LookupAnswer(True, broker, False)
