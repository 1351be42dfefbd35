"""Two brokers of a cluster answer lookups byte for byte as two Apache brokers did."""

import json
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl

import pytest
from multidict import MultiDict

from magnetar.metadata import paths
from magnetar.metadata.coordination.lock_manager import LockManager
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.admin import lookup_calls
from magnetar.server.broker.broker import Broker
from magnetar.server.config.connection_settings import ConnectionSettings
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.namespaces.broker_addresses import BrokerAddresses, addresses_of
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.bundle_ownership import BundleOwnership
from magnetar.server.namespaces.placement import SolePlacement
from magnetar.server.network.ports import Urls
from magnetar.server.protocol.client_traffic import ClientTraffic
from magnetar.server.topics.broker_service import BrokerService
from magnetar.server.web.calls import Call, Moved
from tests.server.fakes import Peer
from tests.server.topics.broker_scene import FakeFactory
from tests.server.topics.cluster_scene import BOUNDARIES, NAMESPACE

RECORDED = json.loads((Path(__file__).parents[2] / "vectors" / "cluster_lookups.json").read_text())
LEADER = addresses_of(Urls("pulsar://127.0.0.1:24650", web="http://127.0.0.1:24080"))
FOLLOWER = addresses_of(Urls("pulsar://127.0.0.1:24651", web="http://127.0.0.1:24081"))


class Chosen(SolePlacement):
    """What the load manager of the recorded brokers decided."""

    def __init__(self, own: BrokerAddresses) -> None:
        super().__init__(own)
        self.is_leader = own == LEADER
        self.next = [FOLLOWER, LEADER]

    async def leader(self) -> BrokerAddresses | None:
        return LEADER

    async def choose(self, bundle: BundleName) -> BrokerAddresses | None:
        return self.next.pop(0)


@pytest.fixture
async def brokers() -> dict[str, Broker]:
    tree = MemoryStore()
    policies = {"bundles": {"boundaries": list(BOUNDARIES), "numBundles": len(BOUNDARIES) - 1}}
    await tree.create(paths.policies_path(NAMESPACE), json.dumps(policies).encode(), make_parents=True)
    made = {}
    for name, own in (("leader", LEADER), ("follower", FOLLOWER)):
        store = tree.session()
        make = partial(BundleOwnership, store=store, locks=LockManager(store), addresses=own)
        service = BrokerService(cast(Any, FakeFactory(store)), store, TopicSettings(), make)
        await service.warm_up()
        made[name] = Broker(service, ConnectionSettings(), placement=Chosen(own))
    return made


async def look_up(brokers: dict[str, Broker], url: str) -> tuple[int, str | None, str]:
    """Makes one recorded call over HTTP; returns status, location and body."""
    base, _, rest = url.removeprefix("http://").partition("/lookup/v2/topic/")
    path, _, query = rest.partition("?")
    domain, tenant, namespace, topic, *last = path.split("/")
    broker = brokers["leader" if base == LEADER.broker_id else "follower"]
    parts = {"domain": domain, "tenant": tenant, "namespace": namespace, "topic": topic}
    pairs: MultiDict[str] = MultiDict(parse_qsl(query))
    call = Call(broker, parts, pairs, {})
    try:
        if last:
            answer = await lookup_calls.bundle(call)
            return 200, None, answer.body.decode()
        return 200, None, json.dumps(await lookup_calls.lookup(call), separators=(",", ":"))
    except Moved as moved:
        return 307, moved.location, ""


async def test_the_answers_are_those_of_apache(brokers: dict[str, Broker]) -> None:
    peers = {name: Peer(ClientTraffic(broker)).connect() for name, broker in brokers.items()}
    for peer in peers.values():
        await peer.answers()
    for number, exchange in enumerate(RECORDED["frames"]):
        peer = peers[exchange["asked"]]
        peer.feed(bytes.fromhex(exchange["request"]))
        await peer.answer()
        assert bytes(peer.transport.taken)[-len(exchange["answer"]) // 2 :].hex() == exchange["answer"], number

    followed = [each for each in RECORDED["http"] if "listenerName" not in each["url"]]
    assert len(followed) == 7
    for recorded in followed:
        answered = await look_up(brokers, recorded["url"])
        assert answered == (recorded["status"], recorded["location"], recorded["answer"]), recorded["url"]

    tree = brokers["leader"].service.metadata
    for path, value in RECORDED["owners"].items():
        record = await tree.get(path)
        if path.endswith(("0x00000000_0x40000000", "0x40000000_0x80000000")):
            assert record is not None
            assert record.value.decode() == value
