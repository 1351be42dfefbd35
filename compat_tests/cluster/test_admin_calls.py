"""Two brokers as administrators see them: any of them is asked for anything, and the call is done where it belongs."""

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from compat_tests.cluster.admin_flow import FOLLOWING, NAMESPACE, PARTITIONS, broker_id, call, owners, use_namespace
from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.seats import BrokerSeat
from compat_tests.harness import wait_until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"forceDeleteNamespaceAllowed": "true"}
    with Cluster(tmp_path_factory.mktemp("cluster"), bookies=1, brokers=2, settings=settings) as made:
        yield made


@pytest.fixture(params=[0, 1], ids=["asked-first", "asked-second"])
def asked(cluster: Cluster, request: pytest.FixtureRequest) -> BrokerSeat:
    number: int = request.param
    return cluster.brokers[number]


def test_a_namespace_is_used_split_moved_and_deleted_through_any_broker(cluster: Cluster, asked: BrokerSeat) -> None:
    use_namespace(cluster, asked)


def test_the_configuration_is_one_and_takes_hold_everywhere(cluster: Cluster, asked: BrokerSeat) -> None:
    key = "maxNumPartitionsPerPartitionedTopic"
    call(asked, "POST", f"/brokers/configuration/{key}/3")
    for broker in cluster.brokers:
        wait_until(
            lambda broker=broker: call(broker, "GET", "/brokers/configuration/runtime")[key] == "3",  # type: ignore[misc]
            "the value holds",
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            call(broker, "PUT", "/persistent/public/default/toomany/partitions", 4)
        assert refused.value.code == 406
    call(asked, "DELETE", f"/brokers/configuration/{key}")
    for broker in cluster.brokers:
        wait_until(
            lambda broker=broker: call(broker, "GET", "/brokers/configuration/runtime")[key] == "0",  # type: ignore[misc]
            "the value of broker.conf is back",
        )


def test_every_broker_is_asked_about_itself_and_about_the_others(cluster: Cluster, asked: BrokerSeat) -> None:
    ids = sorted(map(broker_id, cluster.brokers))
    assert call(asked, "GET", "/brokers") == call(asked, "GET", "/brokers/c1") == ids
    assert call(asked, "GET", "/brokers/leaderBroker")["brokerId"] in ids
    for one in ids:
        with FOLLOWING.open(f"{asked.web_url}/admin/v2/brokers/health?brokerId={one}", timeout=30) as answer:
            assert answer.read() == b"ok"
        assert answer.url.startswith(f"http://{one}/")
    report = call(asked, "GET", "/broker-stats/load-report")
    assert report["webServiceUrl"] == asked.web_url
    assert report["loadManagerClassName"].endswith(".ModularLoadManagerImpl")


def test_a_broker_that_is_shut_down_over_rest_leaves_its_bundles_to_the_others(cluster: Cluster) -> None:
    """The last test: afterwards the cluster has one broker."""
    first, second = cluster.brokers
    call(first, "PUT", f"/namespaces/{NAMESPACE}")
    call(first, "PUT", f"/persistent/{NAMESPACE}/p/partitions", PARTITIONS)
    call(first, "PUT", f"/persistent/{NAMESPACE}/p/subscription/s", "earliest")
    assert len(set(owners(cluster).values())) == 2
    call(second, "POST", "/brokers/shutdown?maxConcurrentUnloadPerSec=20")
    assert second.wait(30) == 0
    assert call(first, "GET", "/brokers") == [broker_id(first)]
    stats = call(first, "GET", f"/persistent/{NAMESPACE}/p/partitioned-stats")
    assert [list(each["subscriptions"]) for each in stats["partitions"].values()] == [["s"]] * PARTITIONS
