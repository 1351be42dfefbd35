"""metadataServiceUri, as BookKeeper's configuration has it, and the layout that a cluster must have."""

import pytest

from magnetar.metadata.cluster_init import LAYOUT_VALUE
from magnetar.metadata.zookeeper.service_uri import HIERARCHICAL, ServiceUri, layout_fault, parse_service_uri


@pytest.mark.parametrize(
    ("uri", "parsed"),
    [
        ("zk+hierarchical://h1:2181;h2:2182/ledgers", ServiceUri("h1:2181,h2:2182", HIERARCHICAL)),
        ("zk://h1:2181,h2/ledgers", ServiceUri("h1:2181,h2")),
        ("zk+null://h1/pulsar/ledgers/", ServiceUri("h1/pulsar")),
        ("h1:2181", ServiceUri("h1:2181")),
        ("zk:h1:2181,h2:2181", ServiceUri("h1:2181,h2:2181")),
        ("metadata-store:zk:h1:2181;h2:2181/pulsar", ServiceUri("h1:2181,h2:2181/pulsar")),
    ],
)
def test_the_store_has_the_ledgers_where_the_uri_says(uri: str, parsed: ServiceUri) -> None:
    assert parse_service_uri(uri) == parsed


@pytest.mark.parametrize(
    "uri",
    [
        "etcd://h1/ledgers",
        "zk+flat://h1/ledgers",
        "zk:///ledgers",
        "zk://h1/data",
        "",
        "zk://h1:x/ledgers",
        "metadata-store:etcd:h1",
        "metadata-store:zk:",
    ],
)
def test_what_cannot_be_used_is_refused_by_name(uri: str) -> None:
    with pytest.raises(ValueError, match="metadataServiceUri"):
        parse_service_uri(uri)


def test_a_layout_that_is_known_and_asked_for_is_no_fault() -> None:
    assert layout_fault(LAYOUT_VALUE) is None
    assert layout_fault(LAYOUT_VALUE + b"\n", HIERARCHICAL) is None


@pytest.mark.parametrize(
    ("value", "wanted", "word"),
    [
        (b"2\norg.apache.bookkeeper.meta.LongHierarchicalLedgerManagerFactory:1", HIERARCHICAL, "asks for"),
        (b"2\norg.apache.bookkeeper.meta.LongHierarchicalLedgerManagerFactory:1", "", "known here"),
        (b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:2", "", "known here"),
        (b"1\nhierarchical", "", "not understood"),
        (b"", "", "not understood"),
    ],
)
def test_another_layout_is_named(value: bytes, wanted: str, word: str) -> None:
    assert word in (layout_fault(value, wanted) or "")
