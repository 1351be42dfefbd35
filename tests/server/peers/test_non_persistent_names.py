"""Lists of non-persistent topics, which are gathered from the owners of a namespace's bundles."""

import asyncio
import json
from typing import Any

from magnetar.server.namespaces.broker_addresses import BrokerAddresses
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.network.ports import Urls
from magnetar.server.peers.admin_peer import PeerAnswer
from magnetar.server.peers.non_persistent_names import NonPersistentNames
from magnetar.server.peers.peer_errors import PeerUnreachableError
from pulsar_proto.errors import MetadataFault

NAMESPACE = "t/n"
BUNDLES = [BundleName.of(NAMESPACE, start << 28, (start + 1) << 28) for start in range(6)]


def address(number: int) -> BrokerAddresses:
    return BrokerAddresses(f"b{number}:80", Urls(web=f"http://b{number}:80"))


class Cluster:
    """The owners of six bundles: this broker, two others, nobody, one that gives its bundle away, a dead one."""

    is_sole = False
    broker_id = "b0:80"

    def __init__(self) -> None:
        self.bundles = self
        self.all = BUNDLES
        self.asked: list[str] = []
        self.answers: dict[str, Any] = {}

    async def get(self, namespace: str) -> "Cluster":
        await asyncio.sleep(0)
        return self

    async def owner_of(self, bundle: BundleName) -> BrokerAddresses | None:
        await asyncio.sleep(0)
        number = BUNDLES.index(bundle)
        if number == 4:
            raise MetadataFault("is being unloaded")
        return None if number == 3 else address(number)

    async def call(self, method: str, url: str, path: str, *, deadline_seconds: float | None = None) -> PeerAnswer:
        await asyncio.sleep(0)
        self.asked.append(f"{method} {url}{path}")
        answer = self.answers.get(url)
        if answer is None:
            raise PeerUnreachableError(url)
        return PeerAnswer(200, {}, json.dumps(answer).encode())

    def non_persistent_topics_of(self, namespace: str) -> list[str]:
        return [f"non-persistent://{namespace}/here"]


def names_of(cluster: Cluster) -> NonPersistentNames:
    return NonPersistentNames(cluster, cluster, lambda: cluster)  # type: ignore[arg-type]


async def test_every_owner_is_asked_and_who_does_not_answer_is_left_out() -> None:
    cluster = Cluster()
    cluster.answers = {
        "http://b1:80": ["non-persistent://t/n/one", "non-persistent://t/n/here", "persistent://t/n/no", 7],
        "http://b2:80": {"reason": "no list"},
    }
    names = names_of(cluster)
    assert await names.of(NAMESPACE) == ["non-persistent://t/n/here", "non-persistent://t/n/one"]
    ranges = [bundle.range for bundle in BUNDLES]
    assert sorted(cluster.asked) == [
        f"GET http://b{number}:80/admin/v2/non-persistent/t/n/{ranges[number]}" for number in (1, 2, 5)
    ]


async def test_those_who_ask_together_share_one_round() -> None:
    cluster = Cluster()
    cluster.answers = {url: [] for url in ("http://b1:80", "http://b2:80", "http://b5:80")}
    names = names_of(cluster)
    first, second = await asyncio.gather(names.of(NAMESPACE), names.of(NAMESPACE))
    assert first == second == ["non-persistent://t/n/here"]
    assert len(cluster.asked) == 3
    await names.of(NAMESPACE)
    assert len(cluster.asked) == 6
