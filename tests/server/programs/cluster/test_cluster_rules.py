"""What a cluster on one machine consists of: ports that stay, copies by the number of bookies, command lines."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from magnetar.metadata.cluster_setup import LedgersPlace
from magnetar.server.programs.cluster.cluster_rules import (
    BrokerPorts,
    ClusterLayout,
    ClusterLayoutError,
    ClusterPlan,
    Wishes,
    copies_for,
    lay_out,
    ready_document,
)


@pytest.fixture
def ports() -> Iterator[int]:
    return count(20_000)


def settings_of(words: list[str]) -> dict[str, str]:
    return dict(words[number + 1].split("=", 1) for number, word in enumerate(words) if word == "--set")


def plan(layout: ClusterLayout, **options: Any) -> ClusterPlan:
    return ClusterPlan(Path("/d"), layout, len(layout.brokers), **options)


def test_a_new_cluster_gets_ports_of_its_own(ports: Iterator[int]) -> None:
    layout = lay_out(None, Wishes(), ports.__next__)
    everything = [layout.metadata_port, *layout.bookies]
    everything += [port for each in layout.brokers for port in (each.broker, each.web)]
    assert len(set(everything)) == len(everything) == 8
    assert layout.cluster == "pulsar-cluster"


def test_the_next_start_finds_everything_where_it_was(ports: Iterator[int]) -> None:
    first = lay_out(None, Wishes(cluster="c", broker_port=6650, web_port=8080), ports.__next__)
    assert first.brokers == (BrokerPorts(6650, 8080), BrokerPorts(6651, 8081))
    stored = ClusterLayout.from_json(first.to_json())
    assert lay_out(stored, Wishes(), ports.__next__) == first


def test_brokers_and_bookies_may_be_added_and_brokers_left_out(ports: Iterator[int]) -> None:
    first = lay_out(None, Wishes(), ports.__next__)
    more = lay_out(first, Wishes(brokers=4, bookies=5), ports.__next__)
    assert (more.brokers[:2], more.bookies[:3]) == (first.brokers, first.bookies)
    assert (len(more.brokers), len(more.bookies)) == (4, 5)
    fewer = lay_out(more, Wishes(brokers=1, bookies=5), ports.__next__)
    assert fewer == more, "the ports of brokers that are left out are remembered"


@pytest.mark.parametrize(
    ("wishes", "reason"),
    [
        (Wishes(bookies=2), "has 3 bookies with ledgers on them, and --bookies 2"),
        (Wishes(cluster="other"), "holds the cluster 'pulsar-cluster', not 'other'"),
        (Wishes(metadata_url="zk1:2181"), "is in the data folder itself, not in zk1:2181"),
    ],
)
def test_another_cluster_is_refused(wishes: Wishes, reason: str, ports: Iterator[int]) -> None:
    known = lay_out(None, Wishes(), ports.__next__)
    with pytest.raises(ClusterLayoutError, match=reason):
        lay_out(known, wishes, ports.__next__)


@pytest.mark.parametrize(
    ("bookies", "copies"), [(1, (1, 1, 1)), (2, (2, 2, 2)), (3, (2, 2, 2)), (4, (3, 3, 2)), (7, (3, 3, 2))]
)
def test_copies_follow_the_number_of_bookies(bookies: int, copies: tuple[int, int, int]) -> None:
    assert copies_for(bookies) == copies


def test_a_brokers_command_line(ports: Iterator[int]) -> None:
    layout = lay_out(None, Wishes(), ports.__next__)
    words = plan(layout).broker_words(1)
    assert words[0] == "broker"
    assert "--ready-json" in words
    metadata = f"zk:127.0.0.1:{layout.metadata_port}"
    assert settings_of(words) == {
        "managedLedgerDefaultEnsembleSize": "2",
        "managedLedgerDefaultWriteQuorum": "2",
        "managedLedgerDefaultAckQuorum": "2",
        "bindAddress": "127.0.0.1",
        "advertisedAddress": "127.0.0.1",
        "metadataStoreUrl": metadata,
        "configurationMetadataStoreUrl": metadata,
        "clusterName": "pulsar-cluster",
        "brokerServicePort": str(layout.brokers[1].broker),
        "webServicePort": str(layout.brokers[1].web),
    }


def test_the_configuration_outranks_our_defaults_but_not_the_layout(ports: Iterator[int]) -> None:
    layout = lay_out(None, Wishes(), ports.__next__)
    given = {"managedLedgerDefaultEnsembleSize": "2", "brokerServicePortTls": "6651", "clusterName": "other"}
    words = plan(layout, broker_conf=Path("/b.conf"), broker_given=given, host="0.0.0.0").broker_words(1)
    settings = settings_of(words)
    assert words[1:3] == ["--conf", "/b.conf"]
    assert "managedLedgerDefaultEnsembleSize" not in settings, "the file has it"
    assert "managedLedgerDefaultAckQuorum" not in settings
    assert settings["brokerServicePortTls"] == "6652", "each broker needs one of its own"
    assert settings["clusterName"] == "pulsar-cluster"
    assert (settings["bindAddress"], settings["advertisedAddress"]) == ("0.0.0.0", "127.0.0.1")
    overrides = {"advertisedAddress": "big.example", "webServicePort": "1", "webServicePortTls": "0"}
    settings = settings_of(plan(layout, broker_settings=overrides).broker_words(0))
    assert settings["advertisedAddress"] == "big.example"
    assert settings["webServicePort"] == str(layout.brokers[0].web)
    assert settings["webServicePortTls"] == "0", "any free port"
    listeners = {"advertisedListeners": "inside:pulsar://h:1"}
    assert "advertisedAddress" not in settings_of(plan(layout, broker_settings=listeners).broker_words(0))


def test_the_metadata_servers_command_line(ports: Iterator[int]) -> None:
    layout = lay_out(None, Wishes(), ports.__next__)
    words = plan(layout).metadata_words()
    assert words[:5] == ["zookeeper", "--data-dir", "/d/metadata", "--port", str(layout.metadata_port)]
    assert settings_of(words) == {"clientPortAddress": "127.0.0.1"}


def test_the_first_records_name_all_brokers(ports: Iterator[int]) -> None:
    layout = lay_out(None, Wishes(metadata_url="z:2181/chroot", broker_port=6650, web_port=8080), ports.__next__)
    records = plan(layout, host="::").records()
    assert records.urls["brokerServiceUrl"] == "pulsar://127.0.0.1:6650,127.0.0.1:6651"
    assert records.urls["serviceUrl"] == "http://127.0.0.1:8080,127.0.0.1:8081"
    assert records.ledgers == LedgersPlace("z:2181", "/chroot/ledgers")


def test_a_bookies_command_line(ports: Iterator[int]) -> None:
    layout = lay_out(None, Wishes(metadata_url="zk:z1:2181,z2:2181/chroot"), ports.__next__)
    words = plan(layout, bookie_settings={"journalMaxGroupWaitMSec": "2"}).bookie_words(2)
    settings = settings_of(words)
    assert settings["metadataServiceUri"] == "zk+hierarchical://z1:2181;z2:2181/chroot/ledgers"
    assert settings["bookiePort"] == str(layout.bookies[2])
    assert settings["listeningInterface"] == "lo", "a bookie has no authentication"
    assert settings["journalDirectories"] == "/d/bookie-3/journal"
    assert settings["journalMaxGroupWaitMSec"] == "2"


def test_the_ready_document_has_the_issues_shape() -> None:
    broker = {"brokerServiceUrl": "pulsar://h:1", "webServiceUrl": "http://h:2", "pid": 3, "version": "x"}
    bookie = {"bookieId": "h:4", "host": "h", "port": 4, "pid": 5}
    assert ready_document([broker, {}], [bookie], {"url": "zk:h:6", "pid": 7}) == {
        "brokers": [{"brokerServiceUrl": "pulsar://h:1", "webServiceUrl": "http://h:2", "pid": 3}, {"pid": None}],
        "bookies": [{"address": "h:4", "pid": 5}],
        "metadata": {"url": "zk:h:6", "pid": 7},
    }
