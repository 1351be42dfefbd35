"""Bundles over brokers of ours: spread evenly, taken over when a broker dies, placed by a new leader, moved by an
operator, and kept where isolation policies want them."""

import json
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest

from compat_tests.cluster import admin
from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.seats import BrokerSeat
from compat_tests.harness import wait_until

SETTINGS = {
    "metadataStoreSessionTimeoutMillis": "3000",
    "loadBalancerReportUpdateMinIntervalMillis": "200",
    "defaultNumberOfNamespaceBundles": "8",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), bookies=1, brokers=3, settings=SETTINGS) as made:
        yield made


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    """Returns a new namespace on three brokers that know each other."""
    for each in cluster.brokers:
        if not each.is_running:
            each.start()
    wait_until(lambda: all(len(admin.registered(each, cluster.name)) == 3 for each in cluster.brokers), "all are known")
    name = f"public/load-{uuid.uuid4().hex[:8]}"
    admin.call(cluster.brokers[0], f"/admin/v2/namespaces/{name}", "PUT")
    return name


def is_found(broker: BrokerSeat, topic: str) -> bool:
    try:
        return bool(admin.lookup(broker, topic).web_url)
    except urllib.error.HTTPError:
        return False


def metrics(broker: BrokerSeat) -> str:
    with urllib.request.urlopen(f"{broker.web_url}/metrics/") as answer:
        return str(answer.read().decode())


def living(cluster: Cluster) -> list[BrokerSeat]:
    return [each for each in cluster.brokers if each.is_running]


def test_bundles_are_spread_and_a_killed_brokers_move_whoever_leads(cluster: Cluster, namespace: str) -> None:
    one = cluster.brokers[0]
    before = admin.owners(one, namespace)
    assert len(before) == 8
    assert sorted(Counter(before.values()).values()) == [2, 3, 3]
    for each in cluster.brokers:
        assert admin.owners(each, namespace) == before, "everybody says the same"

    (leader,) = [each for each in cluster.brokers if each.broker_id == admin.leader(one)]
    leader.kill()
    rest = living(cluster)
    began = time.monotonic()
    wait_until(lambda: all(leader.broker_id not in admin.registered(each, cluster.name) for each in rest), "it is gone")
    wait_until(lambda: {admin.leader(each) for each in rest} <= {each.broker_id for each in rest}, "another one leads")
    assert time.monotonic() - began < 15
    after = admin.owners(rest[0], namespace)
    assert sorted(Counter(after.values()).values()) == [4, 4]
    moved = {bundle for bundle in before if before[bundle] != after[bundle]}
    assert moved == {bundle for bundle in before if before[bundle] == leader.web_url}
    assert admin.owners(rest[1], namespace) == after


def test_a_broker_that_slept_past_its_session_comes_back_without_its_bundles(cluster: Cluster, namespace: str) -> None:
    one = cluster.brokers[0]
    before = admin.owners(one, namespace)
    leader = admin.leader(one)
    sleeper = next(each for each in cluster.brokers if each.broker_id != leader)
    awake = [each for each in cluster.brokers if each is not sleeper]
    lost = {bundle for bundle, owner in before.items() if owner == sleeper.web_url}
    assert lost
    sleeper.pause()
    try:
        wait_until(lambda: sleeper.broker_id not in admin.registered(awake[0], cluster.name), "it is gone")
        during = admin.owners(awake[0], namespace)
        assert {during[bundle] for bundle in lost} == {each.web_url for each in awake}
    finally:
        sleeper.resume()
    wait_until(lambda: sleeper.broker_id in admin.registered(awake[0], cluster.name), "it is back")
    wait_until(lambda: admin.owners(sleeper, namespace) == during, "it knows that its bundles have moved")
    wait_until(lambda: len(admin.registered(sleeper, cluster.name)) == 3, "it knows the others")
    admin.call(awake[0], f"/admin/v2/namespaces/{namespace}-later", "PUT")
    assert sleeper.web_url in admin.owners(awake[0], f"{namespace}-later").values(), "it gets new ones"


def test_an_operator_sends_a_bundle_where_it_shall_go(cluster: Cluster, namespace: str) -> None:
    one = cluster.brokers[0]
    before = admin.owners(one, namespace)
    bundle = next(iter(before))
    target = next(each for each in cluster.brokers if each.web_url != before[bundle])
    path = f"/admin/v2/namespaces/{namespace}/{bundle}/unload?destinationBroker={target.broker_id}"
    admin.call(one, path, "PUT")
    wait_until(lambda: admin.owners(one, namespace)[bundle] == target.web_url, "the bundle is there")


def test_an_isolated_namespace_stays_with_its_brokers_and_metrics_tell_loads(cluster: Cluster, namespace: str) -> None:
    """All brokers have one host here, so all are primaries of one policy: another namespace has no broker left."""
    one = cluster.brokers[0]
    policy = {
        "namespaces": [f"{namespace}.*"],
        "primary": ["127.0.0.1"],
        "secondary": [],
        "auto_failover_policy": {
            "policy_type": "min_available",
            "parameters": {"min_limit": "1", "usage_threshold": "100"},
        },
    }
    path = f"/admin/v2/clusters/{cluster.name}/namespaceIsolationPolicies/p"
    admin.call(one, path, "POST", policy)
    try:
        admin.call(one, "/admin/v2/namespaces/public/other", "PUT")
        assert len(admin.owners(one, namespace)) == 8
        with pytest.raises(urllib.error.HTTPError) as caught:
            admin.lookup(one, "public/other/t")
        assert caught.value.code == 503, caught.value.read()
    finally:
        admin.call(one, path, "DELETE")
    wait_until(lambda: is_found(one, "public/other/t"), "without the policy every broker may own it")

    page = metrics(one)
    for name in ("cpu", "memory", "directMemory", "bandwidth_in", "bandwidth_out"):
        assert f"pulsar_lb_{name}_usage{{" in page
    assert "pulsar_bundle_" not in page
    admin.call(one, "/admin/v2/brokers/configuration/exposeBundlesMetricsInPrometheus/true", "POST")
    try:
        wait_until(lambda: "pulsar_bundle_topics_count{" in metrics(one), "the setting takes hold while it runs")
    finally:
        admin.call(one, "/admin/v2/brokers/configuration/exposeBundlesMetricsInPrometheus", "DELETE")
    report = admin.call(one, "/admin/v2/broker-stats/load-report")
    assert json.dumps(report)
