"""Apache's broker.conf starts a broker of a cluster, and what does not fit is told in one sentence with its key."""

import json
import logging
from pathlib import Path

import pytest

from magnetar.server.config.bookie_keys import BOOKIE_KEYS
from magnetar.server.config.broker_config import ConfigError, ServerConfig, load_config
from magnetar.server.config.broker_keys import BROKER_KEYS, BROKER_SECTIONS
from magnetar.server.config.cluster_settings import (
    bookkeeper_uri,
    cluster_settings,
    ledger_client_settings,
    managed_ledger_settings,
)
from magnetar.server.config.fault_settings import FaultSettings
from magnetar.server.config.key_kinds import Key
from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.config.topic_settings import TopicSettings

VECTORS = Path(__file__).parents[2] / "vectors"
DEFAULTS: dict[str, str] = json.loads((VECTORS / "broker_conf_defaults.json").read_text())["defaults"]
NEEDED = {"clusterName": "c", "metadataStoreUrl": "zk:h1:2181,h2:2181/chroot"}


def config(**keys: str) -> ServerConfig:
    return load_config(None, NEEDED | keys, BROKER_KEYS)


def test_no_key_of_a_broker_is_in_two_tables() -> None:
    assert len(BROKER_KEYS) == sum(map(len, BROKER_SECTIONS))


def test_an_untouched_broker_conf_of_apache_starts_a_broker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in (DEFAULTS | NEEDED).items()))
    loaded = load_config(conf, {}, BROKER_KEYS)
    settings = cluster_settings(loaded)
    assert settings.local_store == settings.configuration_store == "h1:2181,h2:2181/chroot"
    assert (settings.session_timeout_ms, settings.operation_timeout_seconds) == (30_000, 30)
    assert settings.broker_shutdown_timeout_ms == 60_000
    assert managed_ledger_settings(loaded).quorums == (2, 2, 2)
    ledgers, wire = ledger_client_settings(loaded)
    assert (ledgers.add_entry_timeout_sec, ledgers.speculative_read_timeout_sec) == (30, 0)
    assert wire.use_v2_wire_protocol
    assert bookkeeper_uri(loaded, settings).connect == "h1:2181,h2:2181/chroot"
    assert loaded.fill(LoadSettings) == LoadSettings()
    assert loaded.fill(TopicSettings).cluster_name == "c"
    # Everything that has no effect is named, once.
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    told = caplog.text.split("without effect in this version: ")[1].strip().split(", ")
    without = [key for key, value in DEFAULTS.items() if value and key not in BROKER_KEYS]
    assert told == without


@pytest.mark.parametrize("keys", [BROKER_KEYS, BOOKIE_KEYS], ids=["broker", "bookie"])
def test_a_key_of_standalone_servers_is_named_as_one_without_effect(
    keys: dict[str, Key], caplog: pytest.LogCaptureFixture
) -> None:
    load_config(None, (NEEDED if keys is BROKER_KEYS else {}) | {"acceptMetadataGeneration": "7"}, keys)
    assert "without effect in this version: acceptMetadataGeneration" in caplog.text


def test_a_broker_of_a_cluster_says_that_it_takes_no_faults(caplog: pytest.LogCaptureFixture) -> None:
    load_config(None, NEEDED | {"faultInjectionEnabled": "true"}, BROKER_KEYS)
    assert "without effect in this version: faultInjectionEnabled" in caplog.text
    caplog.clear()
    assert load_config(None, {"faultInjectionEnabled": "true"}).fill(FaultSettings).fault_injection_enabled
    assert caplog.text == ""


def test_a_broker_without_its_own_keys_has_apaches_defaults() -> None:
    loaded = config()
    assert managed_ledger_settings(loaded).quorums == (2, 2, 2)
    assert ledger_client_settings(loaded)[0].speculative_read_timeout_sec == 0
    assert cluster_settings(loaded).zookeeper_session_expired_policy == "reconnect"


