"""metadataServiceUri, as BookKeeper's configuration has it."""

import pytest

from metadata.service_uri import zookeeper_connect


@pytest.mark.parametrize(
    ("uri", "connect"),
    [
        ("zk+hierarchical://h1:2181;h2:2182/ledgers", "h1:2181,h2:2182"),
        ("zk://h1:2181,h2/ledgers", "h1:2181,h2"),
        ("zk+null://h1/pulsar/ledgers/", "h1/pulsar"),
        ("h1:2181", "h1:2181"),
        ("zk:h1:2181,h2:2181", "h1:2181,h2:2181"),
    ],
)
def test_the_store_has_the_ledgers_where_the_uri_says(uri: str, connect: str) -> None:
    assert zookeeper_connect(uri) == connect


@pytest.mark.parametrize("uri", ["etcd://h1/ledgers", "zk+flat://h1/ledgers", "zk:///ledgers", "zk://h1/data", ""])
def test_what_cannot_be_used_is_refused_by_name(uri: str) -> None:
    with pytest.raises(ValueError, match="metadataServiceUri"):
        zookeeper_connect(uri)
