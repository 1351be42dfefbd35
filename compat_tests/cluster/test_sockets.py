"""WebSockets in a cluster of three brokers: each broker serves sockets of topics that all of them own, and the sockets
stay open when topics move and brokers are killed."""

import json
import time
import urllib.error
import urllib.request
import uuid
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jwt
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from compat_tests.cluster.cluster import Cluster, Seats
from compat_tests.cluster.own_zookeeper import OwnZooKeeper
from compat_tests.cluster.seats import BrokerSeat
from compat_tests.cluster.socket_streams import Consuming, Producing
from compat_tests.harness import WAIT_SECONDS, wait_until
from compat_tests.redirects import FollowRedirects

PARTITIONS = 6
SECRET = "a secret of this test's cluster, for its own roles only"
PROVIDER = "org.apache.pulsar.broker.authentication.AuthenticationProviderToken"
PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"


def token(role: str) -> str:
    return jwt.encode({"sub": role}, SECRET, algorithm="HS256")


SETTINGS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationProviders": PROVIDER,
    "superUserRoles": "broker,admin",
    "tokenSecretKey": f"data:,{SECRET}",
    "brokerClientAuthenticationPlugin": PLUGIN,
    "brokerClientAuthenticationParameters": f"token:{token('broker')}",
    "defaultNumberOfNamespaceBundles": "12",
    "loadBalancerReportUpdateMinIntervalMillis": "200",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("cluster")
    with Cluster(folder, bookies=1, brokers=3, settings=SETTINGS, seats=Seats(metadata=OwnZooKeeper)) as made:
        yield made


def call(broker: BrokerSeat, method: str, path: str, body: Any = None) -> str:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token('admin')}"}
    request = urllib.request.Request(broker.web_url + path, data, headers, method=method)
    with urllib.request.build_opener(FollowRedirects).open(request, timeout=60) as answer:
        return str(answer.read().decode())


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    """Returns a new namespace, in which the role alice may do everything with messages."""
    name = f"public/sockets-{uuid.uuid4().hex[:8]}"
    one = cluster.brokers[0]
    known = f"/admin/v2/brokers/{cluster.name}"
    wait_until(lambda: all(len(json.loads(call(each, "GET", known))) == 3 for each in cluster.brokers), "all are known")
    call(one, "PUT", f"/admin/v2/namespaces/{name}")
    call(one, "POST", f"/admin/v2/namespaces/{name}/permissions/alice", ["produce", "consume"])
    return name


def owner(broker: BrokerSeat, topic: str) -> str:
    """Returns the web address of a topic's owner."""
    return str(json.loads(call(broker, "GET", f"/lookup/v2/topic/{topic}"))["httpUrl"])


def owned_after_a_move(broker: BrokerSeat, one: BrokerSeat, topic: str) -> bool:
    """Unloads the topic's namespace, and returns whether the broker then owns a partition: placement goes by load, and
    so by chance."""
    namespace = topic.removeprefix("persistent/").rpartition("/")[0]
    call(one, "PUT", f"/admin/v2/namespaces/{namespace}/unload")
    return broker.web_url in {owner(one, f"{topic}-partition-{each}") for each in range(PARTITIONS)}


def opened(broker: BrokerSeat, path: str, role: str = "alice", **query: str) -> ClientConnection:
    url = f"ws{broker.web_url.removeprefix('http')}/ws/{path}?{urlencode({**query, 'token': token(role)})}"
    return connect(url, max_size=None, compression=None, open_timeout=WAIT_SECONDS)


def test_sockets_stay_open_while_partitions_move_and_a_broker_is_killed(cluster: Cluster, namespace: str) -> None:
    """Nothing that was answered "ok" is lost, answers come in order, and each partition keeps its order."""
    one = cluster.brokers[0]
    topic = f"persistent/{namespace}/parted"
    call(one, "PUT", f"/admin/v2/{topic}/partitions", PARTITIONS)
    assert len({owner(one, f"{topic}-partition-{index}") for index in range(PARTITIONS)}) == 3
    with (
        opened(one, f"v2/consumer/{topic}/s", subscriptionInitialPosition="Earliest") as consumer,
        opened(cluster.brokers[1], f"v2/producer/{topic}", messageRoutingMode="RoundRobinPartition") as producer,
    ):
        consuming, producing = Consuming(consumer), Producing(producer, PARTITIONS)
        producing.goes_on()
        wait_until(lambda: owned_after_a_move(cluster.brokers[2], one, topic), "the third broker owns a partition")
        producing.goes_on()
        began = time.monotonic()
        cluster.brokers[2].kill()
        producing.goes_on()
        assert time.monotonic() - began < 25
        producing.end()
        wait_until(lambda: consuming.has_all(producing.stored), "everything that was stored is consumed")
        assert (producing.faults, consuming.faults) == ([], [])
        assert producing.answers == list(range(producing.sent))
        assert consuming.has_in_order(producing.stored)
        wait_until(lambda: backlog(one, topic) == 0, "everything is acknowledged")
    cluster.brokers[2].start()


def backlog(broker: BrokerSeat, topic: str) -> int:
    stats = json.loads(call(broker, "GET", f"/admin/v2/{topic}/partitioned-stats"))
    return int(stats["subscriptions"]["s"]["msgBacklog"])


def test_a_pattern_is_consumed_over_one_socket_at_all_brokers(cluster: Cluster, namespace: str) -> None:
    topics = [f"persistent/{namespace}/logs-{number}" for number in range(8)]
    for topic in topics[:4]:
        call(cluster.brokers[0], "PUT", f"/admin/v2/{topic}")
    pattern = f"persistent://{namespace}/l.*"
    one = cluster.brokers[1]
    with opened(one, "v3/consumer/s", topicsPattern=pattern, subscriptionInitialPosition="Earliest") as consumer:
        consuming = Consuming(consumer)
        for number, topic in enumerate(topics):
            with opened(cluster.brokers[number % 3], f"v2/producer/{topic}") as producer:
                producer.send(json.dumps({"payload": b64encode(str(number).encode()).decode()}))
                assert json.loads(producer.recv(WAIT_SECONDS))["result"] == "ok"
        wait_until(lambda: set(consuming.found[-1]) == set(range(8)), "the messages of all topics came")
    assert len({owner(one, topic) for topic in topics}) > 1


def test_a_role_without_permission_is_refused_by_each_broker(cluster: Cluster, namespace: str) -> None:
    topic = f"persistent/{namespace}/parted"
    call(cluster.brokers[0], "PUT", f"/admin/v2/{topic}/partitions", PARTITIONS)
    for broker in cluster.brokers:
        for path in (f"v2/producer/{topic}", f"v2/consumer/{topic}/s", f"v2/reader/{topic}"):
            with pytest.raises(InvalidStatus) as caught:
                opened(broker, path, "eve")
            assert caught.value.response.status_code == 403