@pytest.mark.parametrize(
    ("keys", "local", "configuration"),
    [
        ({"configurationMetadataStoreUrl": "zk:g:1"}, "h1:2181,h2:2181/chroot", "g:1"),
        ({"configurationStoreServers": "g:1"}, "h1:2181,h2:2181/chroot", "g:1"),
        ({"globalZookeeperServers": "g:1"}, "h1:2181,h2:2181/chroot", "g:1"),
        ({"zookeeperServers": "old:1"}, "h1:2181,h2:2181/chroot", "h1:2181,h2:2181/chroot"),
        ({"metadataStoreUrl": "", "zookeeperServers": "old:1"}, "old:1", "old:1"),
    ],
)
def test_older_names_of_the_stores(keys: dict[str, str], local: str, configuration: str) -> None:
    settings = cluster_settings(config(**keys))
    assert (settings.local_store, settings.configuration_store) == (local, configuration)


def test_the_older_session_timeout_wins_if_it_is_positive() -> None:
    both = {"metadataStoreSessionTimeoutMillis": "5000", "zooKeeperSessionTimeoutMillis": "7000"}
    assert cluster_settings(config(**both)).session_timeout_ms == 7_000
    assert cluster_settings(config(**both | {"zooKeeperSessionTimeoutMillis": "-1"})).session_timeout_ms == 5_000


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"clusterName": ""}, "clusterName is not set: a broker belongs to the cluster of this name"),
        ({"metadataStoreUrl": ""}, "metadataStoreUrl is not set"),
        ({"metadataStoreUrl": "rocksdb:///data"}, "metadataStoreUrl=rocksdb:///data: rocksdb is no kind of store"),
        ({"metadataStoreUrl": "zk:h:port"}, "metadataStoreUrl=zk:h:port: "),
        ({"metadataStoreSessionTimeoutMillis": "0"}, "metadataStoreSessionTimeoutMillis=0: expected a whole number"),
        (
            {"zookeeperSessionExpiredPolicy": "x"},
            "zookeeperSessionExpiredPolicy=x: expected one of reconnect, shutdown",
        ),
        ({"bookkeeperClientAuthenticationPlugin": "a.B"}, "Java's plugins are not loaded"),
        ({"bookkeeperMetadataServiceUri": "etcd://h/x"}, "bookkeeperMetadataServiceUri=etcd://h/x"),
        (
            {"loadManagerClassName": "org.apache.pulsar.broker.loadbalance.extensions.ExtensibleLoadManagerImpl"},
            "loadManagerClassName",
        ),
        (
            {"loadManagerClassName": "org.apache.pulsar.broker.loadbalance.impl.SimpleLoadManagerImpl"},
            "expected ModularLoadManagerImpl, which all brokers of a cluster must have",
        ),
    ],
)
def test_what_does_not_fit_is_told_with_its_key(keys: dict[str, str], sentence: str) -> None:
    def settings() -> None:
        loaded = config(**keys)
        bookkeeper_uri(loaded, cluster_settings(loaded))

    with pytest.raises(ConfigError) as error:
        settings()
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_the_keys_of_the_ledger_client() -> None:
    ledgers, _ = ledger_client_settings(
        config(
            bookkeeperClientRackawarePolicyEnabled="false",
            bookkeeperClientRegionawarePolicyEnabled="true",
            bookkeeperClientIsolationGroups="g1,g2",
            bookkeeperClientSecondaryIsolationGroups="g3",
            bookkeeperClientHealthCheckEnabled="false",
            bookkeeperClientHealthCheckIntervalSeconds="7",
            bookkeeperClientSpeculativeReadTimeoutInMillis="1500",
        )
    )
    assert (ledgers.rack_aware, ledgers.region_aware, ledgers.bookie_health_check) == (False, True, False)
    assert (ledgers.isolation_groups, ledgers.secondary_isolation_groups) == ("g1,g2", "g3")
    assert (ledgers.bookie_errors_interval_sec, ledgers.speculative_read_timeout_sec) == (7, 1.5)
