"""What administrators do with a namespace in a cluster of two brokers, whoever made them, by calls of any of them."""

import json
import urllib.error
import urllib.request
from itertools import pairwise
from typing import Any

import pytest

from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.seats import BrokerSeat
from compat_tests.harness import wait_until
from compat_tests.redirects import FollowRedirects

NAMESPACE = "public/admincalls"
PARTITIONS = 8
FOLLOWING = urllib.request.build_opener(FollowRedirects)


def call(broker: BrokerSeat, method: str, path: str, body: Any = None) -> Any:
    """Returns what was answered, after the redirects. Raises HTTPError, which tells the reason."""
    data = None if body is None else json.dumps(body).encode()
    headers = {} if body is None else {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{broker.web_url}/admin/v2{path}", data, headers, method=method)
    try:
        with FOLLOWING.open(request, timeout=30) as answer:
            said = answer.read()
    except urllib.error.HTTPError as error:
        error.msg = f"{method} {error.url}: {error.read().decode()}"
        raise
    return json.loads(said) if said else None


def broker_id(broker: BrokerSeat) -> str:
    return broker.web_url.removeprefix("http://")


def bundles(broker: BrokerSeat) -> list[str]:
    edges = call(broker, "GET", f"/namespaces/{NAMESPACE}/bundles")["boundaries"]
    return [f"{low}_{high}" for low, high in pairwise(edges)]


def owners(cluster: Cluster) -> dict[str, str]:
    """Returns the owner of each owned bundle of the namespace, by its range."""
    found = {}
    for broker in cluster.brokers:
        for bundle in call(broker, "GET", f"/brokers/c1/{broker_id(broker)}/ownedNamespaces"):
            if bundle.startswith(f"{NAMESPACE}/"):
                found[bundle.rpartition("/")[2]] = broker_id(broker)
    return found


def use_namespace(cluster: Cluster, asked: BrokerSeat) -> None:
    """Makes a namespace with a partitioned topic at one broker, uses, moves and splits it, and deletes it; looks at
    both brokers for what became of it."""
    first, second = cluster.brokers
    parts = f"/persistent/{NAMESPACE}/p"
    call(asked, "PUT", f"/namespaces/{NAMESPACE}")
    call(asked, "PUT", f"{parts}/partitions", PARTITIONS)
    call(asked, "PUT", f"{parts}/subscription/s", "earliest")
    assert set(owners(cluster).values()) == {broker_id(first), broker_id(second)}, "bundles are spread evenly"

    for broker in cluster.brokers:
        stats = call(broker, "GET", f"{parts}/partitioned-stats")
        assert len(stats["partitions"]) == PARTITIONS
        assert {each["ownerBroker"] for each in stats["partitions"].values()} == {broker_id(first), broker_id(second)}
    call(asked, "POST", f"{parts}/partitions", PARTITIONS + 4)
    grown = call(second, "GET", f"/persistent/{NAMESPACE}/p-partition-{PARTITIONS + 3}/stats")
    assert list(grown["subscriptions"]) == ["s"]

    before = bundles(asked)
    bundle = before[0]
    there = broker_id(second) if owners(cluster)[bundle] == broker_id(first) else broker_id(first)
    call(asked, "PUT", f"/namespaces/{NAMESPACE}/{bundle}/unload?destinationBroker={there}")
    for at in range(PARTITIONS):
        call(asked, "GET", f"/persistent/{NAMESPACE}/p-partition-{at}/stats")
    wait_until(lambda: owners(cluster).get(bundle) == there, "the bundle is where it was sent")

    call(asked, "PUT", f"/namespaces/{NAMESPACE}/{bundle}/split?unload=true")
    for broker in cluster.brokers:
        assert len(bundles(broker)) == 5
    parts_of_split = set(bundles(asked)) - {*before}
    wait_until(
        lambda: not parts_of_split & owners(cluster).keys(), "the parts are unloaded, as the split was asked to do"
    )
    call(asked, "PUT", f"/namespaces/{NAMESPACE}/unload")
    wait_until(lambda: not owners(cluster), "all bundles are given away")
    call(asked, "DELETE", f"{parts}/subscription/s")
    call(asked, "DELETE", f"/namespaces/{NAMESPACE}?force=true")
    for broker in cluster.brokers:
        with pytest.raises(urllib.error.HTTPError) as refused:
            call(broker, "GET", f"/namespaces/{NAMESPACE}")
        assert refused.value.code == 404
    assert owners(cluster) == {}
