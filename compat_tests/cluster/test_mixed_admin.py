"""Administrators of a cluster of Apache's broker and ours: each broker sends calls on to the other, and asks it for its
part of what they own together."""

from collections.abc import Iterator

import pytest

from compat_tests.cluster.admin_flow import use_namespace
from compat_tests.cluster.apache_seats import ApacheBroker
from compat_tests.cluster.cluster import Cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {"forceDeleteNamespaceAllowed": "true"}
    made = Cluster(tmp_path_factory.mktemp("cluster"), bookies=1, brokers=1, settings=settings)
    made.add_broker(ApacheBroker, **settings)
    with made:
        yield made


@pytest.mark.parametrize("asked", [0, 1], ids=["asked-ours", "asked-apaches"])
def test_a_namespace_is_used_split_moved_and_deleted_through_either_make(cluster: Cluster, asked: int) -> None:
    use_namespace(cluster, cluster.brokers[asked])
